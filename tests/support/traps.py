"""Traps on a wire: one message to be lost or held, laid by a test and sprung by the wire."""

import threading
from collections.abc import Callable

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
