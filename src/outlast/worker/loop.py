"""The one skeleton of every loop: tick, wait till the next is due or somebody wakes it, stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..core import limits

TROUBLE_MS = 1_000


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
        self._wake = threading.Event()
        # A daemon: a thread that hangs in the database must not hold the process.
        self._thread = threading.Thread(target=self._run, name=f"outlast-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Tick now, from any thread."""
        self._wake.set()

    def stop(self, wait_ms: int) -> bool:
        """Ask it to end after its present tick; whether it did within `wait_ms`."""
        self._stopping = True
        self._wake.set()
        self._thread.join(wait_ms / 1_000)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            # Cleared before the tick, so that a wake during it is not lost.
            self._wake.clear()
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
            if self._wake.wait(slice_ms / 1_000) or (self._hinted and self._hinted()):
                return
            ms -= slice_ms
