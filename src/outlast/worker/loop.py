"""The one skeleton of every loop: tick, wait till the next is due or somebody wakes it, stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ..core import limits

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

    def wait(self, timeout_s: float) -> bool:
        """Whether it was rung, before that or meanwhile."""
        return self._rung.acquire(timeout=timeout_s)


class Loop:
    """Calls `tick()` on a thread of its own; a tick returns how many ms may pass before the next.

    `hinted()`: asked many times a second while it waits, whether to tick before that.

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
        hinted: Callable[[], bool] | None = None,
    ) -> None:
        self.name = name
        self._tick = tick
        self._on_trouble = on_trouble
        self._on_end = on_end
        self._hinted = hinted
        self._stopping = False
        self._bell = Bell()
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
        self._on_end()

    def _one_tick(self) -> int:
        try:
            return self._tick()
        except Exception as error:
            self._on_trouble(self.name, error)
            return TROUBLE_MS

    def _wait(self, ms: int) -> None:
        """Until it is time, or somebody wakes it, or there is a hint."""
        while ms > 0 and not self._stopping:
            slice_ms = min(ms, limits.HINT_MS) if self._hinted else ms
            if self._bell.wait(slice_ms / 1_000) or (self._hinted and self._hinted()):
                return
            ms -= slice_ms
