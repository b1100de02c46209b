"""A wire before a server: a TCP proxy that a test can cut, hold, or rob of one message."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

CHUNK = 65536
TAIL = 256
WAIT_S = 10.0
UP, DOWN = "up", "down"
# The last message of an answer of PostgreSQL, "ready for query", less its one letter of status.
READY_FOR_QUERY = b"Z\x00\x00\x00\x05"


def postgres_has_answered(tail: bytes) -> bool:
    """True if `tail`, the end of what a PostgreSQL server sent, closes an answer."""
    return tail[-6:-1] == READY_FOR_QUERY


class Trap:
    """One message to be lost or held: laid by the test, sprung by the wire.

    `wait()` returns once the message is lost or held, so that a test need not guess. The bytes to
    match are at most 256.
    """

    def __init__(
        self, kind: str, match: bytes, nth: int, answered: Callable[[bytes], bool]
    ) -> None:
        self.kind = kind
        self.answered = answered
        self._match = match
        self._left = nth
        self._sprung = threading.Event()
        self._released = threading.Event()

    @property
    def sprung(self) -> bool:
        return self._sprung.is_set()

    def wait(self, timeout_s: float = WAIT_S) -> None:
        """Wait until the message was lost, or is being held."""
        if not self._sprung.wait(timeout_s):
            raise AssertionError(f"no message with {self._match!r} within {timeout_s:g} s")

    def let_go(self) -> None:
        """Send on what a `hold_...` trap holds."""
        self._released.set()

    def catches(self, before: bytes, chunk: bytes) -> bool:
        """True for the n-th piece in which the bytes end; asked by the wire.

        They may have begun in what came `before`, which holds no whole match any more.
        """
        begun = before[len(before) - min(len(before), len(self._match) - 1) :]
        if self._match not in begun + chunk:
            return False
        self._left -= 1
        return self._left == 0

    def spring(self) -> None:
        self._sprung.set()

    def until_let_go(self, closed: threading.Event) -> None:
        while not self._released.wait(0.02) and not closed.is_set():
            pass


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
            _reset(client)
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


class Connection:
    """One connection through a wire: a thread for what goes up, one for what comes down."""

    def __init__(self, wire: Wire, client: socket.socket, server: socket.socket) -> None:
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
            _reset(end)

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
            if not _send(sink, chunk):
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

    def _finish(self, sink: socket.socket) -> None:
        """Pass on that one side has closed; the second to finish closes both."""
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        if self._wire.closed.is_set() or sink is self._client:
            self._ended.set()
            for end in (self._client, self._server):
                end.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(CHUNK)
    except OSError:
        return b""


def _send(sink: socket.socket, chunk: bytes) -> bool:
    try:
        sink.sendall(chunk)
    except OSError:
        return False
    return True


def _reset(end: socket.socket) -> None:
    """Close so that the other side sees a reset, and wake whoever reads from `end`."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RD)
    end.close()
