"""A connection that brings nothing is not kept for ever; those that are used stay."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from outlast.core import limits
from outlast.server.serve import Impatient

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\n"


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Answers /; any other path is written to without end, to somebody who does not read."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while scope["path"] != "/":
        await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"done"})


async def _ended(port: int, sent: bytes, *, reads: bool) -> str:
    """How a connection ends on which this was sent, and nothing more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
    writer.write(sent)
    with suppress(ConnectionError):
        if reads:
            await reader.read()
        while not reads:  # until what we write is refused: nothing else tells who does not read
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0)
    writer.close()
    return "ended"


@pytest.mark.parametrize(
    ("sent", "reads"),
    [(b"", True), (HEAD, True), (HEAD.replace(b"/ ", b"/endless ") + b"\r\n", False)],
    ids=["nothing", "half-a-head", "reads-nothing"],
)
def test_who_brings_nothing_or_reads_nothing_is_let_go(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, reads: bool
) -> None:
    monkeypatch.setattr(limits, "CONNECTION_S", 0.05)

    async def play() -> str:
        async with await _served() as server:
            return await asyncio.wait_for(_ended(_port(server), sent, reads=reads), 20)

    assert asyncio.run(play()) == "ended"


def test_a_connection_that_is_used_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    look = Impatient._look

    def counted(self: Impatient, seen: object) -> None:
        looks.append(seen)
        look(self, seen)

    monkeypatch.setattr(limits, "CONNECTION_S", 0.05)
    monkeypatch.setattr(Impatient, "_look", counted)

    async def play() -> None:
        async with await _served() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", _port(server))
            while len(looks) < 5:
                writer.write(HEAD + b"\r\n")
                assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(asyncio.wait_for(play(), 20))


async def _served() -> asyncio.Server:
    config = uvicorn.Config(_app, interface="asgi3", lifespan="off", log_level="error", ws="none")
    state = ServerState()
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Impatient(config, state, {}), "127.0.0.1", 0)


def _port(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])
