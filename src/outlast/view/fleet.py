"""All that is running, and whether it is safe to deploy."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import limits
from ..core.model import Effect, Worker
from ..store.verbs import EffectQuery, Held, Query, Store
from . import gate
from .shapes import Shape, json_value
from .words import rfc3339, seconds


def judge(store: Store, build: str | None) -> tuple[gate.Gate, int]:
    """The gate's answer and the moment it is of."""
    now_ms = store.now_ms()
    rows = [
        held
        for held in running(store)
        if build is None or (held.worker is not None and held.worker.build == build)
    ]
    in_flight = gate.flights(_in_flight(store, rows))
    fates = [gate.fate(held, in_flight.get(held.task.id, ())) for held in rows]
    return gate.gate(fates, build), now_ms


def worker_shape(worker: Worker, now_ms: int) -> Shape:
    """A worker process, with what it was started with."""
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "build": worker.build,
        "state": worker.state,
        "queues": json_value(worker.queues),
        "agents": json_value(worker.agents),
        "slots": worker.slots,
        "ttl_s": seconds(worker.ttl_ms),
        "grace_s": seconds(worker.grace_ms),
        "started_at": rfc3339(worker.started_ms),
        "heartbeat_age_s": seconds(now_ms - worker.beat_ms),
        "drain_by": worker.drain_by,
    }


def running(store: Store) -> list[Held]:
    """All tasks that have an owner, in pages."""
    found: list[Held] = []
    after: str | None = None
    while True:
        page = store.find(Query(states=("running",), after=after, limit=limits.SUBMIT_BATCH))
        found += page
        if len(page) < limits.SUBMIT_BATCH:
            return found
        after = page[-1].task.id


def _in_flight(store: Store, rows: Sequence[Held]) -> list[Effect]:
    """The effects under way of all these tasks, in one question."""
    acting = [held.task.id for held in rows if held.effects.get("intended")]
    if not acting:
        return []
    query = EffectQuery(task_ids=acting, states=("intended",), limit=limits.LISTED_EFFECTS)
    return store.find_effects(query)


def gate_shape(answer: gate.Gate, now_ms: int) -> Shape:
    return {
        "safe": answer.safe,
        "said": answer.said,
        "running": answer.running,
        "blockers": [
            {
                "task": fate.held.task.id,
                "agent": fate.held.task.agent,
                "owner": gate.owner(fate.held),
                "build": fate.held.worker.build if fate.held.worker else None,
                "said": fate.said,
                "at_most_s": None if fate.at_most_ms is None else fate.at_most_ms / 1000,
            }
            for fate in answer.blockers
        ],
        "as_of": rfc3339(now_ms),
    }
