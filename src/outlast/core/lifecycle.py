"""The states of a task, the moves between them, and the row as the fold of the log.

             submitted
                 │
                 ▼   granted                     succeeded · failed · cancelled
    ┌────────► ready ─────────► running ───────────────────►  final
    │            ▲                │ │ │                         │
    │  woken     │ released,      │ │ └──► review ──────────────┤ cancelled
    │            │ expired,       │ │        │ settled,         │
  waiting ◄──────┼─ revoked ◄─────┘ │        │ reopened         │ reopened
    ▲            └──────────────────┼────────┴──────────────────┘
    └───────────────────────────────┘ wait.started that lets the lease go

A row never moves but by an event, and `after` says how: the store writes what it returns, and
`outlast doctor` folds the log with it and compares. Two things are not on the log: a wake
(`waiting` to `ready`) and a cancel request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from . import limits
from .model import FINAL, Event, State, Task

# kind -> {state before: the states it may lead to}
MOVES: dict[str, dict[State, tuple[State, ...]]] = {
    # From `waiting` too: a wake is not on the log, so the fold goes straight on.
    "lease.granted": {"ready": ("running",), "waiting": ("running",)},
    "lease.released": {"running": ("ready", "review")},
    "lease.expired": {"running": ("ready",)},
    "lease.revoked": {"running": ("ready",)},
    "wait.started": {"running": ("running", "waiting")},
    "attempt.failed": {"running": ("running",)},
    "effect.unknown": {s: (s,) for s in ("ready", "running", "waiting", "review")},
    "effect.settled": {
        "ready": ("ready",),
        "waiting": ("waiting",),
        "review": ("review", "ready"),
        "succeeded": ("succeeded",),
        "failed": ("failed",),
        "cancelled": ("cancelled",),
    },
    "task.succeeded": {"running": ("succeeded",)},
    # A reaper fails an abandoned task after it has ended its lease.
    "task.failed": {"running": ("failed",), "ready": ("failed",)},
    "task.cancelled": dict.fromkeys(("ready", "running", "waiting", "review"), ("cancelled",)),
    "task.reopened": dict.fromkeys(("review", "succeeded", "failed", "cancelled"), ("ready",)),
}
# Written by an owner as it works; they leave the state alone.
for _kind in (
    "replay.finished",
    "step.done",
    "step.failed",
    "effect.intended",
    "effect.applied",
    "effect.failed",
    "effect.reused",
    "wait.ended",
    "checkpoint",
    "note",
    "cancel.acknowledged",
):
    MOVES[_kind] = {"running": ("running",)}

# What people and workers may ask, by the state of the task (`outlast` answers NotAllowedNow else).
ALLOWED: dict[str, frozenset[str]] = {
    "claim": frozenset({"ready"}),
    "renew": frozenset({"running"}),
    "append": frozenset({"running"}),
    "expire": frozenset({"running"}),
    "revoke": frozenset({"running"}),
    "cancel": frozenset({"ready", "running", "waiting", "review"}),
    "signal": frozenset({"ready", "running", "waiting", "review"}),
    "settle": frozenset({"ready", "waiting", "review", *FINAL}),
    "retry": frozenset({"review", *FINAL}),
}

# A release's reason -> why the next lease will be granted ("" : as this one was).
NEXT_REASON: dict[str, str] = {
    "drain": "drain",
    "deadline": "drain",
    "trust": "expired",
    "crashed": "crashed",
    "retry": "retry",
    "unstarted": "",
}
RESULTS: frozenset[str] = frozenset({"step.done", "effect.applied", "wait.ended", "checkpoint"})
# Kinds after which the writer is no longer the holder; a `wait.started` may be either.
LETS_GO: frozenset[str] = frozenset(
    {"lease.released", "task.succeeded", "task.failed", "task.cancelled"}
)
Body = dict[str, Any]
Change = Callable[[Task, Event, Body], Task]


def body_of(event: Event) -> Body:
    """The event's body as a dict."""
    return cast(Body, msgspec.json.decode(event.body))


def text_of(body: Body | Sequence[Any]) -> str:
    """A body as it is stored; rows as a statement takes them to pieces."""
    return msgspec.json.encode(body).decode()


