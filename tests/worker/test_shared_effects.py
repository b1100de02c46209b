"""Effects under an explicit key, which all tasks share."""

from __future__ import annotations

import asyncio
from typing import Any

import outlast
from outlast.store.verbs import NewTask
from outlast.testing import Harness

from .conftest import World


def shared_key_app(world: World, **options: Any) -> outlast.App:
    app = outlast.App()

    @app.agent
    async def invoice(ctx: outlast.Context, amount: int = 1) -> str:
        def pay(amount: int, idempotency_key: str) -> str:
            return world.act("pay", idempotency_key)

        return str(await ctx.effect("pay", pay, amount, key="invoice-17", **options))

    return app


def test_two_tasks_with_one_explicit_key_act_once(outlast_harness: Any, world: World) -> None:
    """case R52"""
    harness: Harness = outlast_harness(shared_key_app(world))
    tasks = [harness.submit("invoice") for _ in range(3)]
    harness.worker()
    for task in tasks:
        assert harness.run(task).result == "pay done"
    assert world.acts["pay"] == 1
    kinds = [kind for task in tasks for kind in harness.ran(task).kinds]
    assert (kinds.count("effect.applied"), kinds.count("effect.reused")) == (1, 2)


def test_an_explicit_key_with_other_arguments_is_a_conflict(
    outlast_harness: Any, world: World
) -> None:
    harness: Harness = outlast_harness(shared_key_app(world))
    first, second = harness.submit("invoice"), harness.submit("invoice", {"amount": 2})
    assert harness.run(first).result == "pay done"
    assert harness.run(second).task.reason == "effect_conflict"
    assert world.acts["pay"] == 1


def test_who_waits_for_a_busy_key_holds_no_worker_and_gets_the_result(
    outlast_harness: Any,
) -> None:
    """case R52"""
    app, go, calls = outlast.App(), asyncio.Event(), list[int]()

    @app.agent
    async def slow(ctx: outlast.Context) -> str:
        async def tool() -> str:
            calls.append(1)
            await go.wait()
            return "once"

        return str(await ctx.effect("act", tool, key="k"))

    harness: Harness = outlast_harness(app)
    first = harness.submit("slow")
    harness.worker()
    harness.settle()
    second = harness.submit("slow")
    for _ in range(14):
        harness.move("0.4s")
    assert harness.ran(second).task.state == "waiting"
    go.set()
    assert harness.run(first).result == "once"
    assert harness.run(second).result == "once"
    assert calls == [1]


def test_a_shared_key_whose_owner_died_is_resolved_by_one_of_the_others(
    outlast_harness: Any, world: World
) -> None:
    """case R77"""
    harness: Harness = outlast_harness(shared_key_app(world, on_unknown=world.find))
    tasks = [harness.submit("invoice")]
    harness.worker(crash_after=3)
    harness.settle()
    assert not harness.living
    tasks += [harness.submit("invoice") for _ in range(2)]
    for task in tasks:
        assert harness.run(task).result == "pay done"
    assert world.acts["pay"] == 1


def test_the_same_submit_key_gives_the_same_task_and_no_second_act(
    outlast_harness: Any, world: World
) -> None:
    """case R50"""
    harness: Harness = outlast_harness(shared_key_app(world))
    first = harness.submit("invoice", key="submit-1")
    assert harness.run(first).result == "pay done"
    again = harness.store.submit(
        [NewTask(id=harness.env.new_id(), agent="invoice", input="{}", key="submit-1")]
    )[0]
    assert (again.task.id, again.created) == (first, False)
    harness.settle()
    assert world.acts["pay"] == 1
