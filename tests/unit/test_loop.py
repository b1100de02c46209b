"""The skeleton of every loop: when it ticks, and that nothing stops it but `stop`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlast.worker.loop import Loop

SOON_S = 10.0
LONG_MS = 600_000


def test_a_hint_ends_the_wait() -> None:
    ticked, hint = Ticks(), threading.Event()
    with running(ticked, hinted=hint.is_set) as loop:
        ticked.wait_for(1)
        hint.set()
        ticked.wait_for(2)
        assert loop.name == "test"


def test_without_a_hint_it_waits_for_its_time() -> None:
    ticked, asked = Ticks(), Ticks()

    def hinted() -> bool:
        asked()
        return False

    with running(ticked, hinted=hinted):
        asked.wait_for(3)
        assert ticked.count == 1


def test_a_wake_ends_the_wait() -> None:
    ticked = Ticks()
    with running(ticked) as loop:
        ticked.wait_for(1)
        loop.wake()
        ticked.wait_for(2)


class Ticks:
    """Counts its calls; the next is not due for a long time."""

    def __init__(self) -> None:
        self.count = 0
        self._more = threading.Condition()

    def __call__(self) -> int:
        with self._more:
            self.count += 1
            self._more.notify_all()
        return LONG_MS

    def wait_for(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: self.count >= count, SOON_S), self.count


@contextmanager
def running(tick: Callable[[], int], hinted: Callable[[], bool] | None = None) -> Iterator[Loop]:
    troubles: list[Exception] = []
    loop = Loop("test", tick, on_trouble=lambda _, error: troubles.append(error), hinted=hinted)
    loop.start()
    try:
        yield loop
    finally:
        assert loop.stop(int(SOON_S * 1_000))
        assert not troubles
