"""How events and the rows that follow from them are written: one place for all verbs.

A row is written only if the insert of its event returned: "the event exists" is no guard, since it
is true for a resend too, and then undid an heir's lease.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict

from ..core import chain, counters, ledger, limits, news
from ..core.errors import UnknownTask
from ..core.lifecycle import Body, after, body_of, payload_of, raw_text, text_of
from ..core.model import FINAL, Effect, Entry, Event, Lease, Task
from .database import Call, LogMoved, Row, Session

PLAIN = frozenset({"step.done", "step.failed", "note", "checkpoint", "cancel.acknowledged"})
"""Kinds that change no other table."""


def task_of(row: Row) -> Task:
    return Task(**row)


def event_of(row: Row) -> Event:
    return Event(**row)


def lease_of(row: Row) -> Lease:
    return Lease(**row)


def effect_of(row: Row) -> Effect:
    return Effect(**row)


def locked_task(session: Session, task_id: str) -> Task:
    """The task's row, locked until the transaction ends. Raises UnknownTask."""
    rows = session.run("lock_task", task_id=task_id)
    if not rows:
        raise UnknownTask(task_id)
    return task_of(rows[0])


def last_event(session: Session, task_id: str) -> Event:
    rows = session.run("last_event", task_id=task_id)
    if not rows:
        raise UnknownTask(task_id)
    return event_of(rows[0])


def append_call(entry: Entry) -> Call:
    """The fenced insert of one entry."""
    event = entry.event
    return "append", {
        "task_id": event.task_id,
        "quoted_seq": event.seq - 1,
        "quoted": entry.quoted,
        "epoch": entry.epoch,
        "holder": event.holder,
        "kind": event.kind,
        "body": event.body,
        "at_ms": event.at_ms,
        "digest": event.digest,
    }


class Chapter:
    """Events that somebody who is not the owner adds to a task, which is locked meanwhile.

    `task` is the row as it stands after them. `worker` is whose counters they move. Raises LogMoved
    if the log goes on and on (an owner appends without the task's lock).
    """

    def __init__(self, session: Session, task: Task, now_ms: int, *, worker: str = "") -> None:
        self.session, self.task, self.now_ms = session, task, now_ms
        self.quote = chain.Quote.of_head(task)
        self._worker = worker
        self._counts: list[counters.Count] = []
        self._effects: list[Call] = []

    def take_over(self, kind: str, body: Body, lease: Lease) -> None:
        """End an owner's lease with one event, in the place that its own next one would have had.

        An owner that writes without a pause may always have been there first: so the last event is
        read right before, and again, in this transaction.
        """
        for _ in range(limits.TAKE_OVER_TRIES):
            self.quote = chain.Quote.of(last_event(self.session, self.task.id))
            if self._append(kind, body, epoch=lease.epoch):
                return
        raise LogMoved(self.task.id)

    def add(self, kind: str, body: Body) -> None:
        """Append one event to a task that nobody owns."""
        if not self._append(kind, body, epoch=0):
            raise LogMoved(self.task.id)

    def _append(self, kind: str, body: Body, *, epoch: int) -> bool:
        entry = chain.entry(
            self.quote, epoch, holder=0, kind=kind, body=text_of(body), at_ms=self.now_ms
        )
        name, params = append_call(entry)
        if not self.session.run(name, **params):
            return False
        self.quote = chain.Quote.of(entry.event)
        self.task = after(self.task, entry.event)
        self._counts += counters.counted(entry.event, body, self.task)
        self._effects += effect_calls(entry.event, body)
        self._effects += news_calls(entry.event, body, self.task)
        return True

    def end(self, kind: str, body: Body, intents: Sequence[Effect]) -> None:
        """A final event; what was begun and has no outcome is said to be unknown before it."""
        for intent in intents:
            self.add(
                "effect.unknown", {"key": intent.key, "name": intent.name, "tool": intent.tool}
            )
        self.add(kind, body)

    def close(self, *more: Call) -> None:
        """Write the rows that follow, in the order of locks: task, leases, effects, counters.

        A task that is ready after them is hinted at.
        """
        self.session.send(
            [
                store_task(self.task),
                *more,
                *self._effects,
                *counter_calls(self._counts, self._worker),
                *([HINT] if self.task.state == "ready" else []),
            ]
        )


