"""`outlast show`: everything about one task: how it stands and why, who had it, what it did."""

from __future__ import annotations

from typing import Any

import click

from ..store.verbs import Held
from ..view import gate
from ..view.task import Known, full_shape, look_at, why
from .log import read
from .options import Session, common
from .output import Output, age, columns, json_line, printable, rfc3339

MARKS = {"succeeded": "✔", "failed": "✘", "cancelled": "⊘", "review": "!"}
STEPS_SHOWN = 20
Shape = dict[str, Any]


@click.command("show")
@click.argument("task")
@common
def show(session: Session, task: str) -> int:
    """Show TASK: its state and why, who owned it, its steps, effects, signals, refused writes.

    The steps are what it has on record: they stay readable however the task ended.
    """
    known = session.ask(lambda store: look_at(store, task))
    shape = full_shape(known, read(session, known.held.task.id))
    session.output.one(shape, lambda: "\n".join(_text(session.output, known, shape)))
    return 0


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
