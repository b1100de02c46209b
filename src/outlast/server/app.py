"""The server's application: which request is answered by whom."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..core.clock import Env
from ..core.errors import OutlastError, Unavailable
from ..metrics import CONTENT_TYPE, Collector, of_tasks, text
from ..settings import redacted
from ..store.messages import NOT_SENT, Problem
from ..store.verbs import Counts, Held, Query, Store
from .access import Gate, Proxy
from .desk import Busy, Desk
from .exchange import as_response, json_response, sent_token
from .http_api import HttpApi
from .notices import Notices
from .pages.drawing import Place
from .pages.site import Site
from .proxied import NamesFromProxy
from .store_api import StoreApi

BEAT_THREADS, THREADS, PAGE_THREADS = 2, 8, 3
WAITING_MAX = 1_000
TASK_SERIES = 1_000
HERE = ("localhost", "127.0.0.1", "[::1]")


class Server:
    """An ASGI application on a store; `open_store` gives each of its threads a connection.

    `asks_for_tokens`: False only where nobody but this machine can come. `hosts`: the names under
    which it may be asked for; others are turned away, so that no page elsewhere can reach in by a
    name that it points at us. `task_metrics`: whether /metrics/tasks is there. `store_url`: what
    pages say which store this is, secrets left out. `proxy`: who may say who somebody is.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        asks_for_tokens: bool = False,
        hosts: tuple[str, ...] = HERE,
        version: str = "",
        env: Env | None = None,
        task_metrics: bool = False,
        store_url: str = "",
        proxy: Proxy | None = None,
    ) -> None:
        self._beats = Desk("beats", open_store, threads=BEAT_THREADS, waiting_max=WAITING_MAX)
        self._rest = Desk("requests", open_store, threads=THREADS, waiting_max=WAITING_MAX)
        # People who look must not keep workers waiting, however many and however slow it is.
        self._looks = Desk("pages", open_store, threads=PAGE_THREADS, waiting_max=WAITING_MAX)
        self._gate = Gate(asks_for_tokens, proxy)
        self.collector = Collector(_ask_elsewhere, version=version)
        self.notices = Notices(open_store)
        self._site = Site(self._gate, self._looks, Place(redacted(store_url), version))
        self.leaving = False
        store_api = StoreApi(self._gate, self._beats, self._rest)
        self.app = Starlette(
            routes=[
                Route("/livez", self._livez),
                Route("/readyz", self._readyz),
                Route("/metrics", self._metrics),
                *([Route("/metrics/tasks", self._metrics_of_tasks)] if task_metrics else []),
                *HttpApi(self._gate, self._rest, env or Env(), version).routes(),
                Route("/store/{verb}", store_api.answer, methods=["POST"]),
                *self._site.routes,
            ],
            middleware=[
                Middleware(TrustedHostMiddleware, allowed_hosts=[*hosts], www_redirect=False),
                *([Middleware(NamesFromProxy, proxy=proxy)] if proxy else []),
            ],
            exception_handlers={OutlastError: _told, HTTPException: _told_of_the_way},
            lifespan=self._lifespan,
        )

    def leave(self) -> None:
        """From now on we are not ready; what streams comes to its end."""
        self.leaving = True
        self._site.leave()

    def close(self) -> None:
        """Let what is being done come to its end; nobody looks any more."""
        self._site.leave()
        self.notices.close()
        for desk in (self._beats, self._rest, self._looks):
            desk.close()

    async def _livez(self, _: Request) -> Response:
        """Whether this process answers: the database is not asked, lest its trouble restart us."""
        return PlainTextResponse("ok\n")

    async def _readyz(self, _: Request) -> Response:
        """Whether requests should be sent here: the database answers, and we are not leaving."""
        if self.leaving:
            return PlainTextResponse("leaving\n", 503)
        try:
            await self._beats.ask(lambda store: store.now_ms())
        except (Unavailable, Busy) as error:
            return PlainTextResponse(f"{error}\n", 503)
        return PlainTextResponse("ok\n")

    async def _metrics(self, request: Request) -> Response:
        """For Prometheus; while the database is away, ages go on from the last good look."""
        token = sent_token(request)
        began = time.monotonic()

        def look(store: Store) -> Counts:
            self._gate.identity(store, token).must("counts")
            return store.counts()

        counts = None
        with suppress(Unavailable, Busy):
            counts = await self._rest.ask(look)
        if counts is None and self._gate.asks_for_tokens:
            raise Unavailable("the store", "it does not answer, so no token can be looked up")
        took_ms = int((time.monotonic() - began) * 1_000)
        told = text(self.collector.told(counts, took_ms))
        return Response(told, media_type=CONTENT_TYPE)

    async def _metrics_of_tasks(self, request: Request) -> Response:
        """A series a held task, of so many at most."""
        token = sent_token(request)

        def look(store: Store) -> list[Held]:
            self._gate.identity(store, token).must("find")
            return store.find(Query(states=("running",), limit=TASK_SERIES))

        return Response(text(of_tasks(await self._rest.ask(look))), media_type=CONTENT_TYPE)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self.close()


def is_loopback(address: str) -> bool:
    """Whether only this machine can come in by an address."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _ask_elsewhere() -> Counts:
    raise AssertionError("the desk asks the store, not the collector")


async def _told_of_the_way(request: Request, error: Exception) -> Response:
    """No such address, or not by this method: as a problem, where programs ask."""
    assert isinstance(error, HTTPException)
    if not request.url.path.startswith(("/api/", "/store/")):
        return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)
    said = f"{request.method} {request.url.path}: {error.detail}; nothing was done"
    told = Problem("NoSuchAddress", said, NOT_SENT)
    return json_response(told, error.status_code, error.headers)


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, OutlastError)
    return as_response(error)
