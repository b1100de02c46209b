"""One task: how it stands and why, who had it, what it has on record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..core import limits
from ..core.lifecycle import body_of
from ..core.model import Effect, Event, Observation, Signal
from ..store.verbs import EffectQuery, Held, Query, Store
from . import gate
from .shapes import Shape, effect_shape, error_line, json_value, observation_shape, task_shape
from .words import rfc3339

ON_RECORD = ("step.done", "step.failed", "checkpoint", "note", "attempt.failed")
OWNERSHIP = ("lease.granted", "lease.released", "lease.expired", "lease.revoked")


class Known(msgspec.Struct, frozen=True):
    """What the store knows of one task. `end`: its last event, where it has ended."""

    held: Held
    end: Event | None
    effects: Sequence[Effect]
    signals: Sequence[Signal]
    observations: Sequence[Observation]


def full_shape(known: Known, events: Iterable[Event]) -> Shape:
    """Everything about a task; `events`: its whole log."""
    steps, epochs = history(events)
    fate = gate.fate(known.held, [e for e in known.effects if e.state == "intended"])
    now_ms = known.held.now_ms
    return task_shape(known.held, known.effects, gate.marks_of(known.held)) | {
        "why": why(known.held, known.end),
        "if_deployed": {"blocks": fate.blocks, "said": fate.said},
        "ownership": epochs,
        "steps": steps,
        "effects_full": [effect_shape(effect, now_ms) for effect in known.effects],
        "signals": [
            {"id": s.id, "name": s.name, "payload": json_value(s.payload), "by": s.sent_by}
            for s in known.signals
        ],
        "observations": [observation_shape(seen) for seen in known.observations],
    }


def look_at(store: Store, task_id: str) -> Known:
    """Raises UnknownTask."""
    task = store.get(task_id)
    held = held_task(store, task.id)
    return Known(
        held,
        store.last(task.id, "") if task.ended else None,
        store.find_effects(EffectQuery(task_id=task.id, limit=limits.READ_BATCH)),
        store.signals(task.id),
        store.observations(task.id),
    )


def held_task(store: Store, task_id: str) -> Held:
    """The task with its owner: the newest id below one that is just above its own."""
    return store.find(Query(after=task_id + "0", limit=1))[0]


def history(events: Iterable[Event]) -> tuple[list[Shape], list[Shape]]:
    """(what the task has on record, who owned it) from its log."""
    steps: list[Shape] = []
    epochs: list[Shape] = []
    for event in events:
        if event.kind in ON_RECORD:
            steps.append(_step(event))
        elif event.kind == "lease.granted":
            epochs.append(_granted(event))
        elif epochs and epochs[-1]["until"] is None and event.holder == 0:
            epochs[-1] |= {"until": rfc3339(event.at_ms), "ended": _how_it_ended(event)}
    return steps, epochs


def _step(event: Event) -> Shape:
    body = body_of(event)
    if event.kind in ("step.failed", "attempt.failed"):
        value = body.get("error")
    else:
        value = body.get("result", body.get("state", body.get("text")))
    return {
        "seq": event.seq,
        "kind": event.kind,
        "key": body.get("key"),
        "value": value,
        "at": rfc3339(event.at_ms),
    }


def _granted(event: Event) -> Shape:
    body = body_of(event)
    kept = ("epoch", "worker", "host", "pid", "build", "reason")
    return {name: body.get(name) for name in kept} | {
        "from": rfc3339(event.at_ms),
        "until": None,
        "ended": None,
    }


def _how_it_ended(event: Event) -> str:
    body = body_of(event)
    reason = body.get("reason") or body.get("why")
    return f"{event.kind} ({reason})" if reason and event.kind in OWNERSHIP else event.kind


def why(held: Held, end: Event | None) -> str:
    """Why the task is in its state, in words; and what to do where a person must."""
    task = held.task
    if task.state == "succeeded":
        return f"the agent returned, in epoch {task.epoch}"
    if task.state == "failed":
        return f"{task.reason}: {error_line(task.error) or 'no message'}"
    if task.state == "cancelled":
        said = {} if end is None else body_of(end)
        by, reason = said.get("by") or task.cancel_by, said.get("why") or task.cancel_why
        return f"by {by or 'an order'}: {reason or 'no reason was given'}"
    if task.state == "review":
        doubts = ", ".join(json_value(task.doubts) or [])
        told = f" of {doubts}" if doubts else f" ({error_line(task.error)})" if task.error else ""
        then = "`outlast settle`, or `outlast retry`" if doubts else "`outlast retry`"
        return f"{task.reason}{told}: a person must decide, then {then}"
    if task.state == "waiting":
        return f"for {task.waiting_for or 'the clock'}, until {rfc3339(task.due_ms) or 'it comes'}"
    if task.state == "ready":
        return (
            f"no owner; the next lease will be given as {task.reason}, from {rfc3339(task.due_ms)}"
        )
    return f"held under epoch {task.epoch}, given as {task.reason}"
