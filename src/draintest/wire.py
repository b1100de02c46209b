"""A wire before a store: a TCP proxy that loses what it is told to, and proves that it did."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

from .languages import Language, Postgres

CHUNK = 65_536
CONNECT_S = 5.0
POLL_S = 0.1
# What each message takes longer over a slow wire: ten times a busy database of another town.
SLOW_S = 0.05
LOSE_COMMIT, LOSE_ANSWER = "lose-commit", "lose-answer"


class Wire:
    """Whole, slow, cut, paused or swallowing, for all connections; or one write is to be lost."""

    def __init__(self, host: str, port: int, language: Callable[[], Language] = Postgres) -> None:
        self._server, self._language = (host, port), language
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.state = "whole"
        self.lost_bytes = self.delayed = 0
        self.sprung = threading.Event()
        self._trap = ""
        self._lock = threading.Condition()
        self._connections: list[_Connection] = []
        threading.Thread(target=self._accept, daemon=True, name="wire").start()

    def set(self, state: str) -> None:
        """`whole`, `slow`, `cut` (reset, and refused), `pause` (held), `blackhole` (all is lost in
        silence) or `one-way` (only answers are)."""
        with self._lock:
            self.state = state
            self._lock.notify_all()
            broken = [c for c in self._connections if state == "cut" or c.robbed]
        for each in broken if state in ("cut", "whole") else ():
            each.reset()

    def lay(self, trap: str) -> None:
        """Lose the next write's request, or its answer; its connection is reset then."""
        with self._lock:
            self.sprung.clear()
            self._trap = trap

    def close(self) -> None:
        self._listener.close()
        self.set("cut")

    def wants(self, trap: str) -> bool:
        """True once, for the first write after a trap was laid."""
        with self._lock:
            if self._trap != trap:
                return False
            self._trap = ""
            return True

    def lose(self, count: int, *, sprung: bool = False) -> None:
        with self._lock:
            self.lost_bytes += count
        if sprung:
            self.sprung.set()

    def passes(self, connection: _Connection, count: int, *, answer: bool) -> bool:
        """Wait while slow or paused; False if the bytes are lost, and the connection is robbed."""
        with self._lock:
            if self.state == "slow":
                self.delayed += 1
                self._lock.wait_for(lambda: self.state != "slow", SLOW_S)
            while self.state == "pause":
                self._lock.wait(POLL_S)
            if self.state in ("whole", "slow") or (self.state == "one-way" and not answer):
                return True
            connection.robbed = True  # in one with the count: `set` must not come between
            self.lost_bytes += count
        return False

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.state == "cut":
                    raise ConnectionRefusedError
                server = socket.create_connection(self._server, timeout=CONNECT_S)
                server.settimeout(None)
            except OSError:
                _reset(client)
                continue
            connection = _Connection(self, client, server, self._language())
            with self._lock:
                self._connections.append(connection)
            connection.start()


@dataclass
class _Connection:
    """Two sockets, and the language that is spoken between them."""

    wire: Wire
    client: socket.socket
    server: socket.socket
    language: Language
    robbed: bool = False

    def start(self) -> None:
        for pump in (self._up, self._down):
            threading.Thread(target=pump, daemon=True, name="wire").start()

    def reset(self) -> None:
        _reset(self.client)
        _reset(self.server)

    def _up(self) -> None:
        while chunk := _receive(self.client):
            if self.language.writes(chunk) and self.wire.wants(LOSE_COMMIT):
                self.wire.lose(len(chunk), sprung=True)
                self.reset()
                return
            if not self._pass(self.server, chunk, answer=False):
                return
        self._finish(self.server)

    def _down(self) -> None:
        while chunk := _receive(self.server):
            if self.language.has_written(chunk) and self.wire.wants(LOSE_ANSWER):
                self.wire.lose(len(chunk), sprung=True)
                self.reset()
                return
            if not self._pass(self.client, chunk, answer=True):
                return
        self._finish(self.client)

    def _pass(self, sink: socket.socket, chunk: bytes, *, answer: bool) -> bool:
        if not self.wire.passes(self, len(chunk), answer=answer):
            return True
        try:
            sink.sendall(chunk)
        except OSError:
            self.reset()
            return False
        return True

    def _finish(self, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(CHUNK)
    except OSError:
        return b""


def _reset(end: socket.socket) -> None:
    """Close so that the other side sees a reset, and wake whoever reads here."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RD)
    end.close()
