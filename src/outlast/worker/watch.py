"""The watch: a thread that asks nobody, and so sees every deadline, whatever hangs.

It looks at trust, at time limits, at attempts that will not stop, at a drain's grace, and at how
long the event loop has been blocked. After a pause of the whole process its look is the first.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.clock import Clock
from .holding import Holding, Holdings
from .stop import Cause, Stop
from .timers import Timers

LOOK_MS = 1_000


class Watch:
    """`tick` looks at everything; ms until the next deadline. `end(holding)`: it will not stop."""

    def __init__(
        self,
        holdings: Holdings,
        timers: Timers,
        clock: Clock,
        *,
        post: Callable[[Callable[[], None]], None],
        end: Callable[[Holding], None],
        look_at_drain: Callable[[], int],
    ) -> None:
        self._holdings = holdings
        self._timers = timers
        self._clock = clock
        self._post = post
        self._end = end
        self._look_at_drain = look_at_drain
        self._echo_sent_ms: int | None = None
        self._blocked_ms = 0

    def tick(self) -> int:
        now_ms = self._clock.monotonic_ms()
        waits = [LOOK_MS, self._look_at_drain()]
        for holding in self._holdings.all():
            waits.append(self._look(holding, now_ms))
        waits.append(self._echo(now_ms))
        next_timer_ms = self._timers.tick()
        if next_timer_ms is not None:
            waits.append(next_timer_ms)
        return max(1, min(waits))

    def take_blocked_ms(self) -> int:
        """The longest that the event loop was blocked since this was asked last."""
        blocked_ms, self._blocked_ms = self._blocked_ms, 0
        return blocked_ms

    def _look(self, holding: Holding, now_ms: int) -> int:
        """One lease; ms until something may be due for it."""
        if holding.acting and not holding.trusted():
            holding.order(Stop(Cause.TRUST, "no heartbeat was answered in time"))
        stall_ms = holding.spec.stall_timeout_ms
        if holding.acting and stall_ms is not None and now_ms - holding.progress_ms >= stall_ms:
            said = f"the attempt recorded nothing for {stall_ms} ms"
            holding.order(Stop(Cause.TIMED_OUT, said))
        end_ms = end_by_ms(holding)
        if end_ms is not None and now_ms >= end_ms:
            self._end(holding)
            return LOOK_MS
        waits = [holding.trusted_until_ms - now_ms] if holding.trusted() else []
        waits += [end_ms - now_ms] if end_ms is not None else []
        waits += [holding.progress_ms + stall_ms - now_ms] if stall_ms is not None else []
        return max(1, min((wait for wait in waits if wait > 0), default=LOOK_MS))

    def _echo(self, now_ms: int) -> int:
        """Measure how late the event loop runs what it is given."""
        if self._echo_sent_ms is None:
            self._echo_sent_ms = now_ms
            self._post(self._heard)
        else:
            self._blocked_ms = max(self._blocked_ms, now_ms - self._echo_sent_ms)
        return LOOK_MS // 4

    def _heard(self) -> None:
        sent_ms, self._echo_sent_ms = self._echo_sent_ms, None
        if sent_ms is not None:
            self._blocked_ms = max(self._blocked_ms, self._clock.monotonic_ms() - sent_ms)


def end_by_ms(holding: Holding) -> int | None:
    """When an attempt that must stop has had its time; None: it need not stop, or has."""
    if not holding.acting:
        return None
    times = [holding.end_by_ms] if holding.end_by_ms is not None else []
    stop = holding.stop
    if stop is not None and stop.at_once:
        times.append(holding.stop_ms + holding.spec.kill_after_ms)
    return min(times, default=None)
