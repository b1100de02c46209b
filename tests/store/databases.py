"""The databases under these tests: opened, read behind their backs, moved in time."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row

from outlast.core.clock import Env, HandClock
from outlast.server.app import Server
from outlast.store.migrate import migrate
from outlast.store.open import open_database, open_store
from outlast.store.verbs import Store
from tests.store.mutants import open_with_mutant
from tests.support.front import Front

Row = dict[str, Any]
# What a verb that is not allowed must leave as it was, byte for byte.
STATE = ("tasks", "leases", "events", "effects", "signals")


class Stores:
    """One database whose clock we hold, and the stores opened on it."""

    kind: str

    def __init__(self, url: str, front: Front | None = None) -> None:
        """`front`: the server over which stores are opened; None: on the database itself."""
        self.url = url
        self.clock = HandClock()
        self.env = Env(self.clock, random.Random(1))
        self.pruned = False  # counters then say more than the logs that are left
        self._opened: list[Store] = []
        self._front = front
        self._server = Server(self.open_here) if front else None

    def open(self) -> Store:
        """Another store on this database, with a connection of its own."""
        if self._front is None or self._server is None:
            store = self.open_here()
        else:
            self._front.app = self._server.app
            store = open_store(self._front.url, env=self.env)
        self._opened.append(store)
        return store

    def open_here(self) -> Store:
        """A store without a server between."""
        return open_with_mutant(self.url, self.env) or open_store(self.url, env=self.env)

    def close(self) -> None:
        for store in self._opened:
            store.close()
        if self._server is not None:
            self._server.close()

    def move(self, by_ms: int) -> None:
        """Let time pass, for this process and for the database."""
        self.clock.move(by_ms)

    def rows(self, statement: str, *values: Any) -> list[Row]:
        """What a statement of the test's own reads; `?` stands for a value."""
        raise NotImplementedError

    def change(self, statement: str, *values: Any) -> None:
        """Do what no verb does: lose a row, as a failover or a bad disk would."""
        raise NotImplementedError

    def tables(self) -> list[str]:
        raise NotImplementedError

    def empty(self) -> None:
        """Forget everything, and turn the clock back to where it began."""
        # Not `truncate`: its new files cost PostgreSQL a quarter of a second a test.
        for name in self.tables():
            if name != "schema":
                self.change(f"delete from {name}")
        self.clock.now_ms = HandClock().now_ms

    def standby(self) -> dict[str, list[Row]]:
        """All rows, as a standby has them that lags behind from now on."""
        return {table: self.rows(f"select * from {table}") for table in self.tables()}

    def fail_over(self, standby: dict[str, list[Row]]) -> None:
        """Go on from what the standby has: commits since then are lost, acknowledged or not."""
        for table, rows in standby.items():
            self.change(f"delete from {table}")
            for row in rows:
                marks = ", ".join("?" for _ in row)
                names = ", ".join(row)
                self.change(f"insert into {table} ({names}) values ({marks})", *row.values())

    def state(self, *tables: str) -> dict[str, Sequence[str]]:
        """Everything that is stored, to be compared before and after."""
        return {
            table: sorted(repr(row) for row in self.rows(f"select * from {table}"))
            for table in tables or STATE
        }


class SqliteStores(Stores):
    """A file in a temporary folder."""

    kind = "sqlite"

    def __init__(self, url: str, front: Front | None = None) -> None:
        super().__init__(url, front)
        open_store(url, env=self.env, create=True).close()
        path = url.removeprefix("sqlite:")
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=10)
        self.connection.row_factory = sqlite3.Row

    def close(self) -> None:
        super().close()
        self.connection.close()

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return [dict(row) for row in self.connection.execute(statement, values)]

    def change(self, statement: str, *values: Any) -> None:
        self.connection.execute(statement, values)

    def tables(self) -> list[str]:
        listed = self.rows("select name from sqlite_schema where type = 'table'")
        return [row["name"] for row in listed]


# A clock of a database that stands still until somebody moves it.
HAND = """
create table if not exists outlast.hand (now_ms bigint not null);
insert into outlast.hand values (0);
create or replace function outlast.now_ms() returns bigint language sql volatile
    as 'select now_ms from outlast.hand';
"""


class PostgresStores(Stores):
    """A migrated database of a server that is shared, emptied before each test."""

    kind = "postgres"

    def __init__(self, url: str, front: Front | None = None) -> None:
        super().__init__(url, front)
        self.connection: psycopg.Connection[Row] = psycopg.connect(
            url, autocommit=True, row_factory=dict_row, options="-c search_path=outlast"
        )
        self.empty()

    def close(self) -> None:
        super().close()
        self.connection.close()

    def move(self, by_ms: int) -> None:
        super().move(by_ms)
        self.connection.execute("update hand set now_ms = %s", [self.clock.now_ms])

    def rows(self, statement: str, *values: Any) -> list[Row]:
        return self.connection.execute(statement.replace("?", "%s").encode(), values).fetchall()

    def change(self, statement: str, *values: Any) -> None:
        self.connection.execute(statement.replace("?", "%s").encode(), values)

    def tables(self) -> list[str]:
        listed = self.rows("select tablename from pg_tables where schemaname = 'outlast'")
        return [row["tablename"] for row in listed if row["tablename"] != "hand"]

    def empty(self) -> None:
        super().empty()
        self.connection.execute("update hand set now_ms = %s", [self.clock.now_ms])


def migrated(url: str) -> str:
    """Give an empty PostgreSQL database our tables, and a clock to be moved by hand."""
    database, schema = open_database(url, env=Env())
    migrate(database, schema)
    database.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(HAND.encode())
    return url