HINT: Call = ("hint", {})
"""Tells look-outs that a task has become ready, before their next poll."""


def store_task(task: Task) -> Call:
    return "update_task", asdict(task)


def effect_calls(event: Event, body: Body, *, doubt_ms: int | None = None) -> list[Call]:
    """The ledger's rows that follow from an event."""
    if event.kind == "effect.intended":
        return [("put_intent", intent_params(event, doubt_ms))]
    state = ledger.outcome_state(event, body)
    if state is None:
        return []
    payload = payload_of(event)
    outcome = {
        "key": body["key"],
        "task_id": event.task_id,
        "state": state,
        "outcome_seq": event.seq,
        "result": raw_text(payload.result),
        "error": raw_text(payload.error),
        "settled_ms": event.at_ms,
    }
    return [("put_outcome", outcome)]


def news_calls(event: Event, body: Body, task: Task | None) -> list[Call]:
    """What somebody is to be told of, in the event's own transaction."""
    found = news.news_of(event, body, task)
    told = {"task_id": event.task_id, "seq": event.seq, "news": found, "at_ms": event.at_ms}
    return [("put_news", told)] if found else []


def intent_params(event: Event, doubt_ms: int | None = None) -> Row:
    effect = ledger.intended(event)
    return {
        "key": effect.key,
        "task_id": effect.task_id,
        "name": effect.name,
        "tool": effect.tool,
        "fingerprint": effect.fingerprint,
        "shared": effect.shared,
        "tries": effect.tries,
        "intent_seq": effect.intent_seq,
        "intended_ms": effect.intended_ms,
        "doubt_ms": doubt_ms,
    }


def counter_calls(counts: Sequence[counters.Count], worker: str) -> list[Call]:
    """Increments, sorted: counters are last in the order of locks, and have one of their own."""
    summed: dict[tuple[str, str], int] = {}
    for name, labels, by in counts:
        summed[name, labels] = summed.get((name, labels), 0) + by
    return [
        ("add_counter", {"name": name, "labels": labels, "worker": worker, "by": by})
        for (name, labels), by in sorted(summed.items())
    ]


def lets_go(entries: Sequence[Entry]) -> bool:
    """Whether the task is without an owner after these entries of its owner."""
    return entries[-1].event.holder == 0


def ends(entries: Sequence[Entry]) -> bool:
    return entries[-1].event.kind.removeprefix("task.") in FINAL


def follow_ups(
    entries: Sequence[Entry], task: Task | None, worker: str
) -> tuple[list[Call], list[counters.Count]]:
    """What an owner's accepted entries change in other tables, and what they count.

    `task`: its locked row, if these entries let it go.
    """
    counts: list[counters.Count] = []
    effects: list[Call] = []
    signals: list[Call] = []
    for entry in entries:
        event = entry.event
        if event.kind in PLAIN:
            continue
        body = body_of(event)
        if task is not None:
            task = after(task, event)
        effects += [*effect_calls(event, body), *news_calls(event, body, task)]
        counts += counters.counted(event, body, task)
        if event.kind == "wait.ended" and body.get("signal"):
            named = {"id": body["signal"], "task_id": event.task_id, "seq": event.seq}
            signals.append(("consume_signal", named))
    calls: list[Call] = []
    if task is not None:
        lease = {"task_id": task.id, "epoch": entries[0].epoch}
        calls = [store_task(task), ("delete_lease", lease)]
    return [*calls, *effects, *signals], counts
