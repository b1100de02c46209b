"""Outlast's events in the words of the drain test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ...target import Shape

KINDS = {
    "task.submitted": "submitted",
    "lease.granted": "granted",
    "replay.finished": "replayed",
    "step.done": "recorded",
    "step.failed": "recorded",
    "effect.intended": "intended",
    "effect.applied": "applied",
    "effect.reused": "applied",
    "effect.failed": "failed",
    "effect.unknown": "unknown",
    "effect.settled": "settled",
    "wait.started": "waiting",
    "wait.ended": "recorded",
    "checkpoint": "recorded",
    "lease.released": "released",
    "lease.expired": "expired",
    "lease.revoked": "revoked",
    "cancel.acknowledged": "acknowledged",
    "task.succeeded": "ended",
    "task.failed": "ended",
    "task.cancelled": "ended",
    "task.reopened": "reopened",
}
# Written by a reaper, a canceller or a client: no owner's.
NOBODYS = {"submitted", "granted", "expired", "revoked", "settled", "reopened"}


def neutral(lines: Iterable[Shape]) -> list[Shape]:
    """The lines of an export as events; `epoch` is that of the writer."""
    owners: dict[str, int] = {}
    found = []
    for line in lines:
        if "seq" not in line:
            continue
        body = json.loads(line["body"])
        kind = KINDS.get(line["kind"], "other")
        if kind == "waiting" and line["holder"]:
            # A short wait keeps its lease.
            kind = "other"
        task = line["task"]
        if kind == "granted":
            owners[task] = body["epoch"]
        writer = line["holder"] or (0 if kind in NOBODYS else owners.get(task, 0))
        found.append(_event(line, body, kind, writer))
        if line["holder"] == 0:
            owners[task] = 0
    return found


def _event(line: Shape, body: dict[str, Any], kind: str, writer: int) -> Shape:
    event = {
        "task": line["task"],
        "seq": line["seq"],
        "kind": kind,
        "epoch": body["epoch"] if kind == "granted" else writer,
        "at_ms": line["at_ms"],
    }
    told: Shape = {
        name: body[name] for name in ("worker", "pid", "ttl_ms", "expires_ms") if name in body
    }
    act = body.get("name") or body.get("key")
    if act:
        told["act"] = str(act).rpartition("/")[2]
    if "reason" in body or "why" in body:
        told["reason"] = body.get("reason") or body.get("why")
    if kind == "ended":
        told["state"] = line["kind"].partition(".")[2]
    return {**event, **told}
