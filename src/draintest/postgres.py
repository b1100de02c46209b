"""A schema in a PostgreSQL that others use too: made by us, marked as ours, dropped by us."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .target import CannotSay

MARK = "made by draintest; it drops it"


class Schema:
    """One disposable schema of the database at `url`; refuses one that it did not make."""

    def __init__(self, url: str, folder: Path) -> None:
        run = folder.parent.name.removeprefix("draintest-")
        self.url = url
        self.name = "draintest_" + re.sub(r"[^a-z0-9]+", "_", f"{run}_{folder.name}".lower())[:50]
        joint = "&" if "?" in url else "?"
        self.outlast_url = f"{url}{joint}schema={self.name}"

    def claim(self) -> None:
        """Make the schema, with our mark on it. Raises CannotSay if one of that name is there."""
        if self._query(THERE, self.name):
            raise CannotSay(
                f"there is a schema {self.name} that this run did not make; nothing was touched"
            )
        self._change(f'create schema "{self.name}"')
        self._change(f"comment on schema \"{self.name}\" is '{MARK}'")

    def drop(self) -> None:
        """Drop it, if it bears our mark."""
        if self.name in marked(self.url):
            self._change(f'drop schema "{self.name}" cascade')

    def litter(self) -> list[str]:
        return [f"schema {self.name}"] if self._query(THERE, self.name) else []

    def _query(self, statement: str, *values: str) -> list[Any]:
        return query(self.url, statement, *values)

    def _change(self, statement: str) -> None:
        query(self.url, statement)


THERE = "select nspname from pg_namespace where nspname = %s"


def marked(url: str) -> list[str]:
    """The schemas that bear our mark, of this run or of one that died."""
    rows = query(
        url,
        "select nspname from pg_namespace"
        " where nspname like 'draintest\\_%%' and obj_description(oid, 'pg_namespace') = %s",
        MARK,
    )
    return [row[0] for row in rows]


def query(url: str, statement: str, *values: str) -> list[Any]:
    """Run one statement on a connection of its own. Raises CannotSay."""
    import psycopg

    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        raise CannotSay(f"the database says: {error}") from error
