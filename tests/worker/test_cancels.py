"""Cancel: heard, acknowledged, and obeyed, whatever the agent does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import outlast
from outlast.testing import HandWorker, Harness

from .test_stops import two_step_app


def test_a_cancelled_attempt_cleans_up_and_then_the_task_is_cancelled(
    outlast_harness: Any,
) -> None:
    """case R39"""
    app, log = outlast.App(), list[str]()

    @app.agent
    async def tidy(ctx: outlast.Context) -> None:
        try:
            await ctx.step("wait", asyncio.Event().wait)
        finally:
            await asyncio.to_thread(int)
            log.append("cleaned up")

    harness: Harness = outlast_harness(app)
    task = harness.submit("tidy")
    harness.worker()
    harness.settle()
    assert harness.cancel(task, "superseded") == "asked"
    harness.move("11s")
    ran = harness.ran(task)
    assert ran.kinds[-2:] == ["cancel.acknowledged", "task.cancelled"]
    assert ran.bodies("task.cancelled")[0]["why"] == "superseded"
    assert (ran.task.state, log) == ("cancelled", ["cleaned up"])


def test_an_agent_that_swallows_the_cancel_is_refused_at_its_next_call(
    outlast_harness: Any,
) -> None:
    """case R41"""
    app, log = outlast.App(), list[str]()

    @app.agent
    async def deaf(ctx: outlast.Context) -> None:
        try:
            await ctx.step("wait", asyncio.Event().wait)
        except (Exception, asyncio.CancelledError):
            log.append("swallowed")
        await ctx.step("more", log.append, "more work")

    harness: Harness = outlast_harness(app)
    task = harness.submit("deaf")
    harness.worker()
    harness.settle()
    harness.cancel(task)
    harness.move("11s")
    assert harness.ran(task).task.state == "cancelled"
    assert log == ["swallowed"]


def test_an_agent_that_will_not_stop_ends_its_worker(outlast_harness: Any) -> None:
    """case R41"""
    app = outlast.App()

    @app.agent(kill_after="3s")
    async def stubborn(ctx: outlast.Context) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    @app.agent
    async def innocent(ctx: outlast.Context) -> None:
        await ctx.step("wait", asyncio.Event().wait)

    harness: Harness = outlast_harness(app)
    task, neighbour = harness.submit("stubborn"), harness.submit("innocent")
    worker = harness.worker()
    harness.settle()
    harness.cancel(task)
    harness.move("23s")
    assert worker.exit_code == 70
    assert harness.ran(neighbour).task.state == "ready"
    assert harness.ran(neighbour).task.resumes == 0
    harness.run(task)
    assert harness.ran(task).task.state == "cancelled"


def test_a_lease_is_not_given_back_before_a_thread_of_its_attempt_has_ended(
    outlast_harness: Any,
) -> None:
    app, go, log = outlast.App(), threading.Event(), list[str]()

    def slow() -> None:
        log.append("begun")
        go.wait(20)
        log.append("ended")

    @app.agent
    async def threaded(ctx: outlast.Context) -> None:
        await ctx.step("work", lambda: asyncio.to_thread(slow))

    harness: Harness = outlast_harness(app)
    task = harness.submit("threaded")
    worker = harness.worker(grace_ms=4_000)
    until_said(worker, log, "begun")
    worker.order_drain()
    # Now it is cut off, and what has not ended is not yet given back over its head.
    harness.clock.move(worker.worker.drain.cut_ms - harness.clock.now_ms)
    for _ in range(20):
        worker.turn()
    assert "lease.released" not in harness.ran(task).kinds
    go.set()
    harness.settle()
    assert log == ["begun", "ended"]
    assert harness.ran(task).bodies("lease.released")[0]["reason"] == "deadline"


def until_said(worker: HandWorker, log: list[str], word: str) -> None:
    """Turn a worker until a thread of its agent has said so."""
    for _ in range(10_000):
        worker.turn()
        if word in log:
            return
    raise AssertionError(f"{word!r} was never said")


def test_what_a_cancelled_task_starts_in_its_turn_is_ended_too(outlast_harness: Any) -> None:
    app, log = outlast.App(), list[str]()

    @app.agent
    async def spawns(ctx: outlast.Context) -> None:
        async def late() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                log.append("late one ended")

        async def first() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                background.append(asyncio.create_task(late()))
                await asyncio.sleep(0)

        background = [asyncio.create_task(first())]
        await asyncio.sleep(0)

    harness: Harness = outlast_harness(app)
    ran = harness.run(harness.submit("spawns"))
    assert ran.task.state == "succeeded"
    assert log == ["late one ended"]


def test_an_effect_is_not_begun_once_a_cancel_is_asked(outlast_harness: Any) -> None:
    """case R76"""
    app, go, acts = outlast.App(), asyncio.Event(), list[int]()

    @app.agent
    async def acts_later(ctx: outlast.Context) -> None:
        await ctx.step("wait", go.wait)
        await ctx.effect("act", acts.append, 1)

    harness: Harness = outlast_harness(app)
    task = harness.submit("acts_later")
    harness.worker()
    harness.settle()
    harness.cancel(task, "no more")  # the heartbeat has not heard of it
    go.set()
    harness.settle()
    ran = harness.ran(task)
    assert (ran.task.state, acts) == ("cancelled", [])
    assert ran.kinds[-3:] == ["step.done", "cancel.acknowledged", "task.cancelled"]
    assert ran.bodies("task.cancelled")[0]["by"] == "test"


@pytest.mark.parametrize("how", ["drain", "wait", "retry"])
def test_a_cancel_asked_before_the_lease_is_let_go_is_answered_by_the_owner(
    how: str, outlast_harness: Any
) -> None:
    """case R76"""
    app, go = outlast.App(), asyncio.Event()

    @app.agent(retries=3)
    async def leaves(ctx: outlast.Context) -> None:
        await ctx.step("wait", go.wait)
        if how == "retry":
            raise ValueError("again")
        await ctx.wait("never")

    harness: Harness = outlast_harness(app)
    task = harness.submit("leaves")
    worker = harness.worker()
    harness.settle()
    if how == "drain":
        worker.order_drain()
        worker.worker.watch.tick()
    harness.cancel(task)
    go.set()
    harness.settle()
    assert harness.ran(task).task.state == "cancelled"


def test_a_late_finally_can_write_nothing_after_its_own_release(outlast_harness: Any) -> None:
    """case R71"""
    app, refused = outlast.App(), list[str]()

    @app.agent
    async def late(ctx: outlast.Context) -> None:
        try:
            await ctx.wait("never")
        finally:
            try:
                await ctx.note("too late")
            except BaseException as error:
                refused.append(type(error).__name__)

    harness: Harness = outlast_harness(app)
    task = harness.submit("late")
    harness.worker()
    harness.settle()
    assert refused == ["Suspended"]
    assert harness.ran(task).kinds[-1] == "wait.started"


def test_a_cancel_is_heard_while_the_worker_drains(outlast_harness: Any) -> None:
    """case R31"""
    go, log = asyncio.Event(), list[str]()
    harness: Harness = outlast_harness(two_step_app(go, log))
    task = harness.submit("two_steps")
    worker = harness.worker(grace_ms=60_000)
    harness.settle()
    worker.order_drain()
    harness.settle()
    harness.cancel(task)
    harness.move("11s")
    assert harness.ran(task).task.state == "cancelled"
    assert worker.exit_code == 0
