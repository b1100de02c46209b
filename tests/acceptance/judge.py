"""What must hold after every test, whatever was done: found in logs and rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from outlast.core import chain
from outlast.core.errors import BrokenChain
from outlast.core.lifecycle import body_of
from outlast.core.model import FINAL, Event, Task
from outlast.store.verbs import Query, Store

ACTS = frozenset({"step.done", "step.failed", "effect.intended", "checkpoint", "wait.ended"})
AFTER_THE_END = frozenset({"effect.settled", "task.reopened"})
ENDS = frozenset({"task.succeeded", "task.failed", "task.cancelled"})


def faults(store: Store) -> list[str]:
    """Every promise that was broken, in a line each."""
    broken = [seen for seen in store.checkup() if seen.state == "broken"]
    # A server that tests share has fsync off, as a server that is not killed may have.
    found = [f"doctor: {seen.said}" for seen in broken if seen.check != "durability"]
    for held in store.find(Query(limit=1_000)):
        events = store.read(held.task.id)
        found += [f"task {held.task.id}: {said}" for said in faults_of(held.task, events)]
    return found


def faults_of(task: Task, events: Sequence[Event]) -> Iterator[str]:
    yield from _chain(task, events)
    yield from _epochs(events)
    yield from _writers(events)
    yield from _takeovers(events)
    yield from _replays(events)
    yield from _ends(task, events)


def _chain(task: Task, events: Sequence[Event]) -> Iterator[str]:
    try:
        chain.verify(events, head=(task.head_seq, task.head_digest))
    except BrokenChain as broken:
        yield str(broken)


def _epochs(events: Sequence[Event]) -> Iterator[str]:
    epochs = [body_of(event)["epoch"] for event in events if event.kind == "lease.granted"]
    if epochs != list(range(1, len(epochs) + 1)):
        yield f"the epochs are {epochs}"


def _writers(events: Sequence[Event]) -> Iterator[str]:
    """Between a grant and the event that lets go, only that epoch writes; no other ever does."""
    owner = 0
    for event in events:
        if event.kind == "lease.granted":
            if owner:
                yield f"event {event.seq}: granted while epoch {owner} held it"
            owner = body_of(event)["epoch"]
        if event.holder not in (0, owner):
            yield f"event {event.seq} ({event.kind}) is of epoch {event.holder}, not {owner}"
        if event.holder == 0:
            owner = 0


def _takeovers(events: Sequence[Event]) -> Iterator[str]:
    """Nobody is declared dead before the lease has run out."""
    for event in events:
        if event.kind == "lease.expired" and event.at_ms < body_of(event)["expires_ms"]:
            yield f"event {event.seq}: expired before its time"


def _replays(events: Sequence[Event]) -> Iterator[str]:
    """In every epoch after the first, the log was read before anything new was done."""
    told = True
    for event in events:
        if event.kind == "lease.granted":
            told = body_of(event)["epoch"] == 1
        if event.kind == "replay.finished":
            told = True
        if event.kind in ACTS and not told:
            yield f"event {event.seq} ({event.kind}) comes before the end of the replay"


def _ends(task: Task, events: Sequence[Event]) -> Iterator[str]:
    """Final is final: nothing follows but what may."""
    ended = False
    for event in events:
        if ended and event.kind not in AFTER_THE_END:
            yield f"event {event.seq} ({event.kind}) follows the end"
        ended = event.kind in ENDS or (ended and event.kind != "task.reopened")
    if ended != (task.state in FINAL):
        yield f"the row says {task.state}, the log {'has' if ended else 'has not'} ended"
