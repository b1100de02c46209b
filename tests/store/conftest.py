"""Stores on every database; after each test the rows are held against the logs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.store.verbs import Store
from tests.store import truth
from tests.store.databases import PostgresStores, SqliteStores, Stores, migrated
from tests.support import databases, leftovers
from tests.support.front import Front
from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> str:
    """A database with our tables on the PostgreSQL 18 that all tests share."""
    return migrated(postgres_server.create_database())


@pytest.fixture(scope="session")
def migrated_postgres15(postgres15_server: PostgresServer) -> str:
    """The same on PostgreSQL 15."""
    return migrated(postgres15_server.create_database())


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A folder whose syncs cost nothing: what outlives a power cut is not asked here."""
    parent = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    leftovers.sweep(parent, "outlast-store-*")
    with tempfile.TemporaryDirectory(prefix="outlast-store-", dir=parent) as folder:
        # So that the next run may clear this one away, should it be killed.
        owner = f"{os.getpid()} {leftovers.born(os.getpid())}"
        (Path(folder) / "owner").write_text(owner)
        yield Path(folder)


@pytest.fixture
def folder_in_memory(memory: Path) -> Iterator[Path]:
    """A folder in it for one test."""
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def front() -> Iterator[Front]:
    """A server that all tests over HTTP share, each with its own store behind it."""
    front = Front()
    yield front
    front.close()


@pytest.fixture(params=[*databases.KINDS, *databases.OVER_HTTP])
def stores(request: pytest.FixtureRequest, folder_in_memory: Path) -> Iterator[Stores]:
    """An empty database of each kind, on which stores are opened; checked when the test ends."""
    stores = open_stores(request, folder_in_memory)
    try:
        yield stores
        truth.check(stores)
        truth.check_what_the_store_says(stores.open())
    finally:
        stores.close()


@pytest.fixture
def store(stores: Stores) -> Store:
    """A store on that database."""
    return stores.open()


def open_stores(request: pytest.FixtureRequest, folder: Path) -> Stores:
    over, _, kind = str(request.param).rpartition(" ")
    front = request.getfixturevalue("front") if over else None
    if kind == databases.SQLITE:
        return SqliteStores(f"sqlite:{folder / 'outlast.db'}", front)
    return PostgresStores(request.getfixturevalue(f"migrated_{kind}"), front)
