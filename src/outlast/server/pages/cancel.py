"""A cancel in its four stages: asked, heard by the owner, acknowledged by it, ended."""

from __future__ import annotations

import msgspec

from ...core.lifecycle import body_of
from ...view.task import Known
from .logs import History


class Stage(msgspec.Struct, frozen=True):
    """`at_ms`: when it was reached, or None; `said`: by whom, or what it waits for."""

    name: str
    done: bool
    at_ms: int | None
    said: str


def stages(known: Known, history: History) -> list[Stage]:
    """Empty where nobody has asked for a cancel."""
    task, lease = known.held.task, known.held.lease
    end = body_of(history.cancelled) if history.cancelled is not None else {}
    asked_ms = task.cancel_ms if task.cancel_ms is not None else end.get("asked_ms")
    if asked_ms is None:
        return []
    by, why = task.cancel_by or end.get("by"), task.cancel_why or end.get("why")
    receipt_ms = history.acknowledged.at_ms if history.acknowledged is not None else None
    return [
        Stage("asked", True, asked_ms, f"by {by or 'an order'}: {why or 'no reason was given'}"),
        _heard(asked_ms, receipt_ms, lease.beat_ms if lease else None, task.ended),
        _acknowledged(receipt_ms, task.ended),
        _ended(known),
    ]


def _heard(asked_ms: int, receipt_ms: int | None, beat_ms: int | None, ended: bool) -> Stage:
    """The answer to a heartbeat tells the owner."""
    name = "heard by its owner"
    if receipt_ms is not None:
        return Stage(name, True, None, "it says so itself")
    if beat_ms is not None and beat_ms > asked_ms:
        return Stage(name, True, beat_ms, "told in the answer to its heartbeat")
    if ended:
        return Stage(name, False, None, "no owner had to hear it, or none did")
    return Stage(name, False, None, "waits for the owner's next heartbeat")


def _acknowledged(receipt_ms: int | None, ended: bool) -> Stage:
    name = "acknowledged"
    if receipt_ms is not None:
        return Stage(name, True, receipt_ms, "the owner has stopped its code")
    if ended:
        return Stage(name, False, None, "the task ended without an owner's word")
    return Stage(name, False, None, "waits for the owner to stop its code")


def _ended(known: Known) -> Stage:
    task = known.held.task
    if not task.ended:
        return Stage("ended", False, None, "not yet")
    how = "cancelled" if task.state == "cancelled" else f"{task.state} before it could be cancelled"
    return Stage("ended", True, task.finished_ms, how)
