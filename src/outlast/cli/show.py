"""`outlast show`: everything about one task: how it stands and why, who had it, what it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from ..core import limits
from ..core.lifecycle import body_of
from ..core.model import Effect, Event, Observation, Signal
from ..store.verbs import EffectQuery, Held, Query, Store
from . import gate
from .log import read
from .options import Session, common
from .output import Output, age, columns, json_line, printable, rfc3339
from .shapes import effect_shape, error_line, json_value, observation_shape, task_shape

MARKS = {"succeeded": "✔", "failed": "✘", "cancelled": "⊘", "review": "!"}
STEPS_SHOWN = 20
ON_RECORD = ("step.done", "step.failed", "checkpoint", "note", "attempt.failed")
OWNERSHIP = ("lease.granted", "lease.released", "lease.expired", "lease.revoked")
Shape = dict[str, Any]


class Known(msgspec.Struct, frozen=True):
    """What the store knows of one task. `end`: its last event, where it has ended."""

    held: Held
    end: Event | None
    effects: Sequence[Effect]
    signals: Sequence[Signal]
    observations: Sequence[Observation]


@click.command("show")
@click.argument("task")
@common
def show(session: Session, task: str) -> int:
    """Show TASK: its state and why, who owned it, its steps, effects, signals, refused writes.

    The steps are what it has on record: they stay readable however the task ended.
    """
    known = session.ask(lambda store: _look(store, task))
    steps, epochs = history(read(session, known.held.task.id))
    fate = gate.fate(known.held, [e for e in known.effects if e.state == "intended"])
    now_ms = known.held.now_ms
    shape = task_shape(known.held, known.effects, gate.marks_of(known.held)) | {
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
    session.output.one(shape, lambda: "\n".join(_text(session.output, known, shape)))
    return 0


def _look(store: Store, task_id: str) -> Known:
    task = store.get(task_id)
    # The newest id below one that is just above ours: the task itself, with its owner.
    held = store.find(Query(after=task.id + "0", limit=1))[0]
    return Known(
        held,
        store.last(task.id, "") if task.ended else None,
        store.find_effects(EffectQuery(task_id=task.id, limit=limits.READ_BATCH)),
        store.signals(task.id),
        store.observations(task.id),
    )


def history(events: Any) -> tuple[list[Shape], list[Shape]]:
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


def _text(output: Output, known: Known, shape: Shape) -> list[str]:
    held = known.held
    lines = [
        f"task {held.task.id}",
        f"  agent       {printable(held.task.agent)}   queue {printable(held.task.queue)}"
        + (f"   key {printable(held.task.key)}" if held.task.key else ""),
        f"  state       {output.state(_state(held))}",
        f"  why         {printable(why(held, known.end), 300)}",
        f"  submitted   {shape['created_at']} ({age(held.now_ms - held.task.created_ms)} ago)",
        f"  input       {printable(held.task.input, 200)}",
    ]
    if held.task.result is not None:
        lines.append(f"  result      {printable(held.task.result, 400)}")
    if held.lease is not None:
        lines += _owner_lines(held, shape)
    if held.task.cancel_ms is not None:
        lines.append(
            f"  cancel      asked by {printable(held.task.cancel_by or '?')}: "
            f"{printable(held.task.cancel_why or 'no reason', 200)} ({shape['cancel']['asked_at']})"
        )
    lines += _sections(known, shape)
    return [*lines, f"as of {rfc3339(held.now_ms)}, by the database's clock"]


def _state(held: Held) -> str:
    mark = MARKS.get(held.task.state)
    said = ", ".join([held.task.state, *gate.marks_of(held)])
    return f"{said} {mark}" if mark else said


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


def _owner_lines(held: Held, shape: Shape) -> list[str]:
    lease = held.lease
    if lease is None:
        return []
    build = held.worker.build if held.worker else ""
    return [
        f"  owner       {gate.owner(held)}   build {printable(build or 'none')}   worker "
        f"{lease.worker}",
        f"  lease       held for {age(held.now_ms - lease.granted_ms)}, heartbeat "
        f"{age(held.now_ms - lease.beat_ms)} ago, ends in {age(lease.expires_ms - held.now_ms)}, "
        f"progress {age(held.now_ms - lease.progress_ms)} ago",
        f"  doing       {printable(lease.doing or '-', 120)}",
        f"  deploy now  {shape['if_deployed']['said']}",
    ]


def _sections(known: Known, shape: Shape) -> list[str]:
    return [
        *_section("owners", shape["ownership"], _epoch_row),
        *_section("on record", shape["steps"][-STEPS_SHOWN:], _step_row, len(shape["steps"])),
        *_section("effects", shape["effects_full"], _effect_row),
        *_section("signals not yet read", shape["signals"], _signal_row),
        *_section("came too late, or was refused", shape["observations"], _observation_row),
    ]


def _section(title: str, shapes: list[Shape], row: Any, count: int | None = None) -> list[str]:
    if not shapes:
        return []
    of = f" (the last {len(shapes)} of {count})" if count and count > len(shapes) else ""
    return [f"  {title}{of}", *("    " + line for line in columns([row(s) for s in shapes]))]


def _epoch_row(epoch: Shape) -> list[str]:
    return [
        f"epoch {epoch['epoch']}",
        str(epoch["reason"]),
        printable(f"{epoch['host']}/{epoch['pid']} {epoch['build'] or 'no build'}", 60),
        str(epoch["from"]),
        "to " + str(epoch["until"] or "now"),
        epoch["ended"] or "holds it",
    ]


def _step_row(step: Shape) -> list[str]:
    return [
        str(step["seq"]),
        step["kind"],
        printable(step["key"] or "-", 60),
        printable(json_line(step["value"]), 100),
    ]


def _effect_row(effect: Shape) -> list[str]:
    outcome = effect["error"] if effect["result"] is None else effect["result"]
    return [
        printable(effect["key"], 80),
        printable(effect["tool"], 32),
        effect["state"].replace("_", " "),
        printable(json_line(outcome), 100),
    ]


def _signal_row(signal: Shape) -> list[str]:
    return [printable(signal["name"]), printable(json_line(signal["payload"]), 100), signal["by"]]


def _observation_row(seen: Shape) -> list[str]:
    return [
        f"epoch {seen['epoch']}",
        seen["kind"],
        f"{seen['count']} times",
        printable(f"{seen['key']} {seen['detail']}", 100),
    ]
