"""A real HTTP server in a thread of the tests; what it serves is changed from test to test."""

from __future__ import annotations

import socket
import threading
from typing import Any

import uvicorn

from tests.support.waiting import until


class Front:
    """Listens on a port of its own and passes everything on to `app`."""

    def __init__(self) -> None:
        self.app: Any = None
        # With its protocol named: asyncio sets TCP_NODELAY on no other.
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            self._pass_on, interface="asgi3", lifespan="off", log_level="error", ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        until(lambda: self._server.started, "the server to listen")

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)
