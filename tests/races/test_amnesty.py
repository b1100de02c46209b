"""An unsure reaper spares every lapsed lease once, however many there are and whatever fails."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import outlast
from outlast.core.clock import Env, HandClock
from outlast.core.errors import Unavailable
from outlast.store.open import open_store
from outlast.store.verbs import Store
from outlast.worker.worker import Worker
from tests.faults.disks import in_memory
from tests.faults.lossy import Losses, LossyStore
from tests.store import world

MANY = 250


def test_more_leases_than_a_batch_are_all_spared(tmp_path: Path) -> None:
    """Case R23."""
    with in_memory(tmp_path) as folder:
        env = Env(HandClock(), random.Random(1))
        url = f"sqlite:{folder / 'outlast.db'}"
        store = open_store(url, env=env, create=True)
        held = lapsed_leases(store, env, MANY)
        reaper = reaper_of(url, env, Losses())
        for _ in range(4):
            reaper.lookout.tick()
        kinds = {event.kind for task in held for event in store.read(task)}
        reaper.lookout.close()
        store.close()
    assert "lease.expired" not in kinds


def test_a_reaper_whose_first_answer_is_lost_is_as_unsure_as_before(tmp_path: Path) -> None:
    with in_memory(tmp_path) as folder:
        env = Env(HandClock(), random.Random(1))
        url = f"sqlite:{folder / 'outlast.db'}"
        store = open_store(url, env=env, create=True)
        [task] = lapsed_leases(store, env, 1)
        reaper = reaper_of(url, env, Losses("request", 1, "reap"))
        with pytest.raises(Unavailable):
            reaper.lookout.tick()
        reaper.lookout.tick()
        kinds = [event.kind for event in store.read(task)]
        reaper.lookout.close()
        store.close()
    assert "lease.expired" not in kinds


def lapsed_leases(store: Store, env: Env, count: int) -> list[str]:
    """Tasks that a worker holds and could not renew in time."""
    store.submit([world.new_task(store) for _ in range(count)])
    held: list[str] = []
    while len(held) < count:
        held += [grant.task.id for grant in world.grants(store, room=50)]
    assert isinstance(env.clock, HandClock)
    env.clock.move(world.TTL + 1)
    return held


def reaper_of(url: str, env: Env, losses: Losses) -> Worker:
    """A worker that has just been started; its look-out is moved by hand."""
    app = outlast.App()

    @app.agent
    async def another(ctx: outlast.Context) -> None:
        """Not the one whose tasks these are."""

    def opened() -> Store:
        return LossyStore(open_store(url, env=env), losses)  # type: ignore[return-value]

    worker = Worker(app, opened, env, ttl_ms=world.TTL)
    worker.loop.close()
    return worker
