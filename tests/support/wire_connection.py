"""One connection through a wire: a thread for what goes up, one for what comes down."""

import contextlib
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.support.traps import DOWN, UP, Trap

if TYPE_CHECKING:
    from tests.support.wire import Wire

CHUNK = 65536
# How much of what came before is looked at again, for a match that two pieces share.
TAIL = 256
POLL_S = 0.05


class Connection:
    """The two halves of one connection, and the trap that one of them may have sprung."""

    def __init__(self, wire: "Wire", client: socket.socket, server: socket.socket) -> None:
        self.robbed = False
        self._wire = wire
        self._client = client
        self._server = server
        self._awaiting: Trap | None = None
        self._ended = threading.Event()
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def alive(self) -> bool:
        return not self._ended.is_set()

    def start(self) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=self._pump, args=way, daemon=True, name=f"wire {way[2]}")
            for way in (
                (self._client, self._server, UP, self._request),
                (self._server, self._client, DOWN, self._answer),
            )
        ]
        for thread in threads:
            thread.start()
        return threads

    def reset(self) -> None:
        """End both halves at once, as a broken line does: no farewell."""
        self._ended.set()
        for end in (self._client, self._server):
            reset(end)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        direction: str,
        look: Callable[[bytes, bytes], bool],
    ) -> None:
        before = b""
        while chunk := _receive(source):
            goes_on = look(before, chunk)
            before = (before + chunk)[-TAIL:]
            if not goes_on:
                continue
            if not self._wire.fate_of(direction, len(chunk)):
                self.robbed = True
                continue
            if not self._send(sink, chunk):
                break
        self._finish(sink)

    def _request(self, before: bytes, chunk: bytes) -> bool:
        """Look at what goes up; False if it is not to be sent."""
        trap = self._wire.trap_for(before, chunk)
        if trap is None:
            return True
        if trap.kind == "lose request":
            self._wire.count(UP, len(chunk), lost=True)
            trap.spring()
            self.reset()
            return False
        if trap.kind == "hold request":
            trap.spring()
            trap.until_let_go(self._ended)
        else:
            self._awaiting = trap
        return True

    def _answer(self, before: bytes, chunk: bytes) -> bool:
        """Look at what comes down; False if it is not to be sent."""
        trap = self._awaiting
        if trap is None:
            return True
        if trap.kind == "hold answer":
            self._awaiting = None
            trap.spring()
            trap.until_let_go(self._ended)
            return True
        self._wire.count(DOWN, len(chunk), lost=True)
        if trap.answered(before + chunk):
            self._awaiting = None
            trap.spring()
            self.reset()
        return False

    def _send(self, sink: socket.socket, chunk: bytes) -> bool:
        """Send it all; False if the connection ends first, though the other side reads nothing."""
        left = memoryview(chunk)
        while left and self.alive:
            try:
                _, writable, _ = select.select([], [sink], [], POLL_S)
                left = left[sink.send(left, socket.MSG_DONTWAIT) if writable else 0 :]
            except (OSError, ValueError):
                return False
        return not left

    def _finish(self, sink: socket.socket) -> None:
        """Pass on that one side has closed; the second to finish closes both."""
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        if self._wire.closed.is_set() or sink is self._client:
            self._ended.set()
            for end in (self._client, self._server):
                end.close()


def reset(end: socket.socket) -> None:
    """Close so that the other side sees a reset, and wake whoever reads from `end`."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RD)
    end.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(CHUNK)
    except OSError:
        return b""
