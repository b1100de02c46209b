"""The skeleton of every loop: when it ticks, and that nothing stops it but `stop`."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outlast.store.verbs import HintsCome
from outlast.worker.loop import Hints, Loop

SOON_S = 10.0
LONG_MS = 600_000


def test_a_hint_ends_the_wait() -> None:
    ticked, hints = Ticks(), Pipe()
    with running(ticked, hints) as loop:
        ticked.wait_for(1)
        hints.give()
        ticked.wait_for(2)
        assert loop.name == "test"
    assert hints.asked <= 4, "it asks in a circle"


def test_without_a_hint_it_waits_for_its_time() -> None:
    ticked, asked = Ticks(), Ticks()

    class Polled:
        def hinted(self) -> bool:
            asked()
            return False

        def hints_come(self) -> HintsCome:
            return HintsCome(look_ms=1)

    with running(ticked, Polled()):
        asked.wait_for(3)
        assert ticked.count == 1


def test_a_wake_ends_the_wait() -> None:
    ticked = Ticks()
    with running(ticked) as loop:
        ticked.wait_for(1)
        loop.wake()
        ticked.wait_for(2)


def test_a_wake_ends_the_wait_for_a_hint() -> None:
    ticked = Ticks()
    with running(ticked, Pipe()) as loop:
        ticked.wait_for(1)
        loop.wake()
        ticked.wait_for(2)


class Pipe:
    """Hints that come through a file descriptor."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self.asked = 0

    def give(self) -> None:
        self._write.send(b"!")

    def hinted(self) -> bool:
        self.asked += 1
        try:
            return bool(self._read.recv(10))
        except BlockingIOError:
            return False

    def hints_come(self) -> HintsCome:
        return HintsCome(self._read.fileno())

    def close(self) -> None:
        self._read.close()
        self._write.close()


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
def running(tick: Callable[[], int], hints: Hints | None = None) -> Iterator[Loop]:
    troubles: list[Exception] = []
    loop = Loop("test", tick, on_trouble=lambda _, error: troubles.append(error), hints=hints)
    loop.start()
    try:
        yield loop
    finally:
        assert loop.stop(int(SOON_S * 1_000))
        assert not troubles
        if isinstance(hints, Pipe):
            hints.close()
