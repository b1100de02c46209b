"""What a resume costs by the length of its log: grant to first new act, and peak memory."""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.lifecycle import body_of
from outlast.core.model import Event
from outlast.store.verbs import Store

from .stage import client_and_store, until, worker

LENGTHS = (1_000, 2_500, 5_000, 10_000)


def run(url: str, lengths: tuple[int, ...] = LENGTHS) -> list[dict[str, Any]]:
    """One row a length; the times are the database's, read from the log."""
    return [_measure(url, steps) for steps in lengths]


def _measure(url: str, steps: int) -> dict[str, Any]:
    with client_and_store(url) as (client, store):
        task = client.submit("long_log", {"steps": steps})
        began = _run_until_dead(url)
        with worker(url, "--ttl", "1s", "--poll", "50ms"):
            until("the heir ends", lambda: store.get(task.id).ended)
        events = _events(store, task.id)
        result = msgspec.json.decode(store.get(task.id).result or "{}")
    grants = [event for event in events if event.kind == "lease.granted"]
    replayed = next(event for event in events if event.kind == "replay.finished")
    answered = body_of(replayed)["answered"]
    assert answered == steps, f"{answered} of {steps} steps were answered from the log"
    first_ms = events[1].at_ms
    last_step = [event for event in events if event.kind == "step.done"][steps - 1]
    return {
        "steps": steps,
        "replay_s": (replayed.at_ms - grants[-1].at_ms) / 1_000,
        "peak_mib": round(result["peak_kib"] / 1_024, 1),
        "steps_a_second": round(steps / max((last_step.at_ms - first_ms) / 1_000, 0.001)),
        "first_life_exit": began,
    }


def _run_until_dead(url: str) -> int:
    with worker(url, "--ttl", "1s", "--poll", "50ms") as process:
        return process.wait(timeout=300)


def _events(store: Store, task_id: str) -> list[Event]:
    events: list[Event] = []
    while page := store.read(task_id, after=len(events)):
        events += page
    return events
