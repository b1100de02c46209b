"""Why attempts end early: drain, cancel, a lost lease. Each is another thing on the record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import outlast
from outlast.testing import Harness


def two_step_app(go: asyncio.Event, log: list[str]) -> outlast.App:
    """An agent whose first step takes until `go`."""
    app = outlast.App()

    @app.agent
    async def two_steps(ctx: outlast.Context) -> str:
        async def first() -> str:
            log.append(f"first {ctx.epoch}")
            await go.wait()
            return "1"

        try:
            done = await ctx.step("first", first)
        except Exception:  # what agent code does, and what must not swallow a stop
            done = "swallowed"
        log.append(f"between {ctx.epoch}")
        return done + str(await ctx.step("second", str, 2))

    return app


def test_a_drained_attempt_ends_at_its_next_boundary_with_what_it_had(
    outlast_harness: Any,
) -> None:
    """case R30, case R36"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    old = harness.worker()
    harness.settle()
    old.order_drain()
    other = harness.submit("two_steps")
    harness.settle()
    assert harness.ran(other).task.state == "ready"  # it claims nothing more
    go.set()
    harness.settle()
    assert old.exit_code == 0
    ran = harness.ran(task)
    assert ran.kinds[-2:] == ["step.done", "lease.released"]
    assert (ran.task.state, ran.task.failures, ran.task.handoffs) == ("ready", 0, 1)
    assert "between 1" not in log

    ran = harness.run(task)

    assert (ran.result, ran.task.failures) == ("12", 0)
    assert log.count("first 2") == 0
    assert ran.bodies("lease.granted")[1]["reason"] == "drain"


def test_at_the_end_of_the_grace_an_attempt_is_cut_off_and_handed_over(
    outlast_harness: Any,
) -> None:
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    old = harness.worker(grace_ms=10_000)
    harness.settle()
    old.order_drain()
    harness.move("7s")
    assert old.alive
    harness.move("1.5s")
    assert old.exit_code == 75
    ran = harness.ran(task)
    assert ran.bodies("lease.released") == [{"reason": "deadline", "progressed": False}]
    assert (ran.task.state, ran.task.failures, ran.task.resumes) == ("ready", 0, 0)


