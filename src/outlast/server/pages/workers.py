"""The pages on workers: who is there, by build; and how far a drain has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ...core.model import Worker
from ...store.verbs import Held, Store
from ..asked import Asked
from .fleet import Fleet
from .page import Facts, Page

GONE_SHOWN = 20
HELD_SHOWN = 10


class Manned(msgspec.Struct, frozen=True):
    """A worker and what it holds. `silent`: it has missed its whole TTL."""

    worker: Worker
    held: Sequence[Held]
    silent: bool

    @property
    def shown(self) -> Sequence[Held]:
        return self.held[:HELD_SHOWN]

    @property
    def draining(self) -> bool:
        return self.worker.state == "draining" or self.worker.drain_by is not None


def look_at_workers(fleet: Fleet, store: Store, asked: Asked) -> Facts:
    """All workers that have not retired, by build, and the last ones that have."""
    everyone, now_ms = fleet.workers.of(store), store.now_ms()
    there = _manned(fleet, store, now_ms)
    return {
        "builds": _by_build(there),
        "silent": [each for each in there if each.silent],
        "gone": [worker for worker in everyone if worker.state == "retired"][:GONE_SHOWN],
        "paused": store.paused(),
        "now_ms": now_ms,
    }


def look_at_drain(fleet: Fleet, store: Store, asked: Asked) -> Facts:
    """Who blocks a deploy, which workers drain and what they still hold, what can be drained."""
    now_ms = store.now_ms()
    answer, _ = fleet.judged.of(store)
    there = _manned(fleet, store, now_ms)
    return {
        "answer": answer,
        "draining": [each for each in there if each.draining],
        "builds": _by_build(each for each in there if not each.draining),
        "now_ms": now_ms,
    }


def _manned(fleet: Fleet, store: Store, now_ms: int) -> list[Manned]:
    held = fleet.held.of(store)
    return [
        Manned(worker, held.get(worker.id, ()), now_ms - worker.beat_ms > worker.ttl_ms)
        for worker in fleet.workers.of(store)
        if worker.state != "retired"
    ]


def _by_build(there: Iterable[Manned]) -> dict[str, list[Manned]]:
    """The living first, then the newest build first, as the store lists workers."""
    found: dict[str, list[Manned]] = {}
    for each in sorted(there, key=lambda each: each.silent):
        found.setdefault(each.worker.build, []).append(each)
    return found


WORKERS = Page("workers", "/workers", look_at_workers)
DRAIN = Page("drain", "/drain", look_at_drain)
