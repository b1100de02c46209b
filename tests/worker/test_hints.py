"""The look-out and its hints: soon where they bring something, seldom where they do not."""

from __future__ import annotations

from typing import Any

import outlast
from outlast.core import limits
from outlast.store.verbs import HintsCome
from outlast.testing import Harness


class Hinting:
    """A store that hints at every moment, as a SQLite file does while others write to it."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def hinted(self) -> bool:
        return True


def hinting(outlast_harness: Any) -> Harness:
    """A world with the agent `idle`, in which every moment brings a hint."""
    app = outlast.App()

    @app.agent
    async def idle(ctx: outlast.Context) -> None:
        return None

    harness: Harness = outlast_harness(app)
    harness.through = Hinting  # type: ignore[assignment]
    return harness


def looks_within(harness: Harness, lookout: Any, ms: int) -> int:
    """How often it looks in that time, being asked as often as its loop asks it."""
    looks = 0
    for _ in range(ms // limits.HINT_MS):
        harness.clock.move(limits.HINT_MS)
        if lookout.hinted():
            lookout.tick()
            looks += 1
    return looks


def test_hints_in_vain_are_followed_ever_more_seldom_and_a_good_one_at_once(
    outlast_harness: Any,
) -> None:
    harness = hinting(outlast_harness)
    worker = harness.worker().worker
    worker.lookout.tick()

    in_vain = looks_within(harness, worker.lookout, 10_000)
    assert in_vain <= 10_000 // limits.HINT_MAX_MS + 10

    harness.submit("idle")
    looks_within(harness, worker.lookout, limits.HINT_MAX_MS)
    assert len(worker.holdings.all()) == 1
    soon = looks_within(harness, worker.lookout, limits.HINT_MAX_MS)
    assert soon > in_vain * limits.HINT_MAX_MS / 10_000


def test_a_worker_without_room_follows_no_hint(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def waits(ctx: outlast.Context) -> None:
        await ctx.sleep("1s")

    harness: Harness = outlast_harness(app)
    harness.through = Hinting  # type: ignore[assignment]
    harness.submit("waits")
    lookout = harness.worker(slots=1).worker.lookout
    lookout.tick()

    assert looks_within(harness, lookout, 1_000) == 0
    assert lookout.hints_come() == HintsCome(), "it would ask in a circle until its poll"


def _follow(harness: Harness, lookouts: list[Any]) -> int:
    """Those whose time has come follow the hint; how many."""
    looked = [lookout.tick() for lookout in lookouts if lookout.hinted()]
    harness.clock.move(1)
    return len(looked)


def test_the_more_workers_there_are_the_longer_a_hint_is_followed_by_chance(
    outlast_harness: Any,
) -> None:
    """case R61: all hear of one task, and few claim it."""
    harness = hinting(outlast_harness)
    lookouts = [harness.worker().worker.lookout for _ in range(50)]
    for lookout in lookouts:
        lookout.tick()
    harness.clock.move(limits.HINT_MAX_MS)
    claims: list[int] = []
    for lookout in lookouts:
        assert lookout._store is not None
        claim = lookout._store.claim
        lookout._store.claim = lambda *words, ask=claim: claims.append(1) or ask(*words)  # type: ignore
    harness.submit("idle")

    looked = [ms for ms in range(50 * limits.HERD_MS) if _follow(harness, lookouts)]

    assert len(claims) == 1
    assert looked[0] < 20 * limits.HERD_MS
    assert len(looked) > 20, "they all looked at the same moment"
