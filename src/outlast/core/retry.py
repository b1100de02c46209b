"""When to try again: a pure policy for attempts, steps and effects."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .durations import Duration, duration_ms
from .errors import BadSetting, UsageError

MULTIPLIER = 2.0


@dataclass(frozen=True)
class Retry:
    """How often and how soon a failure is followed by another try.

    `retries`: tries after the first. `backoff_ms`: before the first of them; it doubles with each,
    up to `backoff_max_ms`. `jitter`: the share of the wait that chance may take away, so that what
    failed together does not come back together. `give_up_on`: errors that no new try can mend.
    """

    retries: int = 0
    backoff_ms: int = 1_000
    backoff_max_ms: int = 300_000
    jitter: float = 0.5
    give_up_on: tuple[type[BaseException], ...] = (UsageError,)

    def __post_init__(self) -> None:
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise BadSetting(f"retries cannot be {self.retries!r}: it is a count, 0 or more")
        if not 0 <= self.jitter <= 1:
            raise BadSetting(f"jitter cannot be {self.jitter!r}: it is a share, 0 to 1")

    def delay_ms(self, failures: int, chance: Random) -> int:
        """How long to wait after failure number `failures` (from 1)."""
        # The exponent is bounded, since a float has an end and a task may fail for years.
        full = self.backoff_ms * MULTIPLIER ** min(failures - 1, 64)
        full = min(full, self.backoff_max_ms)
        return round(full * (1 - self.jitter * chance.random()))


ONCE = Retry()


@dataclass(frozen=True)
class TryAgain:
    """Another try, this long from now."""

    delay_ms: int


@dataclass(frozen=True)
class GiveUp:
    """No other try."""


NextMove = TryAgain | GiveUp


def next_move(policy: Retry, failures: int, error: BaseException, chance: Random) -> NextMove:
    """What follows a failure. `failures`: how many there are now, this one included."""
    if failures > policy.retries or isinstance(error, policy.give_up_on):
        return GiveUp()
    return TryAgain(policy.delay_ms(failures, chance))


def retry_policy(
    retries: int | None,
    backoff: Duration | None = None,
    backoff_max: Duration | None = None,
    *,
    default: Retry | None = None,
) -> Retry:
    """The policy that the arguments of a decorator or a call amount to; None: as in `default`."""
    base = default or ONCE
    if retries is backoff is backoff_max is None:
        return base
    return Retry(
        retries=base.retries if retries is None else retries,
        backoff_ms=base.backoff_ms if backoff is None else duration_ms(backoff, "backoff"),
        backoff_max_ms=(
            base.backoff_max_ms if backoff_max is None else duration_ms(backoff_max, "backoff_max")
        ),
    )