def test_an_effect_cut_off_by_the_grace_stays_in_doubt(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def acts(ctx: outlast.Context) -> None:
        await ctx.effect("act", asyncio.Event().wait)

    harness: Harness = outlast_harness(app)
    task = harness.submit("acts")
    old = harness.worker(grace_ms=4_000)
    harness.settle()
    old.order_drain()
    harness.move("4s")
    assert old.exit_code == 75
    assert [e.state for e in harness.ran(task).effects] == ["intended"]
    assert harness.run(task).task.reason == "effect_unknown"


def test_a_second_order_leaves_at_once(outlast_harness: Any) -> None:
    """case R35"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    old = harness.worker()
    harness.settle()
    old.order_drain()
    harness.settle()
    assert old.alive
    old.hurry()
    harness.settle()
    assert old.exit_code == 75
    assert harness.ran(task).task.state == "ready"


def test_one_that_raises_while_draining_does_not_keep_the_others(outlast_harness: Any) -> None:
    """case R33"""
    app, go = outlast.App(), asyncio.Event()

    @app.agent
    async def works(ctx: outlast.Context, bad: bool) -> str:
        await ctx.step("wait", go.wait)
        return "done"

    @app.agent
    async def breaks(ctx: outlast.Context) -> None:
        await go.wait()
        raise ValueError("while draining")

    harness: Harness = outlast_harness(app)
    good = [harness.submit("works", {"bad": False}) for _ in range(4)]
    bad = harness.submit("breaks")
    old = harness.worker()
    harness.settle()
    old.order_drain()
    go.set()
    harness.settle()
    assert old.exit_code == 0
    assert {harness.ran(task).task.state for task in good} == {"ready"}
    assert harness.ran(bad).task.state == "failed"


def test_a_task_that_ends_during_the_drain_has_ended(outlast_harness: Any) -> None:
    """case R34, case R37"""
    app, go = outlast.App(), asyncio.Event()

    @app.agent
    async def ends(ctx: outlast.Context) -> str:
        await go.wait()
        return "just in time"

    harness: Harness = outlast_harness(app)
    task = harness.submit("ends")
    old = harness.worker()
    harness.settle()
    old.order_drain()
    go.set()
    harness.settle()
    assert (old.exit_code, harness.ran(task).result) == (0, "just in time")


def test_claims_that_were_not_started_go_back_without_a_trace(outlast_harness: Any) -> None:
    """case R38"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    tasks = [harness.submit("two_steps") for _ in range(10)]
    worker = harness.worker()
    # The order comes between the claim and the start.
    worker.worker.lookout.tick()
    worker.order_drain()
    worker.worker.watch.tick()
    harness.settle()
    assert worker.exit_code == 0
    for task in tasks:
        ran = harness.ran(task)
        assert (ran.task.state, ran.task.reason, ran.task.handoffs) == ("ready", "first", 0)
    assert log == []


def test_a_drain_ordered_through_the_store_is_heard_at_the_next_heartbeat(
    outlast_harness: Any,
) -> None:
    from outlast.store.verbs import Order

    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    harness.submit("two_steps")
    worker = harness.worker()
    harness.settle()
    harness.store.order_drain(Order("ann", "new build"))
    go.set()
    harness.move("11s")
    assert worker.exit_code == 0


def test_a_frozen_worker_looks_at_its_deadline_first_and_writes_nothing(
    outlast_harness: Any,
) -> None:
    """case R7, case R13"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    zombie = harness.worker()
    harness.settle()
    harness.jump("2m")
    heir = harness.worker()
    for _ in range(4):
        heir.turn()
        harness.jump("31s")
    go.set()
    for _ in range(20):
        heir.turn()
    ran = harness.ran(task)
    assert ran.result == "12"
    before = len(ran.events)
    for _ in range(20):
        zombie.turn()
    assert len(harness.ran(task).events) == before
    assert "between 1" not in log
    assert len([said for said in log if said.startswith("between")]) == 1


def test_trust_that_has_run_out_ends_the_attempt_and_spends_nothing(
    outlast_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case R5, case R4"""
    from outlast.core.errors import Unavailable

    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    worker = harness.worker()
    harness.settle()
    store = worker.worker.heart._store

    def refused(*_: Any, **__: Any) -> None:
        raise Unavailable("the database", "renewals are refused")

    monkeypatch.setattr(store, "renew", refused)
    harness.move("11s")
    assert harness.ran(task).task.state == "running"  # one that fails is nothing yet
    harness.move("15s")
    ran = harness.ran(task)
    assert ran.bodies("lease.released")[-1]["reason"] == "trust"
    assert (ran.task.failures, ran.task.resumes) == (0, 0)


def test_a_worker_whose_renewals_alone_are_refused_ends_itself(
    outlast_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case R6"""
    from outlast.core.errors import Unavailable

    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    harness.submit("two_steps")
    worker = harness.worker()
    harness.settle()

    def refused(*_: Any, **__: Any) -> None:
        raise Unavailable("the database", "renewals are refused")

    monkeypatch.setattr(worker.worker.heart._store, "renew", refused)
    harness.move("70s")
    assert worker.exit_code == 70
    assert "worker.unfit" in [kind for kind, _ in worker.told]


def test_a_suspect_runs_alone(outlast_harness: Any) -> None:
    """case R28, case R86"""
    app = outlast.App()

    @app.agent
    async def works(ctx: outlast.Context) -> None:
        await asyncio.Event().wait()

    harness: Harness = outlast_harness(app)
    suspect = harness.submit("works")
    kill_its_worker(harness, suspect, times=3)
    assert harness.store.get(suspect).resumes == 3
    first = harness.worker(slots=1)
    second = harness.worker()
    innocent = harness.submit("works")
    harness.settle()
    held = {first: [innocent], second: []}
    for _ in range(40):
        harness.move("1s")
        held = {w: [h.task_id for h in w.worker.holdings.all()] for w in (first, second)}
        if any(suspect in tasks for tasks in held.values()):
            break
    assert sorted(held.values()) == sorted([[innocent], [suspect]])
    owner = second if held[second] == [suspect] else first
    harness.submit("works")
    harness.move("1m")
    assert [h.task_id for h in owner.worker.holdings.all()] == [suspect]


def kill_its_worker(harness: Harness, task: str, *, times: int) -> None:
    """Give the task to a worker that dies at once, so often; reap it each time."""
    for _ in range(times):
        worker = harness.worker()
        harness.settle()
        while harness.store.get(task).state != "running":
            harness.move("1s")
        worker.crash()
        for _ in range(2):  # the first look of a reaper that has slept spares it
            harness.jump("31s")
            harness.store.reap(since_ms=harness.clock.now_ms)
        assert harness.store.get(task).state == "ready"


def test_a_task_that_kills_every_worker_is_given_up_and_its_neighbours_are_not(
    outlast_harness: Any,
) -> None:
    """case R28"""
    app = outlast.App()

    @app.agent(max_resumes=2)
    async def killer(ctx: outlast.Context) -> None:
        await asyncio.Event().wait()

    harness: Harness = outlast_harness(app)
    task = harness.submit("killer")
    kill_its_worker(harness, task, times=2)
    worker = harness.worker()
    while harness.store.get(task).state != "running":
        harness.move("1s")
    worker.crash()
    harness.jump("31s")
    harness.store.reap(since_ms=harness.clock.now_ms)
    ended = harness.store.get(task)
    assert (ended.state, ended.reason) == ("failed", "abandoned")


def test_a_step_of_twenty_leases_runs_once(outlast_harness: Any) -> None:
    """case R3, case R57"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    harness.worker()
    harness.worker()
    harness.move("10m")
    go.set()
    harness.settle()
    assert (harness.ran(task).result, log) == ("12", ["first 1", "between 1"])


def test_heartbeats_that_are_slow_to_be_answered_lose_nothing(
    outlast_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case R1"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log), ttl_ms=6_000, slots=20)
    tasks = [harness.submit("two_steps") for _ in range(20)]
    worker = harness.worker()
    harness.settle()
    store: Any = worker.worker.heart._store
    renew = store.renew

    def slowly(*args: Any, **options: Any) -> Any:
        harness.clock.move(1_500)
        return renew(*args, **options)

    monkeypatch.setattr(store, "renew", slowly)
    for _ in range(60):
        harness.move("0.5s")
    go.set()
    harness.settle()
    assert {harness.ran(task).task.epoch for task in tasks} == {1}
    assert {harness.ran(task).task.state for task in tasks} == {"succeeded"}


def test_a_task_lost_and_claimed_again_by_the_same_process_is_another_attempt(
    outlast_harness: Any,
) -> None:
    """case R72"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    harness.worker()
    harness.settle()
    harness.jump("2m")
    harness.settle()
    go.set()
    harness.move("5s")
    ran = harness.ran(task)
    assert (ran.result, ran.task.epoch) == ("12", 2)
    assert log == ["first 1", "first 2", "between 2"]


def test_the_answer_to_a_claim_was_lost_and_trust_counts_from_a_renewal(
    outlast_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case R73"""
    from outlast.core.errors import Unavailable

    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    worker = harness.worker()
    worker.worker.heart.tick()
    worker.worker.lookout._store = store = harness.through(worker.worker._open_store())
    claim = store.claim

    def lost(*args: Any) -> Any:
        claim(*args)
        monkeypatch.setattr(store, "claim", claim)
        raise Unavailable("the database", "its answer was lost")

    monkeypatch.setattr(store, "claim", lost)
    with pytest.raises(Unavailable):
        worker.worker.lookout.tick()
    harness.jump("10s")
    asked_ms = harness.clock.now_ms
    worker.worker.lookout.tick()
    [holding] = worker.worker.holdings.all()
    assert holding.trusted_until_ms == asked_ms + 25_000
    go.set()
    harness.settle()
    ran = harness.ran(task)
    assert (ran.result, ran.task.epoch) == ("12", 1)
