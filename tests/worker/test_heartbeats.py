"""The heartbeat: a connection of its own, one request for all leases."""

from __future__ import annotations

import asyncio
from typing import Any

import outlast
from outlast.core import limits
from outlast.store.verbs import Query
from outlast.testing import Harness

TASKS = 200


class Line:
    """A store that notes what it is asked."""

    def __init__(self, store: Any, lines: list[Line]) -> None:
        self._store = store
        self.asked: list[str] = []
        lines.append(self)

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        return getattr(self._store, name)


def test_two_hundred_leases_are_renewed_on_a_connection_that_nothing_else_uses(
    outlast_harness: Any,
) -> None:
    """case R58: neither what the tasks write nor a look can stand in the way of a renewal"""
    app = outlast.App()

    @app.agent
    async def endless(ctx: outlast.Context) -> None:
        await asyncio.Event().wait()

    harness: Harness = outlast_harness(app)
    lines: list[Line] = []
    harness.through = lambda store: Line(store, lines)  # type: ignore
    for _ in range(TASKS):
        harness.submit("endless")
    worker = harness.worker(slots=TASKS).worker
    while len(worker.holdings.all()) < TASKS:
        worker.lookout.tick()

    harness.clock.move(worker.row.ttl_ms // limits.BEATS_PER_TTL)
    worker.heart.tick()  # the writer and the look-out are not let go on: they may hang

    [beating] = [line for line in lines if "renew" in line.asked]
    assert set(beating.asked) == {"renew"}
    assert beating.asked.count("renew") == 1
    now_ms = harness.store.now_ms()
    held = harness.store.find(Query(states=["running"], limit=TASKS))
    assert len(held) == TASKS
    assert {each.lease.beat_ms for each in held if each.lease} == {now_ms}
    assert all(holding.trusted() for holding in worker.holdings.all())
