"""Rows made by SQL, where a size is too large for verbs; and what the server says of rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from outlast.core.chain import Quote, entry
from outlast.core.model import Event
from tests.support.prepared import prepare

from ..plans import blocks, outline

Connection = psycopg.Connection[tuple[Any, ...]]
FIRST_DUE_MS = 1_700_000_000_000
PER_WORKER = 500
# An id of the width of a real one, in the order of time.
ID = "'0192c7d2-5f0e-7cc1-8f2b-' || lpad(to_hex(n), 12, '0')"
TASKS = f"""
insert into outlast.tasks (
       id, queue, agent, input, labels, priority, max_resumes, max_expiries, created_ms, state,
       reason, due_ms, epoch, failures, resumes, expiries, handoffs, head_seq, head_digest, head_ms)
select {ID}, 'default', 'agent', '{{"n":1}}', '{{}}', 0, 5, 50, {FIRST_DUE_MS}, %(state)s,
       'first', %(due_ms)s + n, %(epoch)s, 0, 0, 0, 0, 1, repeat('f', 64), {FIRST_DUE_MS}
  from generate_series(%(low)s + 1, %(high)s) n
"""
EVENTS = f"""
insert into outlast.events (task_id, seq, holder, kind, body, at_ms, digest)
select {ID}, 1, 0, 'task.submitted', '{{"agent":"agent","input":{{"n":1}},"queue":"default"}}',
       {FIRST_DUE_MS}, repeat('f', 64)
  from generate_series(%(low)s + 1, %(high)s) n
"""
LEASES = f"""
insert into outlast.leases (
       task_id, grant_digest, epoch, worker, token, ttl_ms, granted_ms, expires_ms, spared,
       beat_ms, progress_ms)
select {ID}, repeat('f', 64), 1, 'worker-' || (n - 1) / {PER_WORKER}, 'token-' || n / 50, 3600000,
       outlast.now_ms(), outlast.now_ms() + 3600000, 0, outlast.now_ms(), outlast.now_ms()
  from generate_series(%(low)s + 1, %(high)s) n
"""
# What a planner knows of a table that nobody has analysed: nothing but its size on disk.
UNWATCHED = "alter table outlast.tasks set (autovacuum_enabled = false)"
FORGET = [
    UNWATCHED,
    "delete from pg_statistic where starelid = 'outlast.tasks'::regclass",
    """update pg_class set reltuples = -1, relpages = 0, relallvisible = 0
        where oid in (select unnest(array[indrelid, indexrelid]) from pg_index
                       where indrelid = 'outlast.tasks'::regclass)""",
]
SIZES = """
select relname, pg_relation_size(oid) + case relkind when 'r' then
       pg_table_size(oid) - pg_relation_size(oid) else 0 end
  from pg_class
 where relnamespace = 'outlast'::regnamespace and relkind in ('r', 'i')
 order by relname
"""
WAL = "select (pg_current_wal_lsn() - '0/0')::bigint"
HOT = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'leases'"
SESSIONS = """
select count(*)
  from pg_stat_activity
 where datname = current_database() and application_name = 'outlast'
"""
# Without what we ask on the side.
STATEMENTS = """
select coalesce(sum(calls), 0)::bigint
  from pg_stat_statements
 where dbid = (select oid from pg_database where datname = current_database())
   and query not like '%pg_stat_statements%'
"""
SETTLED = 7  # a session chooses between a plan for all values and one for these after five


@contextmanager
def beside(url: str) -> Iterator[Connection]:
    """A connection of our own, for what no verb does."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        yield connection


def ready(connection: Connection, low: int, high: int, *, due_ms: int = FIRST_DUE_MS) -> None:
    """Tasks number `low` + 1 to `high`, which may be claimed once they are due."""
    asked = {"low": low, "high": high, "due_ms": due_ms, "state": "ready", "epoch": 0}
    for statement in (TASKS, EVENTS):
        connection.execute(statement.encode(), asked)


def held(connection: Connection, low: int, high: int) -> None:
    """The same, under leases of an hour, so many to a worker."""
    asked = {"low": low, "high": high, "due_ms": FIRST_DUE_MS, "state": "running", "epoch": 1}
    for statement in (TASKS, LEASES):
        connection.execute(statement.encode(), asked)


def events(connection: Connection, quote: Quote, epoch: int, count: int, body: str) -> Quote:
    """So many steps more at the end of a log, with their digests; the quote of the last."""
    names = Event.__struct_fields__
    with connection.cursor().copy(f"copy outlast.events ({', '.join(names)}) from stdin") as copy:
        for _ in range(count):
            one = entry(quote, epoch, holder=epoch, kind="step.done", body=body, at_ms=0).event
            copy.write_row([getattr(one, name) for name in names])
            quote = Quote.of(one)
    return quote


def settle(connection: Connection) -> None:
    """Let nothing of the filling be left to do while we measure."""
    connection.execute("vacuum analyze")
    connection.execute("checkpoint")


def forget(connection: Connection) -> None:
    for statement in FORGET:
        connection.execute(statement.encode())


def sizes(connection: Connection) -> dict[str, int]:
    """Bytes on disk, by table and index."""
    return {str(name): int(size) for name, size in connection.execute(SIZES.encode()).fetchall()}


def explained(connection: Connection, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """What one run of a prepared statement read, by the plan on which a session settles."""
    run = prepare(connection, name, values)
    for _ in range(SETTLED):
        with connection.transaction(force_rollback=True):
            explain = f"explain (analyze, buffers, format json) {run}"
            [[[ran]]] = connection.execute(explain.encode()).fetchall()
    return {
        "statement": name,
        "blocks": blocks(ran["Plan"]),
        "from_disk": ran["Plan"].get("Shared Read Blocks", 0),
        "ms": round(ran["Execution Time"], 3),
        # Once a session has settled on a plan for all values this is next to nothing.
        "planning_ms": round(ran["Planning Time"], 3),
        "plan": outline(ran["Plan"]).splitlines(),
    }
