"""The supervisor as its worker sees it: a pipe that brings orders, and ends when it dies."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable


class Parent:
    """The reading end of that pipe. Each byte is the number of a signal that was passed on.

    Until somebody has `attach`ed there is no worker yet, and nothing to hand over: an order ends
    this process, and so does the death of its parent.
    """

    def __init__(self, reads: int) -> None:
        self._reads = reads
        self._hear: Callable[[int], None] = lambda number: _die()
        self._lost: Callable[[], None] = _die
        threading.Thread(target=self._listen, name="outlast-parent", daemon=True).start()

    def attach(self, hear: Callable[[int], None], lost: Callable[[], None]) -> None:
        """`hear(number)` is called for each order, `lost()` once the parent is dead."""
        self._hear, self._lost = hear, lost

    def _listen(self) -> None:
        while heard := os.read(self._reads, 64):
            for number in heard:
                self._hear(number)
        self._lost()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
