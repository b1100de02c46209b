"""A wire before a server: a TCP proxy that a test can cut, hold, or rob of one message."""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

from tests.support.traps import DOWN, UP, WAIT_S, Trap, postgres_has_answered
from tests.support.wire_connection import Connection, reset


class Wire:
    """A proxy on a loopback port of its own to `port` of this machine.

    The wire is whole, paused, swallowing or cut; the state holds for all its connections, those
    to come included, until it is healed. Traps work on one message of one connection.
    """

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bytes_passed = {UP: 0, DOWN: 0}
        self.bytes_lost = {UP: 0, DOWN: 0}
        self.closed = threading.Event()
        self._change = threading.Condition()
        self._paused: frozenset[str] = frozenset()
        self._swallowing: frozenset[str] = frozenset()
        self._is_cut = False
        self._connections: list[Connection] = []
        self._traps: list[Trap] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True, name="wire")]
        self._threads[0].start()

    def url(self, url: str) -> str:
        """The same address, through this wire."""
        parts = urlsplit(url)
        name, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{name}{at}127.0.0.1:{self.port}"))

    @property
    def connections(self) -> int:
        """How many connections go through at this moment."""
        with self._change:
            return sum(connection.alive for connection in self._connections)

    # Harm to the whole wire

    def cut(self) -> None:
        """Reset every connection, and each new one, until healed."""
        with self._change:
            self._is_cut = True
        self._reset_all()

    def pause(self, *directions: str) -> None:
        """Hold what is sent (both ways, or UP or DOWN alone): it arrives when healed."""
        with self._change:
            self._paused = frozenset(directions or (UP, DOWN))

    def swallow(self, *directions: str) -> None:
        """Take what is sent and lose it: connections stay open and nobody is told.

        A connection that lost bytes is of no use afterwards: healing resets it.
        """
        with self._change:
            self._swallowing = frozenset(directions or (UP, DOWN))
            self._change.notify_all()

    def heal(self) -> None:
        """Make the wire whole again."""
        with self._change:
            self._is_cut = False
            self._paused = self._swallowing = frozenset()
            self._change.notify_all()
            robbed = [each for each in self._connections if each.robbed]
        for connection in robbed:
            connection.reset()

    def reset(self) -> None:
        """Reset the connections there are; new ones go through."""
        self._reset_all()

    # Harm to one message

    def lose_request(self, match: bytes, nth: int = 1) -> Trap:
        """The n-th request with these bytes never arrives, and its connection is reset."""
        return self._lay(Trap("lose request", match, nth, postgres_has_answered))

    def lose_answer(
        self,
        match: bytes,
        nth: int = 1,
        answered: Callable[[bytes], bool] = postgres_has_answered,
    ) -> Trap:
        """That request arrives and is answered; the answer is lost, and the connection reset.

        `answered` tells from the end of what came down whether the answer is complete, so that
        the server has done its work before the trap springs.
        """
        return self._lay(Trap("lose answer", match, nth, answered))

    def hold_request(self, match: bytes, nth: int = 1) -> Trap:
        """That request waits on the way until `let_go()`."""
        return self._lay(Trap("hold request", match, nth, postgres_has_answered))

    def hold_answer(self, match: bytes, nth: int = 1) -> Trap:
        """That request arrives, its answer waits on the way until `let_go()`."""
        return self._lay(Trap("hold answer", match, nth, postgres_has_answered))

    def close(self) -> None:
        """Take the wire away, with all its connections."""
        self.closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._change:
            self._change.notify_all()
        self._reset_all()
        for thread in self._threads:
            thread.join(timeout=WAIT_S)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # What connections ask

    def fate_of(self, direction: str, count: int) -> bool:
        """Wait while the direction is paused; True if `count` bytes may go on, False if lost."""
        with self._change:
            while direction in self._paused and not self._is_cut and not self.closed.is_set():
                self._change.wait()
            lost = direction in self._swallowing or self._is_cut or self.closed.is_set()
            self.count(direction, count, lost=lost)
            return not lost

    def count(self, direction: str, count: int, *, lost: bool) -> None:
        (self.bytes_lost if lost else self.bytes_passed)[direction] += count

    def trap_for(self, before: bytes, chunk: bytes) -> Trap | None:
        """The trap that this piece of a request springs."""
        with self._change:
            caught = next((trap for trap in self._traps if trap.catches(before, chunk)), None)
            if caught is not None:
                self._traps.remove(caught)
            return caught

    def _lay(self, trap: Trap) -> Trap:
        with self._change:
            self._traps.append(trap)
        return trap

    def _accept(self) -> None:
        while not self.closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        with self._change:
            is_cut = self._is_cut
        try:
            if is_cut:
                raise ConnectionRefusedError
            server = socket.create_connection(self._server, timeout=WAIT_S)
            server.settimeout(None)
        except OSError:
            reset(client)
            return
        connection = Connection(self, client, server)
        with self._change:
            self._connections = [each for each in self._connections if each.alive]
            self._connections.append(connection)
        self._threads += connection.start()

    def _reset_all(self) -> None:
        with self._change:
            connections = list(self._connections)
            self._change.notify_all()
        for connection in connections:
            connection.reset()
