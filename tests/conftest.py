"""Fixtures of all tests: databases that are empty, servers of one's own, real processes."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import databases, postgres_release
from tests.support.keeper import Keeper
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes
from tests.support.wire import Wire

# A shell that starts us in the background has us ignore Ctrl-C, and we would hand that on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

POSTGRES_FIXTURES = {"postgres_wheel", "postgres_server", "postgres15_server"}
TESTS = Path(__file__).parent
# Folders whose tests are marked by where they stand, so that nobody forgets.
MARKED_FOLDERS = {"faults": pytest.mark.faults, "acceptance": pytest.mark.acceptance}

# How long an example takes says something of the machine, nothing of the code. Continuous
# integration repeats the same examples; at home each run looks at others.
hypothesis.settings.register_profile(
    "outlast",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
    derandomize=os.environ.get("CI") == "true",
)
hypothesis.settings.load_profile("outlast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        level = item.path.relative_to(TESTS).parts[0] if TESTS in item.path.parents else ""
        if level in MARKED_FOLDERS:
            item.add_marker(MARKED_FOLDERS[level])
        if POSTGRES_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.postgres)


@pytest.fixture(scope="session")
def keeper() -> Iterator[Keeper]:
    """Clears whatever this run leaves, even if it is killed."""
    keeper = Keeper()
    yield keeper
    keeper.close()


@pytest.fixture(scope="session")
def postgres_wheel(keeper: Keeper) -> postgres_release.Release:
    """PostgreSQL 18, from the wheel: there wherever the tests are."""
    return postgres_release.from_wheel(keeper)


@pytest.fixture(scope="session")
def postgres_debian(keeper: Keeper) -> postgres_release.Release:
    """PostgreSQL 15, as Debian installs it."""
    return postgres_release.from_debian(keeper)


@pytest.fixture(scope="session")
def postgres_server(postgres_wheel: postgres_release.Release) -> Iterator[PostgresServer]:
    """A PostgreSQL 18 that all tests of this process share: never stop it."""
    with PostgresServer(postgres_wheel, durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres15_server(postgres_debian: postgres_release.Release) -> Iterator[PostgresServer]:
    """The same as `postgres_server` for PostgreSQL 15."""
    with PostgresServer(postgres_debian, durable=False) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database on the shared PostgreSQL 18."""
    yield from _empty_database(postgres_server)


@pytest.fixture
def postgres15_url(postgres15_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database on the shared PostgreSQL 15."""
    yield from _empty_database(postgres15_server)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite file that is not there yet."""
    return f"sqlite:{tmp_path / 'outlast.db'}"


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database of the kind that `on_every_database` names; SQLite without it."""
    kind = getattr(request, "param", databases.SQLITE)
    url: str = request.getfixturevalue(f"{kind}_url")
    return url


@pytest.fixture
def own_postgres(
    postgres_wheel: postgres_release.Release,
) -> Iterator[Callable[..., PostgresServer]]:
    """Starts durable servers that a test may stop, kill and freeze: `own_postgres(settings=...)`.

    `release=` takes another release than the wheel's; the rest is as in PostgresServer.
    """
    servers: list[PostgresServer] = []

    def start(release: postgres_release.Release = postgres_wheel, **options: Any) -> PostgresServer:
        servers.append(PostgresServer(release, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def pgbouncer(keeper: Keeper) -> Iterator[Callable[..., PgBouncer]]:
    """Starts a pgbouncer in transaction mode before a server: `pgbouncer(server)`."""
    started: list[PgBouncer] = []

    def start(server: PostgresServer, **settings: str) -> PgBouncer:
        started.append(PgBouncer(keeper, server, **settings))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def wire() -> Iterator[Callable[[int], Wire]]:
    """Puts a wire before a loopback port, to be cut on demand: `wire(server.port)`."""
    wires: list[Wire] = []

    def before(port: int) -> Wire:
        wires.append(Wire(port))
        return wires[-1]

    yield before
    for each in wires:
        each.close()


@pytest.fixture
def processes(keeper: Keeper) -> Iterator[Processes]:
    """Starts real processes and ends them, with all below them, after the test."""
    with Processes(keeper) as started:
        yield started


def _empty_database(server: PostgresServer) -> Iterator[str]:
    url = server.borrow_database()
    yield url
    server.return_database(url)
