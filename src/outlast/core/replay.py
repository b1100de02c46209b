"""From a task's log to what its agent already knows: answers by key, and what is still open.

A key is the name that the agent gave a call, with `#2`, `#3` for repeats and, inside a branch of a
gather, the branch before it. Keys, not positions, tie code to record, so code may change between
two lives. Events are learned one after the other, from the last checkpoint on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from .model import IN_DOUBT, Effect, Event

SCOPE = "›"
_NUMBERED = re.compile(r"(.*)#([1-9]\d*)", re.DOTALL)
_LEASE_ENDS = frozenset({"lease.expired", "lease.revoked", "lease.released"})
_EFFECT_STATES = {
    "effect.applied": "applied",
    "effect.reused": "applied",
    "effect.failed": "failed",
    "effect.unknown": "unknown",
}

Kind = Literal["step", "effect", "wait"]
RecordState = Literal["open", "done", "failed", "applied", "unknown", "not_applied"]


class Record(msgspec.Struct):
    """What the log says of one call. `result`: JSON; None: there is none.

    `tries`: how often it was begun, or failed. `final`: of a failure, that no try was left.
    `lost_result`: why an effect that was applied has no result to give.
    """

    key: str
    kind: Kind
    state: RecordState
    arguments: str = ""
    idempotency_key: str = ""
    tool: str = ""
    shared: bool = False
    tries: int = 0
    result: msgspec.Raw | None = None
    lost_result: str | None = None
    error: dict[str, Any] | None = None
    final: bool = True
    until_ms: int | None = None
    cause: str = ""

    @property
    def answered(self) -> bool:
        """Whether the log has an answer to give."""
        return self.state in ("done", "applied") or (self.state == "failed" and self.final)


class Call(msgspec.Struct, frozen=True):
    """A call of the agent, numbered. `record`: what the log has for it.

    `fits`: False where the record is of a call with other arguments. `first`: not a repeat.
    """

    key: str
    record: Record | None
    fits: bool
    first: bool


class _Body(msgspec.Struct):
    """The fields of event bodies that replay reads; results stay undecoded."""

    key: str = ""
    name: str | None = None
    tool: str = ""
    args: str = ""
    fingerprint: str = ""
    shared: int = 0
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    without_result: str | None = None
    error: dict[str, Any] | None = None
    final: bool = True
    applied: bool = False
    until_ms: int | None = None
    cause: str = ""
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    counts: dict[str, int] = {}
    again: list[str] = []
    reason: str = ""
    epoch: int = 0


_decode = msgspec.json.Decoder(_Body).decode


def key_of(name: str, number: int) -> str:
    """The key of the `number`-th call of that name."""
    # A name that looks like a repeat keeps its number, or "a#2" and the second "a" were one key.
    if number > 1 or _NUMBERED.fullmatch(name):
        return f"{name}#{number}"
    return name


def name_and_number(key: str) -> tuple[str, int]:
    """The name and number that a key was made of."""
    if "#" not in key:
        return key, 1
    match = _NUMBERED.fullmatch(key)
    return (match[1], int(match[2])) if match else (key, 1)


def scoped(scope: str, name: str) -> str:
    """A name inside a branch; the sign that ends a branch is escaped in names."""
    return scope + name.replace(SCOPE, "\\" + SCOPE)


def branch_scope(gather_key: str, number: int) -> str:
    """What stands before every name in branch `number` of a gather."""
    return f"{gather_key}[{number}]{SCOPE}"


@dataclass
class Memory:
    """What a new life of a task knows from the lives before it.

    `through`: the last event that was learned. `state`: of the last checkpoint. `counts`: calls by
    name so far. `ended_ms`: when the lease before this one ended; `owner_gone`: whether it ended
    without its owner having said that nothing runs any more.
    """

    through: int = 0
    state: msgspec.Raw | None = None
    counts: dict[str, int] = field(default_factory=dict)
    ended_ms: int = 0
    owner_gone: bool = False
    answered: int = 0
    suppressed: dict[str, int] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    open_effects: dict[str, tuple[str, str]] = field(default_factory=dict)
    _records: dict[str, dict[int, Record]] = field(default_factory=dict)
    _by_idempotency_key: dict[str, Record] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _indexes: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    _taken: dict[str, dict[int, int]] = field(default_factory=dict)
    _failed_attempt: list[str] = field(default_factory=list)

    # -- learning ---------------------------------------------------------------------------------

    def learn(self, events: Iterable[Event]) -> None:
        """Take in events in their order."""
        for event in events:
            self.through = event.seq
            lesson = _LESSONS.get(event.kind)
            if lesson is not None:
                lesson(self, event, _decode(event.body))

    def learn_ledger(self, effects: Iterable[Effect]) -> None:
        """Take in the ledger's doubts: an intent may be older than the last checkpoint."""
        for effect in effects:
            if effect.state in IN_DOUBT and effect.outcome_seq is None:
                self.open_effects.setdefault(effect.key, (effect.name, effect.tool))

    def record(self, key: str) -> Record | None:
        name, number = name_and_number(key)
        return self._records.get(name, {}).get(number)

    def records(self) -> list[Record]:
        return [each for numbered in self._records.values() for each in numbered.values()]

    # -- being asked ------------------------------------------------------------------------------

    def call(self, kind: Kind, name: str, arguments: str = "", key: str = "") -> Call:
        """Number a call and find what the log has for it.

        Among repeats the record with the same arguments comes first, whatever its number; else
        that of the call's own number, which then does not fit.
        """
        own = self._number(name)
        numbered = self._records.get(name)
        if numbered is None:
            return Call(key_of(name, own), None, fits=True, first=own == 1)
        number = self._fitting(name, own, kind, arguments, key)
        if number is not None:
            if number != own:
                self._taken.setdefault(name, {})[number] = own
            return self._answer(numbered[number], fits=True, first=own == 1)
        record = numbered.get(own)
        if record is None:
            return Call(key_of(name, own), None, fits=True, first=own == 1)
        return self._answer(record, fits=False, first=own == 1 and record.kind == kind)

    def _fitting(self, name: str, own: int, kind: Kind, arguments: str, key: str) -> int | None:
        """The number of an unused record that is of this very call: its own, or the lowest."""
        numbered = self._records[name]
        for number in self._candidates(name, own, kind, arguments):
            record = numbered[number]
            if record.key not in self._used and _fits(record, kind, arguments, key):
                return number
        return None

    def _candidates(self, name: str, own: int, kind: Kind, arguments: str) -> Iterator[int]:
        if own in self._records.get(name, {}):
            yield own
        if kind != "wait":
            yield from self._same(name, arguments)

    def _same(self, name: str, arguments: str) -> Iterator[int]:
        """Numbers with these arguments, from the lowest; those used up are taken away for good."""
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = {}
            for number, record in sorted(self._records.get(name, {}).items(), reverse=True):
                index.setdefault(record.arguments, []).append(number)
        numbers = index.get(arguments, [])
        while numbers and self._records[name][numbers[-1]].key in self._used:
            numbers.pop()
        return reversed(numbers)

    def unused(self) -> list[str]:
        """Keys on record that the agent has not asked for in this life."""
        return sorted(each.key for each in self.records() if each.key not in self._used)

    def count_suppressed(self, tool: str) -> None:
        self.suppressed[tool] = self.suppressed.get(tool, 0) + 1

    def _number(self, name: str) -> int:
        number = self.counts[name] = self.counts.get(name, 0) + 1
        # Another call was answered from this number's record: it left its own number free.
        taken = self._taken.get(name, {})
        while number in taken:
            number = taken[number]
        return number

    def _answer(self, record: Record, *, fits: bool, first: bool) -> Call:
        self._used.add(record.key)
        self.answered += record.answered
        if not fits:
            self.changed.append(record.key)
        return Call(record.key, record, fits, first)

    def _put(self, record: Record) -> Record:
        name, number = name_and_number(record.key)
        self._records.setdefault(name, {})[number] = record
        return record

    def _drop(self, key: str) -> None:
        name, number = name_and_number(key)
        self._records.get(name, {}).pop(number, None)


