"""How an attempt ended, and what that means for its task: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec

from ..core.failures import failure, tagged
from ..core.model import Task
from ..core.retry import Retry, TryAgain, next_move
from .app import BadInput
from .stop import Cause, Stop
from .writer import Draft, draft


@dataclass(frozen=True)
class Returned:
    """The agent returned; `result` is JSON text."""

    result: str


@dataclass(frozen=True)
class Raised:
    """The agent raised; `reason`: error, timed_out or bad_input."""

    error: BaseException
    reason: str = "error"


@dataclass(frozen=True)
class Stopped:
    """The agent was told to stop, and has."""

    stop: Stop


Outcome = Returned | Raised | Stopped


@dataclass(frozen=True)
class Doubt:
    """An effect that was begun and has no outcome. `called`: False if the call was never made."""

    key: str
    name: str
    tool: str
    called: bool = True


@dataclass(frozen=True)
class Late:
    """An effect known to be applied when its attempt had to stop already.

    `draft`: for the log, if the lease still is ours; None: it is on its way there. If the lease is
    lost it becomes an observation.
    """

    key: str
    result: Any
    draft: Draft | None = None


@dataclass(frozen=True)
class Review:
    """Why a person must decide. `tool`: of the effect whose key has other arguments."""

    why: str
    error: BaseException
    keys: tuple[str, ...] = ()
    tool: str = ""

    def with_keys(self, keys: tuple[str, ...]) -> Review:
        """The same with more doubts."""
        return replace(self, keys=tuple(dict.fromkeys([*self.keys, *keys])))


def decided(outcome: Outcome, stop: Stop | None, *, told: bool = False) -> Outcome:
    """What counts where the agent ended by itself while it was told to stop.

    A drain loses to whatever the agent says; a cut at the deadline loses to a result, since that is
    worth keeping, but an error then says only that it was cut. All other orders prevail.
    `told`: the order was raised into the agent's code. What it then says is what it made of the
    order (a `finally` that raises, an `except BaseException`), and no end of its task.
    """
    if stop is None or isinstance(outcome, Stopped):
        return outcome if stop is None else Stopped(stop)
    if told:
        return Stopped(stop)
    if stop.cause is Cause.DRAIN:
        return outcome
    if stop.cause is Cause.DEADLINE and isinstance(outcome, Returned):
        return outcome
    return Stopped(stop)


def is_final(outcome: Outcome, task: Task, policy: Retry) -> bool:
    """Whether the agent has ended by itself, and nobody will run the task after this outcome."""
    if isinstance(outcome, Raised):
        given_up = isinstance(outcome.error, policy.give_up_on)
        return outcome.reason == "bad_input" or given_up or task.failures >= policy.retries
    return isinstance(outcome, Returned)


def drafts_of(
    outcome: Outcome,
    task: Task,
    policy: Retry,
    chance: Random,
    now_ms: int,
    doubts: Sequence[Doubt],
    review: Review | None,
) -> list[Draft]:
    """The events that say how it ended; none where there is nothing to say any more."""
    match outcome:
        case Returned(result):
            body = {"result": msgspec.Raw(result.encode())}
            return [*_unknown(doubts), draft("task.succeeded", body, lets_go=True)]
        case Raised():
            return _after_error(outcome, task, policy, chance, now_ms, doubts)
        case Stopped(stop):
            return _after_stop(stop, task, policy, chance, now_ms, doubts, review)


def cancelled(stop: Stop, doubts: Sequence[Doubt], *, acknowledged: bool) -> list[Draft]:
    """The end of a task that somebody asked to be cancelled."""
    body = {"by": stop.by, "why": stop.why, "asked_ms": stop.asked_ms}
    first = [] if acknowledged else [draft("cancel.acknowledged", body)]
    return [*first, *_unknown(doubts), draft("task.cancelled", body, lets_go=True)]


def released(reason: str, intents: Sequence[Doubt] = (), **more: Any) -> list[Draft]:
    """The lease given back; calls that were not made are said to be none."""
    body = {"reason": reason, **{name: value for name, value in more.items() if value is not None}}
    not_called = [each for each in intents if not each.called]
    return [*_unknown(not_called), draft("lease.released", body, lets_go=True)]


def _after_error(
    outcome: Raised,
    task: Task,
    policy: Retry,
    chance: Random,
    now_ms: int,
    doubts: Sequence[Doubt],
) -> list[Draft]:
    error, reason = failure(outcome.error), outcome.reason
    move = next_move(policy, task.failures + 1, outcome.error, chance)
    said: dict[str, Any] = {"error": error, "retry_ms": None, "again": tagged(outcome.error)}
    if isinstance(move, TryAgain) and not isinstance(outcome.error, BadInput):
        said["retry_ms"] = move.delay_ms
        due_ms = now_ms + move.delay_ms
        return [draft("attempt.failed", said), *released("retry", doubts, due_ms=due_ms)]
    short = {"type": error["type"], "message": error["message"]}
    failed = draft("task.failed", {"reason": reason, "error": short}, lets_go=True)
    return [draft("attempt.failed", said), *_unknown(doubts), failed]


def _after_stop(
    stop: Stop,
    task: Task,
    policy: Retry,
    chance: Random,
    now_ms: int,
    doubts: Sequence[Doubt],
    review: Review | None,
) -> list[Draft]:
    match stop.cause:
        case Cause.CANCEL:
            return cancelled(stop, doubts, acknowledged=True)
        case Cause.TIMED_OUT:
            late = Raised(TimeoutError(stop.why), "timed_out")
            return _after_error(late, task, policy, chance, now_ms, doubts)
        case Cause.REVIEW if review is not None:
            return _to_review(review, doubts)
        case Cause.DRAIN:
            return released("drain", doubts)
        case Cause.DEADLINE:
            return released("deadline", doubts)
        case Cause.TRUST | Cause.LOST:
            # Where the lease is lost this is refused, and the refusal kept: the evidence that an
            # owner came back after its time, whether a heartbeat or a write heard of it first.
            return released("trust", doubts)
    return []  # suspended: the wait has let go


def _to_review(review: Review, doubts: Sequence[Doubt]) -> list[Draft]:
    error = failure(review.error)
    asked = [each for each in doubts if each.key in review.keys or not each.called]
    return [
        *_unknown(asked),
        *released(
            "review",
            why=review.why,
            doubts=list(review.keys),
            tool=review.tool or None,
            error={"type": error["type"], "message": error["message"]},
        ),
    ]


def _unknown(doubts: Sequence[Doubt]) -> list[Draft]:
    """An outcome for every intent: unknown, or failed where the call was never made."""
    drafts = []
    for each in doubts:
        body: dict[str, Any] = {"key": each.key, "name": each.name, "tool": each.tool}
        if each.called:
            drafts.append(draft("effect.unknown", body))
        else:
            not_made = {"type": "outlast.NotDone", "message": "the call was not made"}
            drafts.append(draft("effect.failed", {**body, "error": not_made, "final": False}))
    return drafts
