"""Where the systems keep what they keep: servers of our own, asked whether they are durable."""

from __future__ import annotations

import itertools
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from draintest.peers.redis_server import Redis
from draintest.peers.restate_server import Restate
from draintest.peers.temporal_server import Temporal
from draintest.workplace import Workplace

_numbers = itertools.count(1)

SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.max": "10000",
    "shared_buffers": "128MB",
    "max_connections": "400",
    "max_wal_size": "4GB",
}
# What a committed transaction must outlive: a kill, and the loss of power.
WANTED = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"}
REDIS_WANTED = {"appendonly": "yes", "appendfsync": "always"}
OVERRIDES = """
select coalesce(datname, 'any database') || ': ' || setting
  from pg_db_role_setting
  left join pg_database on pg_database.oid = setdatabase
 cross join unnest(setconfig) as setting
 where setting ~ '^(synchronous_commit|fsync|full_page_writes)='
   and setting !~ '=on$'
"""
UNLOGGED = "select relname::text from pg_class where relkind = 'r' and relpersistence = 'u'"
FUNCTIONS = """
select proname::text
  from pg_proc
  join pg_namespace on pg_namespace.oid = pronamespace
 where nspname not in ('pg_catalog', 'information_schema')
   and (prosrc ~* 'synchronous_commit' or proconfig::text ~ 'synchronous_commit')
"""
# To what it was set does not show, the server cuts constants out: whoever says it is suspect. Not
# seen at all is set_config(), whose words are constants too.
SAID = """
select query
  from pg_stat_statements
 where dbid = (select oid from pg_database where datname = %s)
   and query ~* 'synchronous_commit'
   and query ~* '^\\s*(set|alter)'
"""
STATEMENTS = """
select coalesce(sum(calls), 0)::bigint, coalesce(sum(wal_bytes), 0)::bigint
  from pg_stat_statements
 where dbid = (select oid from pg_database where datname = %s)
"""
OPEN = """
select count(*)
  from pg_stat_activity
 where datname = %s and xact_start is not null and backend_type = 'client backend'
"""
HOT = """
select coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint
  from pg_stat_user_tables
"""


class NotDurable(Exception):
    """What was measured may be lost, so it says nothing: {what}."""


class Postgres:
    """One server for the whole run; a fresh database for each turn of each system."""

    name = "PostgreSQL"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        from tests.support import postgres_release
        from tests.support.keeper import Keeper
        from tests.support.postgres import PostgresServer

        self._stack = ExitStack()
        keeper = Keeper()
        self._stack.callback(keeper.close)
        self.release = postgres_release.from_wheel(keeper)
        asked = {**SETTINGS, **(settings or {})}
        server = PostgresServer(self.release, durable=True, settings=asked)
        self.server = self._stack.enter_context(server)
        self.server.run("create extension pg_stat_statements")
        self.version = str(self.server.run("show server_version")[0][0])

    def make(self) -> str:
        return self.server.create_database(f"bench_{next(_numbers)}")

    def drop(self, url: str) -> None:
        self.server.drop_database(url)

    def pids(self) -> list[int]:
        return [self.server.pid]

    def assert_durable(self, url: str, may_be_lost: Collection[str] = ()) -> None:
        """Ask the server, the database and what its clients have said. Raises NotDurable.

        `may_be_lost`: unlogged tables that hold nothing of a task.
        """
        found = {each: str(self._ask(url, f"show {each}")[0][0]) for each in WANTED}
        weak = [f"{each} is {found[each]}" for each in WANTED if found[each] != WANTED[each]]
        weak += [str(row[0]) for row in self._ask(url, OVERRIDES)]
        unlogged = {str(row[0]) for row in self._ask(url, UNLOGGED)} - {*may_be_lost}
        weak += [f"the table {name} is unlogged" for name in sorted(unlogged)]
        weak += [f"the function {row[0]} changes it" for row in self._ask(url, FUNCTIONS)]
        said = self._ask(self.server.url(), SAID, _name(url))
        weak += [f"a client said: {row[0]}" for row in said]
        if weak:
            raise NotDurable("; ".join(weak))

    def statements(self, url: str) -> tuple[int, int]:
        """How many its clients have made, and the bytes of WAL that these have written."""
        calls, wal = self._ask(self.server.url(), STATEMENTS, _name(url))[0]
        return int(calls), int(wal)

    def wal_position(self) -> int:
        """Bytes of WAL since the server was made."""
        asked = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
        return int(self._ask(self.server.url(), asked)[0][0])

    def open_transactions(self, url: str) -> int:
        return int(self._ask(self.server.url(), OPEN, _name(url))[0][0])

    def updates(self, url: str) -> tuple[int, int]:
        """Rows updated, and those of them that stayed in their page without a word to an index."""
        updated, hot = self._ask(url, HOT)[0]
        return int(updated), int(hot)

    def close(self) -> None:
        self._stack.close()

    def _ask(self, url: str, question: str, *words: str) -> list[Any]:
        import psycopg

        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            return connection.execute(question.encode(), words or None).fetchall()


class Sqlite:
    """A file for each turn, in a folder of ours."""

    name = "SQLite"
    version = sqlite3.sqlite_version

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bench-"))

    def make(self) -> str:
        return f"sqlite:{self._folder}/{next(_numbers)}.db"

    def drop(self, url: str) -> None:
        for path in self._folder.glob(Path(url.partition(":")[2]).name + "*"):
            path.unlink()

    def pids(self) -> list[int]:
        return []

    def assert_durable(self, url: str, may_be_lost: Collection[str] = ()) -> None:
        """Its level of syncing is not kept in the file: the adapter asks its own connection."""

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Served:
    """A server that the drain test knows how to start: Redis, Restate or Temporal."""

    def __init__(self, kind: str, home: Path) -> None:
        self.name, self._kind = kind, kind
        self._workplace = Workplace()
        self._server = self._started(home)
        self.version = ""

    def make(self) -> str:
        name = f"bench{next(_numbers)}"
        url: str = self._server.url(name)
        self._server.make(name)
        return url

    def drop(self, url: str) -> None:
        """All of it goes with the server."""

    def pids(self) -> list[int]:
        return [self._server.pid]

    def assert_durable(self, url: str, may_be_lost: Collection[str] = ()) -> None:
        """Redis is asked; what makes the others durable stands in how they are started."""
        if self._kind == "redis":
            _assert_redis_syncs(url)

    def close(self) -> None:
        self._server.close()
        self._workplace.close()

    def _started(self, home: Path) -> Any:
        if self._kind == "redis":
            return Redis(self._workplace)
        if self._kind == "restate":
            return Restate(self._workplace, home, 0)
        return Temporal(self._workplace, home)


def _assert_redis_syncs(url: str) -> None:
    host, _, port = url.removeprefix("redis://").partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as end:
        said = [_asked(end, setting) for setting in REDIS_WANTED]
    if weak := redis_weakness(said):
        raise NotDurable(weak)


def _asked(end: socket.socket, setting: str) -> str:
    end.sendall(f"CONFIG GET {setting}\r\n".encode())
    return end.recv(4096).decode()


def redis_weakness(answers: Sequence[str]) -> str:
    """What of Redis' answers to CONFIG GET loses acknowledged writes, in words; "" for nothing."""
    words = " ".join(answers).split()
    # A length stands before each word.
    found = {name: words[words.index(name) + 2] for name in REDIS_WANTED if name in words}
    return "; ".join(
        f"{name} is {found.get(name, 'not known')}"
        for name, wanted in REDIS_WANTED.items()
        if found.get(name) != wanted
    )


def _name(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]