def _fits(record: Record, kind: Kind, arguments: str, key: str) -> bool:
    if record.kind != kind:
        return False
    if kind == "effect" and key and record.idempotency_key != key:
        return False
    return kind == "wait" or record.arguments == arguments


# -- what each kind of event teaches --------------------------------------------------------------


def _checkpoint(memory: Memory, event: Event, body: _Body) -> None:
    memory._records.clear()
    memory._by_idempotency_key.clear()
    memory.counts = dict(body.counts)
    memory.state = _raw(body.state)


def _step_done(memory: Memory, event: Event, body: _Body) -> None:
    memory._put(Record(body.key, "step", "done", body.args, result=_raw(body.result)))


def _step_failed(memory: Memory, event: Event, body: _Body) -> None:
    before = memory.record(body.key)
    record = Record(body.key, "step", "failed", body.args, error=body.error, final=body.final)
    record.tries = (before.tries if before else 0) + 1
    memory._put(record)


def _effect_intended(memory: Memory, event: Event, body: _Body) -> None:
    before = memory.record(body.name or "")
    record = Record(
        body.name or "",
        "effect",
        "open",
        body.fingerprint,
        idempotency_key=body.key,
        tool=body.tool,
        shared=bool(body.shared),
        tries=(before.tries if before else 0) + 1,
    )
    memory._by_idempotency_key[body.key] = memory._put(record)
    memory.open_effects[body.key] = (record.key, record.tool)


