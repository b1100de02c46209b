"""Where a measurement runs: a fresh database, real workers, and the log to read times from."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from outlast.client import Client, connect
from outlast.core.clock import Env
from outlast.store.migrate import migrate
from outlast.store.open import open_database, open_store
from outlast.store.verbs import Store
from tests.support import postgres_release
from tests.support.keeper import Keeper
from tests.support.postgres import PostgresServer

OUTLAST = str(Path(sys.executable).with_name("outlast"))
ROOT = Path(__file__).parent.parent


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """{name: url} of an empty SQLite file and an empty, durable PostgreSQL."""
    with postgres() as server, tempfile.TemporaryDirectory() as path:
        yield {"sqlite": f"sqlite:{path}/outlast.db", "postgres": server.url()}


@contextmanager
def postgres(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A durable PostgreSQL of its own; its user is `postgres`."""
    keeper = Keeper()
    try:
        release = postgres_release.from_wheel(keeper)
        with PostgresServer(release, durable=True, settings=settings) as server:
            yield server
    finally:
        keeper.close()


def prepare(url: str) -> None:
    """Make the tables, where they are not there yet."""
    database, schema = open_database(url, env=Env(), create=True)
    migrate(database, schema)
    database.close()


@contextmanager
def worker(url: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real worker of `bench.agents`; ended when the measurement has."""
    command = [OUTLAST, "worker", "bench.agents:app", "--db", url, "--no-supervisor", *flags]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


@contextmanager
def client_and_store(url: str) -> Iterator[tuple[Client, Store]]:
    store = open_store(url)
    try:
        with connect(url) as client:
            yield client, store
    finally:
        store.close()


def until(what: str, condition: object, limit_s: float = 120.0) -> None:
    """Look every 10 ms; raises TimeoutError."""
    end = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {limit_s:.0f} s")
        time.sleep(0.01)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
