"""What an owner may say on its task's log: the shape of each kind of body, and of an offer.

The store asks `fault` before anything is sent, so that an entry that cannot be written fails alone
and nobody writes what only others may: `lease.expired` is not an owner's to say.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from . import limits
from .chain import digest
from .lifecycle import LETS_GO
from .model import Entry, Event, Offer

Json = Any


class Body(msgspec.Struct):
    """Fields beyond these are kept and mean nothing to the store."""


class ReplayFinished(Body):
    through: int
    answered: int = 0
    unused: list[str] = []
    suppressed: dict[str, int] = {}


class StepDone(Body):
    key: str
    result: Json = None


class StepFailed(Body):
    key: str
    error: Json = None


class EffectIntended(Body):
    """`shared`: the key was given explicitly and is shared by all tasks of the store."""

    key: str
    name: str
    tool: str
    fingerprint: str
    shared: int | bool = 0
    tries: int = msgspec.field(name="try", default=1)


class EffectOutcome(Body):
    key: str


class EffectApplied(Body):
    """`adopted`: found applied by a probe or an observation; counted under `tool`."""

    key: str
    adopted: bool = False
    tool: str = ""


class EffectReused(Body):
    key: str
    tool: str


class WaitStarted(Body):
    name: str | None = None
    until_ms: int | None = None
    progressed: bool = False


class WaitEnded(Body):
    cause: Literal["signal", "timer", "timeout", "child"]
    signal: str | None = None


class LeaseReleased(Body):
    """`why`, `doubts`, `tool`, `error`: of a review. `due_ms`: when it may be claimed again."""

    reason: Literal["drain", "review", "retry", "deadline", "trust", "crashed", "unstarted"]
    progressed: bool = False
    due_ms: int | None = None
    why: str = ""
    doubts: list[str] = []
    tool: str = ""


class AttemptFailed(Body):
    error: Json = None


class TaskFailed(Body):
    reason: str = "error"
    error: Json = None


class TaskSucceeded(Body):
    result: Json = None


KINDS: dict[str, type[Body]] = {
    "replay.finished": ReplayFinished,
    "step.done": StepDone,
    "step.failed": StepFailed,
    "effect.intended": EffectIntended,
    "effect.applied": EffectApplied,
    "effect.failed": EffectOutcome,
    "effect.unknown": EffectOutcome,
    "effect.reused": EffectReused,
    "wait.started": WaitStarted,
    "wait.ended": WaitEnded,
    "checkpoint": Body,
    "note": Body,
    "lease.released": LeaseReleased,
    "attempt.failed": AttemptFailed,
    "cancel.acknowledged": Body,
    "task.succeeded": TaskSucceeded,
    "task.failed": TaskFailed,
    "task.cancelled": Body,
}
# A `wait.started` may be either: held while something else of the attempt runs, or not.
EITHER = frozenset({"wait.started"})
_DECODERS = {kind: msgspec.json.Decoder(body) for kind, body in KINDS.items()}


def fault(offer: Offer) -> str:
    """Why an offer can be written by nobody, "" if it can."""
    if not offer.entries:
        return "it has no entry"
    before: Entry | None = None
    for entry in offer.entries:
        said = _sequence_fault(entry, before, offer) or _fault(entry)
        if said:
            return f"{entry.event.kind}: {said}"
        before = entry
    return ""


def _sequence_fault(entry: Entry, before: Entry | None, offer: Offer) -> str:
    event = entry.event
    if event.task_id != offer.task_id or entry.epoch != offer.epoch:
        return "an offer is of one task and one epoch"
    if entry.epoch < 1:
        return "only an owner appends; epoch 0 is nobody's"
    if before is None:
        return "" if event.seq > 1 else "event 1 is the submit's"
    follows = event.seq == before.event.seq + 1 and entry.quoted == before.event.digest
    if not follows or event.at_ms < before.event.at_ms:
        return "each entry must quote the one before it"
    return "nothing follows what lets go" if before.event.holder == 0 else ""


def _fault(entry: Entry) -> str:
    event = entry.event
    if event.kind not in KINDS:
        return "an owner cannot say this"
    if event.holder not in _holders(entry):
        return f"its holder cannot be {event.holder}"
    if len(event.body) > limits.BODY_BYTES:
        return f"its body has {len(event.body):,} characters, the limit is {limits.BODY_BYTES:,}"
    try:
        body = _DECODERS[event.kind].decode(event.body)
        wanted = _digest(entry)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return f"its body is not what it should be ({error})"
    if "\0" in event.body or wanted != event.digest:
        return "its digest is not that of its content"
    return _body_fault(event, body)


def _holders(entry: Entry) -> tuple[int, ...]:
    if entry.event.kind in LETS_GO:
        return (0,)
    return (0, entry.epoch) if entry.event.kind in EITHER else (entry.epoch,)


def _digest(entry: Entry) -> str:
    e = entry.event
    return digest(entry.quoted, e.task_id, e.seq, e.holder, e.kind, e.body, e.at_ms)


def _body_fault(event: Event, body: Body) -> str:
    if isinstance(body, EffectIntended):
        own = body.key.startswith(f"{event.task_id}/")
        if own == bool(body.shared):
            return f"the key {body.key!r} is {'this task' if own else 'not this task'}'s own"
        if "\0" in body.key or len(body.key) > limits.KEY_CHARACTERS:
            return "its key has NUL in it or is too long"
    if isinstance(body, EffectApplied) and body.adopted and not body.tool:
        return "an adopted outcome names its tool"
    if isinstance(body, LeaseReleased) and body.reason == "review" and not body.why:
        return "a review says why"
    if isinstance(body, LeaseReleased) and body.why == "effect_conflict" and not body.tool:
        return "a conflict names its tool"
    return ""