def json_text(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


class Payload(msgspec.Struct, frozen=True):
    """The parts of a body that are an agent's, byte for byte: no number is written anew."""

    input: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


_PAYLOAD = msgspec.json.Decoder(Payload)


def payload_of(event: Event) -> Payload:
    return _PAYLOAD.decode(event.body)


def raw_text(raw: msgspec.Raw) -> str | None:
    """JSON text as it was written; None for null."""
    text = bytes(raw).decode()
    return None if text == "null" else text


def born(event: Event) -> Task:
    """The row that `task.submitted` makes."""
    body = body_of(event)
    return Task(
        id=event.task_id,
        queue=body["queue"],
        agent=body["agent"],
        input=bytes(payload_of(event).input).decode(),
        key=body.get("key"),
        labels=msgspec.json.encode(body.get("labels") or {}, order="sorted").decode(),
        priority=body.get("priority", 0),
        max_resumes=limits.MAX_RESUMES,
        max_expiries=limits.MAX_EXPIRIES,
        created_ms=event.at_ms,
        state="ready",
        reason="first",
        due_ms=body.get("due_ms") or event.at_ms,
        waiting_for=None,
        doubts=None,
        epoch=0,
        failures=0,
        resumes=0,
        expiries=0,
        handoffs=0,
        result=None,
        error=None,
        head_seq=event.seq,
        head_digest=event.digest,
        head_ms=event.at_ms,
        started_ms=None,
        finished_ms=None,
    )


def after(task: Task, event: Event) -> Task:
    """The row after this event; raises ValueError if the state does not allow the event."""
    body = body_of(event)
    targets = MOVES[event.kind].get(task.state)
    if targets is None:
        raise ValueError(f"{event.kind} cannot follow in state {task.state} (task {task.id})")
    change = _CHANGES.get(event.kind, _same)
    moved = change(task, event, body)
    if moved.state not in targets:
        raise ValueError(f"{event.kind} cannot lead from {task.state} to {moved.state}")
    if event.holder != 0 and event.kind != "lease.granted":
        return moved  # still the same owner: the head is where the task last changed hands
    return replace(moved, head_seq=event.seq, head_digest=event.digest, head_ms=event.at_ms)


def _granted(task: Task, event: Event, body: Body) -> Task:
    return replace(
        task,
        state="running",
        reason=body["reason"],
        epoch=body["epoch"],
        max_resumes=body["max_resumes"],
        max_expiries=body["max_expiries"],
        due_ms=None,
        waiting_for=None,
        started_ms=task.started_ms if task.started_ms is not None else event.at_ms,
    )


def _released(task: Task, event: Event, body: Body) -> Task:
    why = body["reason"]
    task = replace(task, resumes=_resumes(task, body, ended_badly=why == "crashed"))
    if why == "review":
        return replace(
            task,
            state="review",
            reason=body["why"],
            due_ms=None,
            doubts=json_text(body.get("doubts") or []),
            error=raw_text(payload_of(event).error),
        )
    if why == "crashed":
        task = replace(task, expiries=task.expiries + 1)
    if why in ("drain", "deadline"):
        task = replace(task, handoffs=task.handoffs + 1)
    return _ready(task, NEXT_REASON[why] or task.reason, body.get("due_ms") or event.at_ms)


def _expired(task: Task, event: Event, body: Body) -> Task:
    resumes = _resumes(task, body, ended_badly=True)
    task = replace(task, resumes=resumes, expiries=task.expiries + 1)
    return _ready(task, "expired", body.get("due_ms") or event.at_ms)


def _revoked(task: Task, event: Event, body: Body) -> Task:
    task = replace(task, resumes=_resumes(task, body, ended_badly=False))
    return _ready(task, "operator", body.get("due_ms") or event.at_ms)


def _resumes(task: Task, body: Body, *, ended_badly: bool) -> int:
    """Leases in a row that ended badly, without a result in between (source: semantics)."""
    return (0 if body.get("progressed") else task.resumes) + int(ended_badly)


def _ready(task: Task, reason: str, due_ms: int) -> Task:
    return replace(
        task, state="ready", reason=reason, due_ms=due_ms, waiting_for=None, doubts=None, error=None
    )


def _wait_started(task: Task, event: Event, body: Body) -> Task:
    if event.holder != 0:
        return task
    task = replace(task, resumes=_resumes(task, body, ended_badly=False))
    return replace(
        task,
        state="waiting",
        reason="wait",
        due_ms=body.get("until_ms"),
        waiting_for=body.get("name"),
    )


def _attempt_failed(task: Task, event: Event, body: Body) -> Task:
    return replace(task, failures=task.failures + 1)


def _settled(task: Task, event: Event, body: Body) -> Task:
    if not body.get("ends_review"):
        return task
    return _ready(task, "operator", event.at_ms)


def _ended(state: State) -> Change:
    def change(task: Task, event: Event, body: Body) -> Task:
        payload = payload_of(event)
        error = raw_text(payload.error)
        if state == "cancelled":
            error = json_text(
                {"type": "Cancelled", "message": body.get("why"), "by": body.get("by")}
            )
        return replace(
            task,
            state=state,
            reason=body.get("reason") or state,
            due_ms=None,
            waiting_for=None,
            doubts=None,
            result=raw_text(payload.result) if state == "succeeded" else None,
            error=error,
            finished_ms=event.at_ms,
        )

    return change


def _reopened(task: Task, event: Event, body: Body) -> Task:
    task = replace(
        task,
        failures=0,
        resumes=0,
        expiries=0,
        result=None,
        finished_ms=None,
        cancel_by=None,
        cancel_why=None,
        cancel_ms=None,
    )
    return _ready(task, "operator", event.at_ms)


def _same(task: Task, event: Event, body: Body) -> Task:
    return task


_CHANGES: dict[str, Change] = {
    "lease.granted": _granted,
    "lease.released": _released,
    "lease.expired": _expired,
    "lease.revoked": _revoked,
    "wait.started": _wait_started,
    "attempt.failed": _attempt_failed,
    "effect.settled": _settled,
    "effect.unknown": _same,
    "task.succeeded": _ended("succeeded"),
    "task.failed": _ended("failed"),
    "task.cancelled": _ended("cancelled"),
    "task.reopened": _reopened,
}


def fold(events: Iterable[Event]) -> Task:
    """The row that a whole log amounts to; what is not on the log stays as at the start."""
    task: Task | None = None
    for event in events:
        task = born(event) if task is None else after(task, event)
    if task is None:
        raise ValueError("an empty log has no task")
    return task
