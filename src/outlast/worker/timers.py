"""Times at which something is to happen on the event loop, by the worker's own clock."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable
from types import TracebackType

from ..core.clock import Clock


class Timer:
    """One of them; `cancel` makes it nothing."""

    def __init__(self, at_ms: int, call: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Timers:
    """All of a worker. Times are of the monotonic clock, which tests move by hand."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.wake: Callable[[], None] = lambda: None
        self.post: Callable[[Callable[[], None]], None] = lambda call: call()
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def after(self, ms: int, call: Callable[[], None]) -> Timer:
        """Have `call()` run on the event loop in `ms`."""
        timer = Timer(self.clock.monotonic_ms() + max(0, ms), call)
        with self._lock:
            first = not self._heap or timer.at_ms < self._heap[0][0]
            heapq.heappush(self._heap, (timer.at_ms, next(self._numbers), timer))
        if first:
            self.wake()
        return timer

    @property
    def next_ms(self) -> int | None:
        """When the next is due, None: there is none."""
        with self._lock:
            return min((t.at_ms for _, _, t in self._heap if t.call is not None), default=None)

    def tick(self) -> int | None:
        """Run what is due; ms until the next, None: there is none."""
        now_ms = self.clock.monotonic_ms()
        while True:
            with self._lock:
                while self._heap and self._heap[0][2].call is None:
                    heapq.heappop(self._heap)
                if not self._heap:
                    return None
                if self._heap[0][0] > now_ms:
                    return self._heap[0][0] - now_ms
                timer = heapq.heappop(self._heap)[2]
            call = timer.call
            if call is not None:
                self.post(call)

    async def sleep(self, ms: int) -> None:
        woken = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.after(ms, wake)
        try:
            await woken
        finally:
            timer.cancel()


class TimeLimit:
    """`async with TimeLimit(timers, ms):` the body is cancelled, and TimeoutError raised."""

    def __init__(self, timers: Timers, ms: int | None, what: str) -> None:
        self._timers, self._ms, self._what = timers, ms, what
        self._timer: Timer | None = None
        self._passed = False

    async def __aenter__(self) -> TimeLimit:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        if self._ms is not None:
            self._timer = self._timers.after(self._ms, self._fire)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if (
            self._passed
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise TimeoutError(f"{self._what} took longer than {self._ms} ms") from error

    def _fire(self) -> None:
        self._passed = True
        self._task.cancel()
