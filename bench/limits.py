"""The raw limit: one row of the size of ours, inserted and committed, with nothing around it.

Nothing that keeps a step durably in that database can be quicker than this.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

from .stores import NotDurable, Postgres

MANY_CLIENTS = 32
# The table of events, as it stands in store/sql/tables.sql.
TABLE = """
create table {name} (
    task_id text not null,
    seq bigint not null,
    holder bigint not null,
    kind text not null,
    body text not null,
    at_ms bigint not null,
    digest text not null,
    primary key (task_id, seq)
)
"""
TASK = "0192c7d2-5f0e-7cc1-8f2b-9d4f6c1b2a3e"
BODY = '{"name":"step","number":17,"result":17}'
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
SCRIPT = f"""
insert into events values ('{TASK}-' || :client_id, nextval('seq'), 1, 'step.done', '{BODY}',
 (extract(epoch from clock_timestamp()) * 1000)::bigint, '{DIGEST}');
"""


def postgres(store: Postgres, seconds: int) -> dict[str, float]:
    """Inserts a second of pgbench, over TCP, prepared. Raises NotDurable."""
    url = store.make()
    try:
        store.server.run(TABLE.format(name="events"), database=url.rpartition("/")[2])
        store.server.run("create sequence seq cache 1000", database=url.rpartition("/")[2])
        store.assert_durable(url)
        return {
            "PostgreSQL, 1 client": _pgbench(store, url, 1, seconds),
            f"PostgreSQL, {MANY_CLIENTS} clients": _pgbench(store, url, MANY_CLIENTS, seconds),
        }
    finally:
        store.drop(url)


def _pgbench(store: Postgres, url: str, clients: int, seconds: int) -> float:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(SCRIPT)
        script.flush()
        command = [str(_program(store)), "-n", "-M", "prepared", "-f", script.name]
        command += ["-c", str(clients), "-j", str(min(clients, 2)), "-T", str(seconds), url]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + 60, check=True
        )
    found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.M)
    if found is None:
        raise RuntimeError(f"pgbench said: {done.stdout}")
    return float(found[1])


def _program(store: Postgres) -> Path:
    return store.release.programs / "pgbench"


def sqlite(seconds: float) -> dict[str, float]:
    """Inserts a second of a bare loop, WAL and synchronous=full, a transaction each."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(f"{folder}/limit.db", isolation_level=None)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            connection.execute(TABLE.format(name="events"))
            assert_full(connection)
            return {"SQLite, one writer": _inserts(connection, seconds)}
        finally:
            connection.close()


def assert_full(connection: sqlite3.Connection) -> None:
    """Raises NotDurable unless each commit of this connection waits for the disk."""
    (level,) = connection.execute("pragma synchronous").fetchone()
    if level < 2:
        raise NotDurable(f"synchronous is {level}, full is 2")


def _inserts(connection: sqlite3.Connection, seconds: float) -> float:
    insert = "insert into events values (?, ?, 1, 'step.done', ?, ?, ?)"
    began, done = time.monotonic(), 0
    while (now := time.monotonic()) < began + seconds:
        connection.execute("begin immediate")
        connection.execute(insert, (TASK, done, BODY, int(now * 1000), DIGEST))
        connection.execute("commit")
        done += 1
    return done / (time.monotonic() - began)
