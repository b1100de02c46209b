"""Waits: signals and times, without holding a worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

import outlast
from outlast.testing import Harness, run


@dataclass
class Verdict:
    ok: bool


def approval_app() -> outlast.App:
    app = outlast.App()

    @app.agent
    async def asks(ctx: outlast.Context) -> str:
        await ctx.step("before", str, 1)
        try:
            verdict = await ctx.wait("approval", timeout="2d", as_type=Verdict)
        except TimeoutError:
            return "nobody answered"
        return "approved" if verdict.ok else "refused"

    return app


def test_a_waiting_task_holds_no_lease_and_goes_on_when_the_signal_comes(
    outlast_harness: Any,
) -> None:
    harness: Harness = outlast_harness(approval_app())
    worker = harness.worker()
    task = harness.submit("asks")
    harness.settle()
    assert harness.ran(task).task.state == "waiting"
    assert worker.worker.holdings.all() == []
    harness.move("1d")
    harness.signal(task, "approval", {"ok": True})
    assert harness.run(task).result == "approved"


def test_a_signal_sent_before_the_wait_is_kept(outlast_harness: Any) -> None:
    harness: Harness = outlast_harness(approval_app())
    task = harness.submit("asks")
    harness.signal(task, "approval", {"ok": False})
    harness.worker()
    harness.settle()
    ran = harness.ran(task)
    assert ran.result == "refused"
    assert ran.kinds.count("lease.granted") == 1


def test_a_wait_that_nobody_answers_ends_at_its_time_and_not_before(outlast_harness: Any) -> None:
    """case R18"""
    harness: Harness = outlast_harness(approval_app())
    task = harness.submit("asks")
    harness.worker()
    harness.move("47h")
    assert harness.ran(task).task.state == "waiting"
    harness.move("2h")
    assert harness.ran(task).result == "nobody answered"


@pytest.mark.parametrize("n", range(3, 9))
def test_a_signal_is_consumed_once_whenever_the_worker_dies(n: int, outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def twice(ctx: outlast.Context) -> list[Any]:
        return [await ctx.wait("word"), await ctx.wait("word")]

    harness: Harness = outlast_harness(app)
    task = harness.submit("twice")
    harness.signal(task, "word", "first")
    harness.signal(task, "word", "second")
    ran = harness.run(task, crash_after=n)
    assert ran.result == ["first", "second"]
    assert len({b["signal"] for b in ran.bodies("wait.ended")}) == 2


def test_three_parallel_waits_each_get_their_own_answer(outlast_harness: Any) -> None:
    """case R20"""
    app = outlast.App()

    @app.agent
    async def parallel(ctx: outlast.Context) -> list[Any]:
        return await ctx.gather(*(ctx.wait(f"approval {i}") for i in range(3)))

    harness: Harness = outlast_harness(app)
    task = harness.submit("parallel")
    harness.worker()
    harness.settle()
    for i in (2, 0, 1):
        harness.signal(task, f"approval {i}", f"answer {i}")
        harness.move("2s")
    assert harness.ran(task).result == ["answer 0", "answer 1", "answer 2"]


def test_waits_of_one_name_in_branches_let_the_lease_go_together(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def parallel(ctx: outlast.Context) -> list[Any]:
        async def pause() -> str:
            await ctx.sleep("3d")
            return "slept"

        return await ctx.gather(ctx.wait("go"), ctx.wait("go"), pause())

    harness: Harness = outlast_harness(app)
    task = harness.submit("parallel")
    worker = harness.worker()
    harness.settle()
    assert harness.ran(task).task.state == "waiting"
    assert worker.worker.holdings.all() == []
    harness.signal(task, "go", 1)
    harness.settle()
    harness.signal(task, "go", 2)
    harness.settle()
    assert harness.ran(task).task.state == "waiting"
    harness.move("3d")
    assert harness.ran(task).result == [1, 2, "slept"]


def test_a_wait_beside_running_work_keeps_the_lease(outlast_harness: Any) -> None:
    app, go = outlast.App(), asyncio.Event()

    @app.agent
    async def busy(ctx: outlast.Context) -> list[Any]:
        return await ctx.gather(ctx.wait("go"), ctx.step("work", go.wait))

    harness: Harness = outlast_harness(app)
    task = harness.submit("busy")
    worker = harness.worker()
    harness.move("1m")
    assert len(worker.worker.holdings.all()) == 1
    harness.signal(task, "go", "now")
    go.set()
    harness.move("2s")
    assert harness.ran(task).result == ["now", True]


def test_a_sleep_is_as_long_as_it_was_first_said_to_be(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def sleeper(ctx: outlast.Context) -> str:
        await ctx.sleep("1h")
        return "awake"

    harness: Harness = outlast_harness(app)
    task = harness.submit("sleeper")
    harness.worker(crash_after=3)
    harness.settle()
    harness.jump("50m")
    harness.worker()
    harness.settle()
    assert harness.ran(task).task.state == "waiting"
    harness.move("11m")
    assert harness.ran(task).result == "awake"


def test_a_short_sleep_keeps_its_lease() -> None:
    async def naps(ctx: outlast.Context) -> int:
        await ctx.sleep(1)
        return ctx.epoch

    assert run(naps).result == 1


def test_a_hundred_sleeping_tasks_hold_no_worker(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def sleeper(ctx: outlast.Context) -> str:
        await ctx.sleep("3d")
        return "awake"

    harness: Harness = outlast_harness(app, slots=50)
    tasks = [harness.submit("sleeper") for _ in range(100)]
    worker = harness.worker()
    harness.settle()
    assert worker.worker.holdings.all() == []
    assert {harness.ran(task).task.state for task in tasks} == {"waiting"}
