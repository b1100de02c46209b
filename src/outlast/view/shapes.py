"""The JSON that commands print: one shape each for a task, an event, an effect, an observation.

Times are RFC 3339 in UTC, ages seconds (`*_age_s`), both by the database's clock; what an agent
made is embedded as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..core.model import Effect, Event, Observation, Task
from ..store.verbs import Held
from .words import rfc3339, seconds

Shape = dict[str, Any]


def task_shape(held: Held, effects: Sequence[Effect], marks: Sequence[str] = ()) -> Shape:
    """A task as `show` and `ps` print it; `marks`: stale, cancelling, draining."""
    task = held.task
    return {
        "id": task.id,
        "agent": task.agent,
        "state": task.state,
        "reason": task.reason,
        "marks": list(marks),
        "epoch": task.epoch,
        "queue": task.queue,
        "key": task.key,
        "priority": task.priority,
        "labels": json_value(task.labels),
        "owner": _owner(held),
        "lease": _lease(held),
        "effects": [{"key": each.key, "tool": each.tool, "state": each.state} for each in effects],
        "effect_counts": dict(held.effects),
        "resumes": {
            "drained": task.handoffs,
            "expired": task.expiries,
            "in_a_row": task.resumes,
        },
        "failures": task.failures,
        "waiting_for": task.waiting_for,
        "due_at": rfc3339(task.due_ms),
        "doubts": json_value(task.doubts) or [],
        "cancel": cancel_shape(task, held.now_ms),
        "created_at": rfc3339(task.created_ms),
        "created_age_s": seconds(held.now_ms - task.created_ms),
        "started_at": rfc3339(task.started_ms),
        "finished_at": rfc3339(task.finished_ms),
        "input": json_value(task.input),
        "result": json_value(task.result),
        "error": json_value(task.error),
        "as_of": rfc3339(held.now_ms),
    }


def _owner(held: Held) -> Shape | None:
    if held.lease is None:
        return None
    worker = held.worker
    return {
        "worker": held.lease.worker,
        "host": worker.host if worker else None,
        "pid": worker.pid if worker else None,
        "build": worker.build if worker else None,
    }


def _lease(held: Held) -> Shape | None:
    lease = held.lease
    if lease is None:
        return None
    return {
        "expires_at": rfc3339(lease.expires_ms),
        "expires_in_s": seconds(lease.expires_ms - held.now_ms),
        "ttl_s": seconds(lease.ttl_ms),
        "held_age_s": seconds(held.now_ms - lease.granted_ms),
        "heartbeat_age_s": seconds(held.now_ms - lease.beat_ms),
        "progress_age_s": seconds(held.now_ms - lease.progress_ms),
        "doing": lease.doing,
    }


def cancel_shape(task: Task, now_ms: int) -> Shape | None:
    """Who asked for the task to be cancelled, why and when; None: nobody did."""
    if task.cancel_ms is None:
        return None
    return {
        "by": task.cancel_by,
        "why": task.cancel_why,
        "asked_at": rfc3339(task.cancel_ms),
        "asked_age_s": seconds(now_ms - task.cancel_ms),
    }


def event_shape(event: Event) -> Shape:
    """A line of a log, of `export` too; `body` is the stored text, so that it can be hashed."""
    return {
        "task": event.task_id,
        "seq": event.seq,
        "holder": event.holder,
        "kind": event.kind,
        "body": event.body,
        "at_ms": event.at_ms,
        "digest": event.digest,
    }


def effect_shape(effect: Effect, now_ms: int) -> Shape:
    return {
        "key": effect.key,
        "task": effect.task_id,
        "name": effect.name,
        "tool": effect.tool,
        "state": effect.state,
        "shared": bool(effect.shared),
        "tries": effect.tries,
        "fingerprint": effect.fingerprint,
        "result": json_value(effect.result),
        "error": json_value(effect.error),
        "observed": json_value(effect.observed),
        "intended_at": rfc3339(effect.intended_ms),
        "intended_age_s": seconds(now_ms - effect.intended_ms),
        "settled_at": rfc3339(effect.settled_ms),
    }


def observation_shape(seen: Observation) -> Shape:
    return {
        "task": seen.task_id,
        "epoch": seen.epoch,
        "worker": seen.worker,
        "kind": seen.kind,
        "key": seen.key,
        "count": seen.count,
        "detail": seen.detail,
        "first_at": rfc3339(seen.first_ms),
        "last_at": rfc3339(seen.last_ms),
    }


def json_value(text: str | None) -> Any:
    """What a stored JSON text stands for; a text that is no JSON is shown as it is."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def error_line(error: str | None) -> str:
    """`Type: message` of a stored error."""
    kept = json_value(error)
    if not isinstance(kept, dict):
        return "" if kept is None else str(kept)
    return ": ".join(str(kept[part]) for part in ("type", "message") if kept.get(part))
