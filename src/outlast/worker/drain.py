"""A drain: what a worker does from the order to leave until it has left.

    working ──order──► handing over ──grace is short──► cutting off ──grace ends──► leaving
                            │                               │
                            └────── nothing is held ────────┴──► leaving

Handing over, an attempt goes on to its next durable boundary and gives its lease back there; that
spends no retry, and another worker takes the task at once. Cutting off, its coroutine is cancelled.
The grace is kept whatever the database does. A second order leaves at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ..core import limits

EXIT_OK = 0
EXIT_UNAVAILABLE = 69
EXIT_LOST = 70
EXIT_DEADLINE = 75


class Phase(Enum):
    WORKING = "working"
    HANDING_OVER = "handing over"
    CUTTING_OFF = "cutting off"
    LEAVING = "leaving"


@dataclass(frozen=True)
class Order:
    """Who wants this worker to leave, and since when (monotonic)."""

    by: str
    since_ms: int


@dataclass(frozen=True)
class Drain:
    """The state of a drain, as a value: `phase` is a pure function of it and of the time.

    `hurry_ms`: since when it must be quick. `code`: what to exit with, where something else than
    the grace decides it.
    """

    grace_ms: int
    order: Order | None = None
    hurry_ms: int | None = None
    code: int | None = None

    def ordered(self, by: str, now_ms: int) -> Drain:
        """After an order to leave; the first one counts."""
        return self if self.order else replace(self, order=Order(by, now_ms))

    def hurried(self, by: str, now_ms: int) -> Drain:
        """After an order to leave at once."""
        hurry_ms = now_ms if self.hurry_ms is None else self.hurry_ms
        return replace(self.ordered(by, now_ms), hurry_ms=hurry_ms)

    def ending_with(self, code: int, why: str, now_ms: int) -> Drain:
        """After something that makes this process unfit to go on."""
        return replace(self.hurried(why, now_ms), code=code)

    @property
    def asked(self) -> bool:
        return self.order is not None

    def phase(self, now_ms: int, held: int) -> Phase:
        """What to do now. `held`: leases that have not been given back."""
        if self.order is None:
            return Phase.WORKING
        if held == 0 or now_ms >= self.speak_ms:
            return Phase.LEAVING
        return Phase.HANDING_OVER if now_ms < self.cut_ms else Phase.CUTTING_OFF

    @property
    def cut_ms(self) -> int:
        """When coroutines are cancelled: the rest is kept to write down how they ended."""
        return self.leave_ms - last_words_ms(self.grace_ms)

    @property
    def speak_ms(self) -> int:
        """When what has not ended by itself is given back over its head, right before the end.

        Half of the last words: on a busy disk a quarter was seen to be too short for the commit.
        """
        return self.leave_ms - last_words_ms(self.grace_ms) // 2

    @property
    def leave_ms(self) -> int:
        """When the process ends, come what may."""
        assert self.order is not None
        leave_ms = self.order.since_ms + self.grace_ms
        if self.hurry_ms is None:
            return leave_ms
        return min(leave_ms, self.hurry_ms + last_words_ms(self.grace_ms))

    def exit_code(self, *, cut_off: int, left_behind: int) -> int:
        """0: everything was handed over in time. `cut_off`: leases that ended at the deadline."""
        if self.code is not None:
            return self.code
        return EXIT_DEADLINE if cut_off or left_behind else EXIT_OK


def last_words_ms(grace_ms: int) -> int:
    """How much of the grace is kept for what must be written at its end.

    Half of a short one: a quarter of a second was seen to be too little for a busy disk.
    """
    return min(limits.LAST_WORDS_MS, grace_ms // 2)
