"""Stores on every database; after each test the rows are held against the logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.verbs import Store
from tests.store import truth
from tests.store.databases import PostgresStores, SqliteStores, Stores, migrated
from tests.support import databases
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> str:
    """A database with our tables on the PostgreSQL 18 that all tests share."""
    return migrated(postgres_server.create_database())


@pytest.fixture(scope="session")
def migrated_postgres15(postgres15_server: PostgresServer) -> str:
    """The same on PostgreSQL 15."""
    return migrated(postgres15_server.create_database())


@pytest.fixture(params=databases.KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    """An empty database of each kind, on which stores are opened; checked when the test ends."""
    stores = open_stores(request, tmp_path)
    try:
        yield stores
        truth.check(stores)
    finally:
        stores.close()


@pytest.fixture
def store(stores: Stores) -> Store:
    """A store on that database."""
    return stores.open()


def open_stores(request: pytest.FixtureRequest, folder: Path) -> Stores:
    if request.param == databases.SQLITE:
        return SqliteStores(f"sqlite:{folder / 'outlast.db'}")
    return PostgresStores(request.getfixturevalue(f"migrated_{request.param}"))