def _effect_outcome(memory: Memory, event: Event, body: _Body) -> None:
    memory.open_effects.pop(body.key, None)
    record = memory._by_idempotency_key.get(body.key)
    if record is None:
        if event.kind != "effect.reused":
            return  # begun before the checkpoint that replay starts from
        record = Record(body.name or "", "effect", "applied", body.fingerprint)
        record.idempotency_key, record.tool, record.shared = body.key, body.tool, True
        memory._by_idempotency_key[body.key] = memory._put(record)
    record.state = _EFFECT_STATES[event.kind]  # type: ignore[assignment]
    record.result, record.lost_result = _raw(body.result), body.without_result
    record.error, record.final = body.error, body.final


def _effect_settled(memory: Memory, event: Event, body: _Body) -> None:
    memory.open_effects.pop(body.key, None)
    record = memory._by_idempotency_key.get(body.key)
    if record is not None:
        record.state = "applied" if body.applied else "not_applied"
        record.result = _raw(body.result)


def _wait_started(memory: Memory, event: Event, body: _Body) -> None:
    # One that is said again lets the lease go for all that are open: its time may be another's.
    if memory.record(body.key) is None:
        memory._put(Record(body.key, "wait", "open", until_ms=body.until_ms))


def _wait_ended(memory: Memory, event: Event, body: _Body) -> None:
    record = memory.record(body.key) or memory._put(Record(body.key, "wait", "open"))
    record.state, record.cause, record.result = "done", body.cause, _raw(body.payload)


def _attempt_failed(memory: Memory, event: Event, body: _Body) -> None:
    # What the agent raised on is tried anew; a failure that it caught and went on from is not.
    memory._failed_attempt = body.again
    for key in body.again:
        record = memory.record(key)
        if record is not None and record.kind == "step" and record.state == "failed":
            memory._drop(key)


def _reopened(memory: Memory, event: Event, body: _Body) -> None:
    for key in memory._failed_attempt:
        record = memory.record(key)
        if record is not None and record.state == "failed":
            record.state, record.tries = "not_applied", 0
    memory.ended_ms, memory.owner_gone = event.at_ms, False


def _lease_ended(memory: Memory, event: Event, body: _Body) -> None:
    memory.ended_ms = event.at_ms
    memory.owner_gone = event.kind != "lease.released"


_LESSONS: dict[str, Any] = {
    "checkpoint": _checkpoint,
    "step.done": _step_done,
    "step.failed": _step_failed,
    "effect.intended": _effect_intended,
    "effect.settled": _effect_settled,
    "wait.started": _wait_started,
    "wait.ended": _wait_ended,
    "attempt.failed": _attempt_failed,
    "task.reopened": _reopened,
    **dict.fromkeys(_EFFECT_STATES, _effect_outcome),
    **dict.fromkeys(_LEASE_ENDS, _lease_ended),
}


def _raw(value: msgspec.Raw | msgspec.UnsetType) -> msgspec.Raw | None:
    return None if value is msgspec.UNSET else value
