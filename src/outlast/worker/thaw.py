"""What a process does first when it wakes from a pause: look at its deadlines."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Any

from ..core.clock import Clock

PAUSE_MS = 100


class WakefulSelector(selectors.DefaultSelector):
    """The event loop's selector; `look()` is called after each wait that took long.

    Thawed by SIGCONT, a process would run the timers that came due meanwhile, and agent code with
    them, before any thread has had its turn. Here it looks before the loop runs anything.
    """

    def __init__(self, clock: Clock, look: Callable[[], None]) -> None:
        super().__init__()
        self._clock, self._look = clock, look
        self._seen_ms = clock.monotonic_ms()

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(timeout)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._seen_ms >= PAUSE_MS:
            self._look()
        self._seen_ms = now_ms
        return events
