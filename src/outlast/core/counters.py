"""Which metric counters an event moves; they are written in the event's own transaction."""

from __future__ import annotations

import msgspec

from .lifecycle import Body
from .model import FINAL, Event, Task

RESUMES = "agent_task_resume_total"
DUPLICATES = "agent_tool_effect_duplicate_total"
ENDS = "agent_task_terminal_total"
FENCED = "outlast_fenced_writes_refused_total"
RESUME_REASONS = ("expired", "crashed", "drain", "operator")
DISPOSITIONS = ("suppressed", "adopted", "conflict", "executed")

Count = tuple[str, str, int]


def count(name: str, by: int = 1, **labels: str) -> Count:
    """(name, labels as JSON with sorted keys, increment)."""
    return name, msgspec.json.encode(labels, order="sorted").decode(), by


def counted(event: Event, body: Body, task: Task | None) -> list[Count]:
    """What an event counts; `task`: the row after it (needed for grants and ends only)."""
    if event.kind == "lease.granted" and task is not None:
        return _resume(task)
    if event.kind.startswith("task.") and task is not None and task.state in FINAL:
        return [count(ENDS, queue=task.queue, state=task.state)]
    if event.kind == "effect.reused":
        return [count(DUPLICATES, tool=body["tool"], disposition="suppressed")]
    if event.kind == "effect.applied" and body.get("adopted"):
        return [count(DUPLICATES, tool=body["tool"], disposition="adopted")]
    if event.kind == "replay.finished":
        suppressed = body.get("suppressed") or {}
        return [
            count(DUPLICATES, n, tool=tool, disposition="suppressed")
            for tool, n in suppressed.items()
        ]
    if event.kind == "lease.released" and body.get("why") == "effect_conflict":
        return [count(DUPLICATES, tool=body["tool"], disposition="conflict")]
    return []


def _resume(task: Task) -> list[Count]:
    """nth: of leases in a row without a result (expired, crashed), of hand-overs (drain)."""
    if task.reason not in RESUME_REASONS:
        return []
    nth = {"drain": task.handoffs, "operator": 1}.get(task.reason, task.resumes)
    label = "3+" if nth >= 3 else str(max(nth, 1))
    return [count(RESUMES, queue=task.queue, reason=task.reason, nth=label)]
