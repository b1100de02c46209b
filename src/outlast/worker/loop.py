"""The one skeleton of every loop: tick, wait till the next is due or somebody wakes it, stop."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ..store.verbs import HintsCome

TROUBLE_MS = 1_000


class Bell:
    """Rung by any thread, waited for by one, which is the end of that ring.

    A lock that is let go of by whoever rings: an Event costs ten times as much, and every step of
    every agent rings.
    """

    def __init__(self) -> None:
        self._rung = threading.Lock()
        self._rung.acquire()

    def ring(self) -> None:
        if self._rung.locked():
            with suppress(RuntimeError):  # another did at the same moment
                self._rung.release()

    def wait(self, timeout_s: float, fd: int | None = None) -> bool:
        """Whether it was rung, before that or meanwhile."""
        return self._rung.acquire(timeout=timeout_s)

    def close(self) -> None:
        """Nothing to close."""


class BellAndHints:
    """As `Bell`, and a file descriptor that becomes readable ends the wait, too."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def ring(self) -> None:
        with suppress(OSError):  # rung often enough already, or the loop has ended
            self._write.send(b"!")

    def wait(self, timeout_s: float, fd: int | None = None) -> bool:
        """Whether it was rung; False where only `fd` is readable, or nothing."""
        either = select.poll()
        either.register(self._read, select.POLLIN)
        if fd is not None:
            either.register(fd, select.POLLIN)
        if self._read.fileno() not in [ready for ready, _ in either.poll(timeout_s * 1_000)]:
            return False
        with suppress(BlockingIOError):
            self._read.recv(4_096)
        return True

    def close(self) -> None:
        self._read.close()
        self._write.close()


class Hints(Protocol):
    """What may end a wait: `hinted` says to tick now, `hints_come` how to wait for that."""

    def hinted(self) -> bool: ...
    def hints_come(self) -> HintsCome: ...


class Loop:
    """Calls `tick()` on a thread of its own; a tick returns how many ms may pass before the next.

    `hints` may end a wait early.

    A tick that raises is reported and called again a second later: a loop that ends silently would
    leave its worker without a heartbeat, or without a reaper.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[], int],
        *,
        on_trouble: Callable[[str, Exception], None],
        on_end: Callable[[], None] = lambda: None,
        hints: Hints | None = None,
    ) -> None:
        self.name = name
        self._tick = tick
        self._on_trouble = on_trouble
        self._on_end = on_end
        self._hints = hints
        self._stopping = False
        self._bell = BellAndHints() if hints is not None else Bell()
        # A daemon: a thread that hangs in the database must not hold the process.
        self._thread = threading.Thread(target=self._run, name=f"outlast-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Tick now, from any thread."""
        self._bell.ring()

    def stop(self, wait_ms: int) -> bool:
        """Ask it to end after its present tick; whether it did within `wait_ms`."""
        self._stopping = True
        self._bell.ring()
        self._thread.join(wait_ms / 1_000)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            self._wait(self._one_tick())
        self._bell.close()
        self._on_end()

    def _one_tick(self) -> int:
        try:
            return self._tick()
        except Exception as error:
            self._on_trouble(self.name, error)
            return TROUBLE_MS

    def _wait(self, ms: int) -> None:
        """Until it is time, or somebody wakes it, or there is a hint."""
        until_s = time.monotonic() + ms / 1_000
        while not self._stopping and (left_s := until_s - time.monotonic()) > 0:
            fd = None
            if self._hints is not None:
                if self._hints.hinted():
                    return
                come = self._hints.hints_come()
                fd = come.fd
                left_s = left_s if come.look_ms is None else min(left_s, come.look_ms / 1_000)
            if self._bell.wait(left_s, fd):
                return
