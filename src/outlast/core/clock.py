"""Time, chance and ids come in through one door, so that a test can move the clock by hand."""

from __future__ import annotations

import itertools
import random as random_module
import time
from random import Random
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall's, for people and SQLite, and one that never goes back, for trust."""

    def wall_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...


# Linux's monotonic clock stands still while the machine is suspended; leases do not.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The machine's own clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        if _BOOTTIME is None:
            return time.monotonic_ns() // 1_000_000
        return time.clock_gettime_ns(_BOOTTIME) // 1_000_000


class HandClock:
    """A clock for tests: it stands still until somebody moves it."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def move(self, by_ms: int) -> None:
        self.now_ms += by_ms


def uuid7(wall_ms: int, tail: int) -> str:
    """A UUID version 7 (RFC 9562): 48 bits of milliseconds, 74 of tail; sorts by both."""
    value = (wall_ms & (1 << 48) - 1) << 80 | 7 << 76 | (tail >> 62) << 64
    value |= 0b10 << 62 | tail & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Ids:
    """Each greater than the one before, within a millisecond too: what one client submits in an
    order is claimed in that order. Safe with threads; a fork's halves part by chance.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = itertools.count(random.getrandbits(29))  # of 30: far from turning over

    def new(self, wall_ms: int) -> str:
        count = next(self._count) & (1 << 30) - 1
        return uuid7(wall_ms, count << 44 | self._random.getrandbits(44))


class Env:
    """What a process may take from outside itself: clock, chance, ids."""

    def __init__(self, clock: Clock | None = None, random: Random | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self.random: Random = random or random_module.SystemRandom()
        self._ids = Ids(self.random)

    def new_id(self) -> str:
        return self._ids.new(self.clock.wall_ms())
