"""The scene, on SQLite and on PostgreSQL, and what must hold when a test has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast.core.clock import Env
from outlast.store.migrate import migrate
from outlast.store.open import open_database, open_store
from tests.acceptance.judge import faults
from tests.acceptance.scene import Scene
from tests.acceptance.witness import Witness
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes

HERE = Path(__file__).parent
TIMEOUT_S = 240
KINDS = [
    pytest.param("sqlite_url", id="sqlite"),
    pytest.param("postgres_url", id="postgres", marks=pytest.mark.postgres),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Harness deadlines are generous: a busy machine makes these tests slow, not red."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind; the server is shared, so it is not to be harmed."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def witness(processes: Processes, tmp_path: Path) -> Witness:
    """A process that all tools call."""
    return Witness(processes, tmp_path)


@pytest.fixture
def scene(database: str, processes: Processes, witness: Witness) -> Iterator[Scene]:
    """A scene on each kind of database, judged when the test has ended."""
    yield from judged(database, processes, witness)


@pytest.fixture
def sqlite_scene(sqlite_url: str, processes: Processes, witness: Witness) -> Iterator[Scene]:
    """A scene on SQLite alone, for harm that only a file can suffer."""
    yield from judged(sqlite_url, processes, witness)


@pytest.fixture
def server(own_postgres: Callable[..., PostgresServer]) -> PostgresServer:
    """A durable PostgreSQL of this test's own."""
    return own_postgres()


@pytest.fixture
def own_scene(server: PostgresServer, processes: Processes, witness: Witness) -> Iterator[Scene]:
    """A scene on `server`, which the test may stop and kill."""
    yield from judged(server.create_database(), processes, witness)


def judged(url: str, processes: Processes, witness: Witness) -> Iterator[Scene]:
    """A scene with tables; at its end all workers are killed, and every log is judged."""
    make_tables(url)
    scene = Scene(url, processes, witness)
    yield scene
    scene.end()
    store = open_store(url)
    try:
        assert faults(store) == []
    finally:
        store.close()


def make_tables(url: str) -> None:
    database, schema = open_database(url, env=Env(), create=True)
    try:
        migrate(database, schema)
    finally:
        database.close()
