"""Serving: a socket, a server on it, and an end that is bounded."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..core import limits
from ..core.errors import BadSetting
from .app import Server


class Listening:
    """A socket that listens from now on, so that a port that is taken is known at once.

    `shared`: other servers that say so too may listen there: the kernel deals connections out, and
    one of them can be replaced without anybody being turned away.
    """

    def __init__(self, address: str, port: int, *, shared: bool = False) -> None:
        """Raises BadSetting."""
        try:
            family, kind, protocol, _, where = socket.getaddrinfo(
                address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            # With its protocol named: asyncio sets TCP_NODELAY on no other, and each answer that
            # is written in two parts would wait 40 ms for an acknowledgement.
            self.socket = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self.socket.bind(where)
            self.socket.listen(limits.BACKLOG)
        except OSError as error:
            raise BadSetting(
                f"nothing can be served at {address}:{port} ({error.strerror}); nothing was started"
            ) from error
        self.port = int(self.socket.getsockname()[1])


def serve(server: Server, listening: Listening, *, up: Callable[[], None]) -> None:
    """Answer until SIGTERM or Ctrl-C; then end what is being answered, within a bound.

    `up`: called once it answers.
    """
    config = uvicorn.Config(
        server.app,
        http=Impatient,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        # Who a connection is from is said by the connection, and by no header of a stranger's.
        proxy_headers=False,
        timeout_keep_alive=limits.KEEP_ALIVE_S,
        timeout_graceful_shutdown=limits.SERVER_LEAVES_S,
        limit_concurrency=limits.SERVER_CONNECTIONS,
    )
    _Uvicorn(config, server, up).run([listening.socket])


class Impatient(H11Protocol):
    """Ends a connection that is at the same request, or before its first, at two looks in a row.

    Nothing asked for lasts that long: who sends a header byte by byte, or never reads what is sent,
    would else hold a place for ever.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look_again(self) -> None:
        self._timer = self.loop.call_later(limits.CONNECTION_S, self._look, self.cycle)

    def _look(self, seen: object) -> None:
        if self.cycle is seen:
            self.transport.abort()  # not `close`: that would wait until all was read
        else:
            self._look_again()


class _Uvicorn(uvicorn.Server):
    """Tells when it has begun, and tells the application when it is to leave."""

    def __init__(self, config: uvicorn.Config, server: Server, up: Callable[[], None]) -> None:
        super().__init__(config)
        self._ours, self._up = server, up

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's own, but that we end with our own exit code, and not by the signal."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._up()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ours.leave()
        await super().shutdown(sockets)
