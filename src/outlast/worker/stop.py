"""Why an attempt must stop: six causes, which of them prevails, and how agent code hears it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..core.errors import (
    AttemptEnded,
    Cancelled,
    Drained,
    LeaseLostNow,
    Reviewed,
    Suspended,
    TimedOut,
)


class Cause(IntEnum):
    """The higher one prevails. From DEADLINE on the coroutine is cancelled, not only asked."""

    DRAIN = 1
    SUSPENDED = 2
    REVIEW = 3
    DEADLINE = 4
    TIMED_OUT = 5
    CANCEL = 6
    TRUST = 7
    LOST = 8


@dataclass(frozen=True)
class Stop:
    """An order to stop. `by`, `why`, `asked_ms`: who wants it, of a cancel request."""

    cause: Cause
    why: str
    by: str | None = None
    asked_ms: int | None = None

    @property
    def at_once(self) -> bool:
        """Whether it does not wait for the next durable boundary."""
        return self.cause >= Cause.DEADLINE

    def as_error(self) -> AttemptEnded:
        """What the agent's next call raises."""
        return _ERRORS[self.cause](self.why)


def prevailing(old: Stop | None, new: Stop) -> Stop:
    """Which of two orders is obeyed."""
    return new if old is None or new.cause > old.cause else old


_ERRORS: dict[Cause, type[AttemptEnded]] = {
    Cause.DRAIN: Drained,
    Cause.SUSPENDED: Suspended,
    Cause.REVIEW: Reviewed,
    Cause.DEADLINE: Drained,
    Cause.TIMED_OUT: TimedOut,
    Cause.CANCEL: Cancelled,
    Cause.TRUST: LeaseLostNow,
    Cause.LOST: LeaseLostNow,
}
