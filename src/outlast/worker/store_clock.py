"""What time the database has, as far as its last answer tells."""

from __future__ import annotations

from ..core.clock import Clock


class StoreClock:
    """The database's clock, carried on by our monotonic one; never a condition of any write."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told = (clock.wall_ms(), clock.monotonic_ms())

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def tell(self, now_ms: int) -> None:
        """The database has just said that it is `now_ms`."""
        self._told = (now_ms, self._clock.monotonic_ms())

    def now_ms(self) -> int:
        said_ms, heard_ms = self._told
        return said_ms + self._clock.monotonic_ms() - heard_ms
