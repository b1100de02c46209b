"""A store whose clock we move, to be counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.verbs import Store
from tests.store.databases import SqliteStores


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[SqliteStores]:
    stores = SqliteStores(f"sqlite:{tmp_path / 'outlast.db'}")
    yield stores
    stores.close()


@pytest.fixture
def store(stores: SqliteStores) -> Store:
    return stores.open()
