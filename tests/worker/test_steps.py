"""Steps: recorded once, answered from the log ever after."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import Any

import pytest

import outlast
from outlast.store.verbs import Order
from outlast.testing import Harness, run


@dataclass
class Plan:
    parts: list[str]


def agent(function: Any, **options: Any) -> Any:
    """The function as an agent with these options."""
    return outlast.App().agent(**options)(function)


@pytest.mark.parametrize("n", range(1, 9))
def test_an_agent_killed_after_any_event_runs_each_recorded_step_once(n: int) -> None:
    """case R24"""
    ran_steps: list[str] = []

    def work(name: str) -> str:
        ran_steps.append(name)
        return name.upper()

    async def two_steps(ctx: outlast.Context) -> list[str]:
        return [await ctx.step("one", work, "a"), await ctx.step("two", work, "b")]

    ran = run(two_steps, crash_after=n)

    assert ran.result == ["A", "B"]
    assert [body["key"] for body in ran.bodies("step.done")] == ["one", "two"]
    # What was on the log when the worker died is not run again; what was not, may be.
    assert ran_steps.count("a") == (1 if n >= 3 else ran_steps.count("a"))
    assert len(ran_steps) <= 3


def test_the_agent_sees_the_decoded_value_in_both_lives() -> None:
    seen: list[Any] = []

    def make_plan() -> Plan:
        return Plan(["x"])

    async def planner(ctx: outlast.Context) -> int:
        seen.append(await ctx.step("plan", make_plan))
        await ctx.step("next", str, "x")
        return len(seen)

    assert run(planner, crash_after=4).result == 2
    assert seen == [Plan(["x"]), Plan(["x"])]


def test_replay_is_told_before_the_first_new_act_of_each_later_life() -> None:
    async def counts(ctx: outlast.Context) -> int:
        return sum([await ctx.step("add", int, i) for i in range(3)])

    ran = run(counts, crash_after=4)

    grants = [i for i, kind in enumerate(ran.kinds) if kind == "lease.granted"]
    assert len(grants) == 2
    assert ran.kinds[grants[1] + 1] == "replay.finished"
    assert "replay.finished" not in ran.kinds[: grants[1]]
    [told] = ran.bodies("replay.finished")
    assert (told["answered"], told["unused"]) == (2, [])


def test_a_step_is_tried_again_under_its_own_policy_and_then_its_error_is_raised() -> None:
    tries: list[int] = []

    def flaky() -> None:
        tries.append(1)
        raise ConnectionError("no route")

    async def stubborn(ctx: outlast.Context) -> str:
        try:
            await ctx.step("call", flaky, retries=2, backoff="1m")
        except ConnectionError as error:
            return f"gave up: {error}"
        return "?"

    ran = run(stubborn)

    assert (ran.result, len(tries)) == ("gave up: no route", 3)
    assert [b["final"] for b in ran.bodies("step.failed")] == [False, False, True]


def test_an_error_that_the_agent_caught_is_raised_again_on_replay() -> None:
    tries: list[int] = []

    def fails() -> None:
        tries.append(1)
        raise ValueError("bad answer")

    async def careful(ctx: outlast.Context) -> str:
        try:
            await ctx.step("ask", fails)
        except ValueError as error:
            said = str(error)
        await ctx.step("after", str, "x")
        return said

    ran = run(careful, crash_after=4)

    assert (ran.result, len(tries)) == ("bad answer", 1)


def test_an_error_that_ended_the_attempt_is_tried_anew_by_the_next() -> None:
    tries: list[int] = []

    def second_time_lucky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError("busy")
        return "ok"

    async def hopeful(ctx: outlast.Context) -> str:
        return await ctx.step("call", second_time_lucky)

    ran = run(agent(hopeful, retries=1))

    assert ran.result == "ok"
    assert ran.task.failures == 1
    assert [b["reason"] for b in ran.bodies("lease.released")] == ["retry"]


def test_an_agent_out_of_retries_fails_with_its_error() -> None:
    async def hopeless(ctx: outlast.Context) -> None:
        raise KeyError("no such thing")

    ran = run(agent(hopeless, retries=2))

    assert (ran.task.state, ran.task.reason, ran.task.failures) == ("failed", "error", 3)
    assert "no such thing" in (ran.task.error or "")


def test_a_step_that_takes_too_long_raises_timeout_error(outlast_harness: Any) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    app = outlast.App()

    @app.agent
    async def hurried(ctx: outlast.Context) -> str:
        try:
            await ctx.step("wait", forever, timeout="10s")
        except TimeoutError:
            return "too late"
        return "?"

    harness: Harness = outlast_harness(app)
    harness.worker()
    task = harness.submit("hurried")
    harness.move("9s")
    assert harness.ran(task).task.state == "running"
    harness.move("2s")
    assert harness.ran(task).result == "too late"


def test_an_attempt_that_takes_too_long_is_failed_as_timed_out(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent(timeout="1m")
    async def endless(ctx: outlast.Context) -> None:
        await asyncio.Event().wait()

    harness: Harness = outlast_harness(app)
    harness.worker()
    task = harness.submit("endless")
    harness.move("61s")
    ended = harness.ran(task).task
    assert (ended.state, ended.reason) == ("failed", "timed_out")


def test_an_attempt_that_records_nothing_is_ended_only_where_the_user_said_so(
    outlast_harness: Any,
) -> None:
    """case R9"""
    app = outlast.App()

    @app.agent
    async def patient(ctx: outlast.Context) -> None:
        await asyncio.Event().wait()

    @app.agent(stall_timeout="5m")
    async def impatient(ctx: outlast.Context) -> None:
        await asyncio.Event().wait()

    harness: Harness = outlast_harness(app)
    harness.worker()
    silent, stalled = harness.submit("patient"), harness.submit("impatient")
    harness.move("6m")
    assert harness.ran(silent).task.state == "running"
    assert harness.ran(stalled).task.reason == "timed_out"


def test_keywords_of_a_step_go_through_partial_and_count_as_arguments() -> None:
    def price(item: str, *, vat: int) -> str:
        return f"{item}+{vat}"

    async def shop(ctx: outlast.Context) -> list[str]:
        return [
            await ctx.step("price", functools.partial(price, vat=7), "book"),
            await ctx.step("price", functools.partial(price, vat=19), "lamp"),
        ]

    ran = run(shop, crash_after=4)

    assert ran.result == ["book+7", "lamp+19"]
    assert [b["key"] for b in ran.bodies("step.done")] == ["price", "price#2"]
    assert len({b["args"] for b in ran.bodies("step.done")}) == 2


def test_branches_of_a_gather_have_keys_of_their_own_whatever_their_order() -> None:
    lives: list[int] = []

    async def branch(ctx: outlast.Context, name: str, turns: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return str(await ctx.step("work", str.upper, name))

    async def forked(ctx: outlast.Context) -> list[str]:
        lives.append(1)
        slow_first = [3, 0] if len(lives) == 1 else [0, 3]
        return await ctx.gather(
            branch(ctx, "a", slow_first[0]), lambda: branch(ctx, "b", slow_first[1])
        )

    ran = run(forked, crash_after=3)

    assert ran.result == ["A", "B"]
    keys = {body["key"] for body in ran.bodies("step.done")}
    assert keys == {"gather[0]›work", "gather[1]›work"}


def test_an_error_in_one_branch_cancels_the_others_and_is_raised() -> None:
    async def fails(ctx: outlast.Context) -> None:
        raise LookupError("branch")

    async def forked(ctx: outlast.Context) -> str:
        try:
            await ctx.gather(fails(ctx), asyncio.Event().wait())
        except LookupError as error:
            return str(error)
        return "?"

    assert run(forked).result == "branch"


def test_a_step_that_wants_to_end_the_process_ends_its_task(outlast_harness: Any) -> None:
    """In a plain agent too, whose calls are tasks of the event loop: no other attempt notices."""

    def quits() -> None:
        raise SystemExit(7)

    app = outlast.App()

    @app.agent
    def plain(ctx: outlast.PlainContext) -> None:
        ctx.step("quit", quits)

    @app.agent
    async def other(ctx: outlast.Context) -> str:
        return str(await ctx.step("think", str, "thought"))

    harness = outlast_harness(app)
    ends = harness.submit("plain")
    lives = harness.submit("other")
    harness.worker()
    harness.settle()

    failed = harness.ran(ends).task
    assert (failed.state, "SystemExit" in (failed.error or "")) == ("failed", True)
    assert harness.ran(lives).result == "thought"


def test_a_recorded_result_that_the_code_cannot_read_is_for_a_person(outlast_harness: Any) -> None:
    """The task is not failed for it: code that fits the record goes on with it."""
    app = outlast.App()
    kinds: list[Any] = [str, int, str]

    @app.agent
    async def retyped(ctx: outlast.Context) -> str:
        kind = kinds.pop(0)

        def think() -> Any:
            return "a thought"

        think.__annotations__["return"] = kind
        thought = await ctx.step("think", think)
        await ctx.wait("go")
        return f"{thought} by {len(kinds)}"

    harness = outlast_harness(app)
    task = harness.submit("retyped")
    harness.worker()
    harness.settle()
    harness.signal(task, "go")
    harness.settle()
    ran = harness.ran(task)
    assert (ran.task.state, ran.task.reason) == ("review", "replay_mismatch")
    assert "cannot be read as int" in (ran.task.error or "")

    harness.store.retry(task, Order("ann", "the annotation is mended"))
    assert harness.run(task).result == "a thought by 0"


def test_a_step_whose_name_is_on_record_as_something_else_is_for_a_person() -> None:
    lives: list[int] = []

    async def turned(ctx: outlast.Context) -> None:
        lives.append(1)
        act = ctx.effect if len(lives) == 1 else ctx.step
        await act("pay", str, "x")
        await ctx.step("after", str, "y")

    ran = run(turned, crash_after=5)

    assert (ran.task.state, ran.task.reason) == ("review", "replay_mismatch")
    assert "on record as an effect, not as a step" in (ran.task.error or "")


@pytest.mark.parametrize(("name", "says"), [("", "is empty"), (" ", "is empty"), (5, "not int")])
def test_a_name_that_is_none_is_refused_by_its_name(name: Any, says: str) -> None:
    async def step(ctx: outlast.Context) -> None:
        await ctx.step(name, str)

    async def effect(ctx: outlast.Context) -> None:
        await ctx.effect(name, str)

    async def keyed(ctx: outlast.Context) -> None:
        await ctx.effect("pay", str, key=name)

    for agent, what in (
        (step, "a step's name"),
        (effect, "an effect's name"),
        (keyed, "an idempotency key"),
    ):
        ran = run(agent)
        assert ran.task.state == "failed"
        assert what in (ran.task.error or "")
        assert says in (ran.task.error or "")
        assert "effect.intended" not in ran.kinds


def test_a_plain_agent_has_the_same_names_blocking() -> None:
    def plain(ctx: outlast.PlainContext, name: str) -> str:
        first = ctx.step("first", str.upper, name)
        second, third = ctx.gather(
            lambda: ctx.step("same", str.lower, "B"), lambda: ctx.step("same", str.lower, "C")
        )
        ctx.sleep("2d")
        ctx.note("slept")
        return f"{first}{second}{third} {ctx.epoch}"

    ran = run(plain, {"name": "a"}, crash_after=3)

    assert ran.result == "Abc 3"
    assert "wait.started" in ran.kinds


def test_current_is_the_context_inside_an_attempt_and_none_outside() -> None:
    seen: list[Any] = []

    def tool() -> None:
        found = outlast.current()
        seen.append(found and found.task_id)

    async def knows(ctx: outlast.Context) -> bool:
        await ctx.step("tool", tool)
        return outlast.current() is ctx

    ran = run(knows)
    assert ran.result is True
    assert seen == [ran.task.id]
    assert outlast.current() is None


def test_corrupt_input_fails_its_task_and_the_worker_goes_on(outlast_harness: Any) -> None:
    """case R29"""
    app = outlast.App()

    @app.agent
    async def typed(ctx: outlast.Context, n: int) -> int:
        return n

    harness: Harness = outlast_harness(app)
    from outlast.store.verbs import NewTask

    bad = {"text": '{"n": "seven"}', "missing": "{}", "extra": '{"n": 1, "m": 2}'}
    ids = {}
    for why, text in bad.items():
        ids[why] = harness.env.new_id()
        harness.store.submit([NewTask(id=ids[why], agent="typed", input=text)])
    good = harness.submit("typed", {"n": 4})
    harness.worker()
    harness.settle()

    for why in bad:
        ran = harness.ran(ids[why])
        assert (ran.task.state, ran.task.reason) == ("failed", "bad_input")
        assert ran.kinds[-2:] == ["attempt.failed", "task.failed"]
    assert harness.ran(good).result == 4


def test_a_repeat_that_fits_no_record_is_handed_to_a_person() -> None:
    lives: list[int] = []

    async def changed(ctx: outlast.Context) -> None:
        lives.append(1)
        await ctx.step("ask", str, "a")
        await ctx.step("ask", str, "b" if len(lives) == 1 else "other")

    ran = run(changed, crash_after=4)

    assert (ran.task.state, ran.task.reason) == ("review", "replay_mismatch")
    assert len(ran.bodies("step.done")) == 2


def test_an_agent_that_exits_the_process_only_fails_itself(outlast_harness: Any) -> None:
    app = outlast.App()

    @app.agent
    async def leaves(ctx: outlast.Context) -> None:
        raise SystemExit(3)

    @app.agent
    async def stays(ctx: outlast.Context) -> str:
        return "here"

    harness: Harness = outlast_harness(app)
    bad, good = harness.submit("leaves"), harness.submit("stays")
    harness.worker()
    harness.settle()
    assert harness.ran(bad).task.state == "failed"
    assert harness.ran(good).result == "here"
