"""What tests of workers share: a harness on each database, and a world that counts what reaches it.

After each test the rows are held against the logs, whatever its workers went through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.core.clock import HandClock
from outlast.testing import Harness
from outlast.worker.app import App
from tests.store import truth
from tests.store.conftest import folder_in_memory, memory, migrated_postgres
from tests.store.databases import PostgresStores, SqliteStores, Stores
from tests.support import databases

__all__ = ["folder_in_memory", "memory", "migrated_postgres"]


class StoresClock(HandClock):
    """Moves the clock of a database with that of this process."""

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self._stores = stores

    def move(self, by_ms: int) -> None:
        super().move(by_ms)
        self._stores.move(by_ms)


@pytest.fixture(params=databases.KINDS[:2])
def stores(request: pytest.FixtureRequest, folder_in_memory: Path) -> Iterator[Stores]:
    """An empty SQLite file, and an empty database of PostgreSQL 18; checked when the test ends."""
    if request.param == databases.SQLITE:
        found: Stores = SqliteStores(f"sqlite:{folder_in_memory / 'outlast.db'}")
    else:
        found = PostgresStores(request.getfixturevalue("migrated_postgres"))
    try:
        yield found
        truth.check(found)
    finally:
        found.close()


@pytest.fixture
def outlast_harness(stores: Stores) -> Iterator[Callable[..., Harness]]:
    """A function that makes a harness for an app on that database."""
    made: list[Harness] = []

    def make(app: App, **options: Any) -> Harness:
        for before in made:
            before.close()
        stores.empty()
        made.append(Harness(app, db=stores.url, clock=StoresClock(stores), **options))
        return made[-1]

    yield make
    if made:
        made[-1].close()


class World:
    """The outside: how often each act reached it, under which keys."""

    def __init__(self) -> None:
        self.acts: Counter[str] = Counter()
        self.keys: dict[str, list[str]] = {}

    def act(self, what: str, idempotency_key: str) -> str:
        self.acts[what] += 1
        self.keys.setdefault(what, []).append(idempotency_key)
        return f"{what} done"

    def find(self, key: str) -> str | None:
        """What a provider answers that is asked by key."""
        for what, keys in self.keys.items():
            if key in keys:
                return f"{what} done"
        return None


@pytest.fixture
def world() -> World:
    return World()
