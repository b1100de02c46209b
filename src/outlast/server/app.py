"""The server's application: which request is answered by whom."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Route

from ..store.verbs import Store
from .desk import Desk
from .store_api import StoreApi

BEAT_THREADS, THREADS = 2, 8
WAITING_MAX = 1_000


class Server:
    """An ASGI application on a store; `open_store` gives each of its threads a connection."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._beats = Desk("beats", open_store, threads=BEAT_THREADS, waiting_max=WAITING_MAX)
        self._rest = Desk("requests", open_store, threads=THREADS, waiting_max=WAITING_MAX)
        store_api = StoreApi(self._beats, self._rest)
        self.app = Starlette(
            routes=[Route("/store/{verb}", store_api.answer, methods=["POST"])],
            lifespan=self._lifespan,
        )

    def close(self) -> None:
        """Let what is being done come to its end."""
        for desk in (self._beats, self._rest):
            desk.close()

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self.close()
