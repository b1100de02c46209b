"""A server before a SQLite store, asked with tokens of every role."""

from __future__ import annotations

import http.client
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from outlast.core.clock import Env, HandClock
from outlast.core.model import Role
from outlast.server.access import new_token
from outlast.server.app import Server
from outlast.store.open import open_store
from outlast.store.verbs import Order, Store
from tests.support.front import Front

ROLES: tuple[Role, ...] = ("viewer", "operator", "worker", "admin")
ANN = Order("ann", "because")


@pytest.fixture(scope="session")
def front() -> Iterator[Front]:
    front = Front()
    yield front
    front.close()


class Served:
    """One store, served. `here`: the store itself; `as_role`: over HTTP, with a token."""

    def __init__(self, front: Front, db: str, **options: Any) -> None:
        self.clock = HandClock()
        self.db = url = db
        env = self.env = Env(self.clock, random.Random(1))
        self.here = open_store(url, env=env, create=True)
        self.open_store: Callable[[], Store] = lambda: open_store(url, env=env)
        self.server = Server(self.open_store, **options)
        self.front, self._opened = front, [self.here]
        self.show(self.server)
        self.tokens: dict[str, str] = {}
        self.url = front.url

    def take_away(self) -> None:
        """Take the store's file away, under all who have it open."""
        path = Path(self.db.removeprefix("sqlite:"))
        path.rename(path.with_suffix(".gone"))

    def show(self, server: Server) -> None:
        """Have this server answer from now on."""
        self.front.app = server.app

    def token(self, role: Role, lasts_ms: int | None = None) -> str:
        kept, text = new_token(f"{role} of the test", role, lasts_ms)
        self.here.add_token(kept, ANN)
        return text

    def open(self, token: str = "") -> Store:
        """A store over HTTP, with that token."""
        scheme, _, rest = self.url.partition("://")
        url = f"{scheme}://{token}@{rest}" if token else self.url
        self._opened.append(open_store(url, check=False))
        return self._opened[-1]

    def request(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body) of a plain request."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if path.startswith("/store/"):
            named.setdefault("Content-Type", "application/json")
        connection.request(method, path, body or None, named)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        found = answer.status, told, answer.read()
        connection.close()
        return found

    def close(self) -> None:
        for store in self._opened:
            store.close()
        self.server.close()


@pytest.fixture
def serve(front: Front, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Serves an empty store: `serve(asks_for_tokens=True)`."""
    started: list[Served] = []

    def start(db: str = "", **options: Any) -> Served:
        started.append(Served(front, db or f"sqlite:{tmp_path / 'outlast.db'}", **options))
        return started[-1]

    yield start
    for each in started:
        each.close()
