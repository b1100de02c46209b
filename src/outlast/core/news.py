"""Which events are news for somebody who is not looking: what a webhook may be told of."""

from __future__ import annotations

from .lifecycle import Body
from .model import FINAL, Event, Task

OWNER_LOST, RESUMED, WAITING, REVIEW, EFFECT_UNKNOWN, ENDED = NEWS = (
    "owner_lost",
    "resumed",
    "waiting",
    "review",
    "effect_unknown",
    "ended",
)
# A hand-over is no news: nothing was lost, and a deploy would be a storm.
RESUMES = frozenset({"expired", "crashed", "operator"})


def news_of(event: Event, body: Body, task: Task | None) -> str:
    """One of NEWS, or "". `task`: its row after the event (an owner's own steps have none)."""
    if event.kind == "effect.unknown":
        return EFFECT_UNKNOWN
    if event.kind in ("lease.expired", "lease.revoked"):
        return OWNER_LOST
    if event.kind == "lease.released" and body.get("reason") == "crashed":
        return OWNER_LOST
    if task is None:
        return ""
    if event.kind == "lease.granted":
        return RESUMED if task.reason in RESUMES else ""
    if event.kind.startswith("task.") and task.state in FINAL:
        return ENDED
    if task.state == "waiting" and event.kind == "wait.started":
        return WAITING if task.waiting_for else ""
    return REVIEW if event.kind == "lease.released" and task.state == "review" else ""
