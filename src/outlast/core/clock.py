"""Time, chance and ids come in through one door, so that a test can move the clock by hand."""

from __future__ import annotations

import random as random_module
import time
from dataclasses import dataclass, field
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


def uuid7(wall_ms: int, random: Random) -> str:
    """A UUID version 7 (RFC 9562): 48 bits of milliseconds, then chance; sorts by time."""
    value = (wall_ms & (1 << 48) - 1) << 80 | 7 << 76 | random.getrandbits(12) << 64
    value |= 0b10 << 62 | random.getrandbits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True)
class Env:
    """What a process may take from outside itself: clock, chance, ids."""

    clock: Clock = field(default_factory=SystemClock)
    random: Random = field(default_factory=random_module.SystemRandom)

    def new_id(self) -> str:
        return uuid7(self.clock.wall_ms(), self.random)
