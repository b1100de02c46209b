"""A drain: how soon the heir has done its first step after the old owner has let go."""

from __future__ import annotations

import signal
import statistics
import time
from contextlib import ExitStack
from typing import Any

from outlast.core.lifecycle import body_of
from outlast.core.model import Event
from outlast.store.verbs import Store

from .stage import client_and_store, until, worker

PAUSE_S = 0.3


def run(url: str, drains: int = 20) -> dict[str, Any]:
    """One task is handed from worker to worker; the heirs wait with the default poll."""
    with client_and_store(url) as (client, store), ExitStack() as stack:
        task = client.submit("pacer", {})
        old = stack.enter_context(worker(url, "--build", "b0"))
        _until_at_work(store, task.id, epoch=1)
        for number in range(1, drains + 1):
            heir = stack.enter_context(worker(url, "--build", f"b{number}"))
            until("the heir is there", lambda n=number: f"b{n}" in _builds(store))
            time.sleep(PAUSE_S)
            old.send_signal(signal.SIGTERM)
            _until_at_work(store, task.id, epoch=number + 1)
            old.wait()
            old = heir
        task.cancel("it was handed over often enough")
        times = _times_ms(_events(store, task.id))
    assert len(times) == drains, f"{len(times)} of {drains} drains handed over"
    return {
        "drains": drains,
        "median_ms": round(statistics.median(times)),
        "longest_ms": max(times),
    }


def _times_ms(events: list[Event]) -> list[int]:
    """From each release to the next step, by the database's clock."""
    times, released_ms = [], None
    for event in events:
        if event.kind == "lease.released" and body_of(event)["reason"] == "drain":
            released_ms = event.at_ms
        elif event.kind == "step.done" and released_ms is not None:
            times.append(event.at_ms - released_ms)
            released_ms = None
    return times


def _until_at_work(store: Store, task_id: str, epoch: int) -> None:
    """Until that owner has done a step."""

    def at_work() -> bool:
        last = store.last(task_id, "step.done")
        return last is not None and last.holder == epoch

    until(f"epoch {epoch} does a step", at_work)


def _builds(store: Store) -> set[str]:
    return {each.build for each in store.workers()}


def _events(store: Store, task_id: str) -> list[Event]:
    found: list[Event] = []
    while more := store.read(task_id, after=found[-1].seq if found else 0):
        found += more
    return found
