"""Effects: begun on the log first, never repeated where it is known that they happened."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import outlast
from outlast.store.verbs import Order
from outlast.testing import HandWorker, Harness, Ran, run
from tests.store.databases import Stores

from .conftest import World


def sender(world: World, **options: Any) -> Any:
    """An agent with one effect before and one after a step."""

    async def send(ctx: outlast.Context) -> list[str]:
        first = await ctx.effect("mail", world.act, "mail", **options)
        await ctx.step("think", str, "x")
        return [first, await ctx.effect("post", world.act, "post", **options)]

    return send


@pytest.mark.parametrize("n", range(1, 11))
def test_a_tool_that_honours_the_key_acts_once_whenever_the_worker_dies(
    world: World, n: int
) -> None:
    """case R46, first policy"""
    ran = run(sender(world, on_unknown="retry"), crash_after=n)

    assert ran.result == ["mail done", "post done"]
    assert all(len(set(keys)) == 1 for keys in world.keys.values())
    assert all(calls <= 2 for calls in world.acts.values())
    assert all(effect.state == "applied" for effect in ran.effects)


@pytest.mark.parametrize("n", range(1, 11))
def test_a_tool_that_can_be_probed_acts_exactly_once_whenever_the_worker_dies(
    world: World, n: int
) -> None:
    """case R46, second policy"""
    ran = run(sender(world, on_unknown=world.find), crash_after=n)

    assert ran.result == ["mail done", "post done"]
    assert set(world.acts.values()) == {1}


@pytest.mark.parametrize("n", range(1, 11))
def test_a_tool_that_can_do_neither_is_never_called_blindly(world: World, n: int) -> None:
    """case R46, third policy"""
    ran = run(sender(world), crash_after=n)

    assert all(calls == 1 for calls in world.acts.values())
    if ran.task.state == "review":
        assert ran.task.reason == "effect_unknown"
        assert "effect.unknown" in ran.kinds
    else:
        assert ran.result == ["mail done", "post done"]


def test_the_intent_is_on_the_log_before_the_tool_is_called(
    outlast_harness: Any, stores: Stores
) -> None:
    app = outlast.App()
    seen: list[str] = []

    @app.agent
    async def looks(ctx: outlast.Context) -> None:
        async def tool() -> None:
            seen.extend(row["kind"] for row in stores.rows("select kind from events order by seq"))

        await ctx.effect("act", tool)

    harness: Harness = outlast_harness(app)
    harness.run(harness.submit("looks"))
    assert seen == ["task.submitted", "lease.granted", "effect.intended"]


def test_the_key_is_given_to_the_tool_and_is_in_the_context_while_it_runs() -> None:
    seen: list[Any] = []

    async def agent(ctx: outlast.Context) -> None:
        def tool(x: int, idempotency_key: str) -> None:
            seen.extend([x, idempotency_key, ctx.key])

        await ctx.effect("act", tool, 1)
        await ctx.effect("act", tool, 2)
        seen.append(ctx.key)

    ran = run(agent)

    first, second = f"{ran.task.id}/act", f"{ran.task.id}/act#2"
    assert seen == [1, first, first, 2, second, second, None]


def test_an_exception_of_a_tool_is_no_outcome(world: World) -> None:
    """case R47, case R80"""

    def commits_and_drops(idempotency_key: str) -> str:
        world.act("charge", idempotency_key)
        raise ConnectionError("reset by peer")

    async def agent(ctx: outlast.Context) -> str:
        return str(await ctx.effect("charge", commits_and_drops))

    ran = run(agent)

    assert (ran.task.state, ran.task.reason) == ("review", "effect_unknown")
    assert [effect.state for effect in ran.effects] == ["unknown"]
    assert world.acts["charge"] == 1


def test_a_dropped_connection_is_resolved_by_the_probe_without_another_call(world: World) -> None:
    """case R47"""

    def commits_and_drops(idempotency_key: str) -> str:
        world.act("charge", idempotency_key)
        raise ConnectionError("reset by peer")

    async def agent(ctx: outlast.Context) -> str:
        return str(await ctx.effect("charge", commits_and_drops, on_unknown=world.find))

    ran = run(agent)

    assert (ran.result, world.acts["charge"]) == ("charge done", 1)
    assert ran.bodies("effect.applied")[0]["adopted"] is True


def test_a_probe_that_finds_nothing_lets_the_tool_be_called_again(world: World) -> None:
    tries: list[int] = []

    def unreachable_once(idempotency_key: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("refused")
        return world.act("charge", idempotency_key)

    async def agent(ctx: outlast.Context) -> str:
        return str(await ctx.effect("charge", unreachable_once, on_unknown=world.find))

    ran = run(agent)

    assert (ran.result, len(tries)) == ("charge done", 2)
    assert [b["try"] for b in ran.bodies("effect.intended")] == [1, 2]


def test_a_probe_that_fails_leaves_the_doubt_to_a_person(world: World) -> None:
    def drops() -> None:
        raise ConnectionError("reset")

    def blind(key: str) -> None:
        raise ConnectionError("search is down")

    async def agent(ctx: outlast.Context) -> None:
        await ctx.effect("act", drops, on_unknown=blind)

    assert run(agent).task.reason == "effect_unknown"


def test_not_done_is_a_failure_and_tried_again_with_the_same_key(world: World) -> None:
    """case R51, case R80"""
    keys: list[str] = []

    def rejects_twice(idempotency_key: str) -> str:
        keys.append(idempotency_key)
        if len(keys) < 3:
            raise outlast.NotDone("rate limited")
        return "ok"

    async def agent(ctx: outlast.Context) -> str:
        return str(await ctx.effect("act", rejects_twice, retries=2))

    ran = run(agent)

    assert (ran.result, len(keys), len(set(keys))) == ("ok", 3, 1)
    assert [b["final"] for b in ran.bodies("effect.failed")] == [False, False]


def test_errors_listed_as_not_done_fail_and_are_raised_again_on_replay(world: World) -> None:
    calls: list[int] = []

    def rejects() -> None:
        calls.append(1)
        raise PermissionError("no such repository")

    async def agent(ctx: outlast.Context) -> str:
        try:
            await ctx.effect("act", rejects, not_done=(PermissionError,))
        except PermissionError as error:
            said = str(error)
        await ctx.step("after", str, 1)
        return said

    ran = run(agent, crash_after=5)

    assert (ran.result, len(calls)) == ("no such repository", 1)


def test_a_probe_that_wants_to_end_the_process_leaves_the_doubt_to_a_person() -> None:
    def drops() -> None:
        raise ConnectionError

    def quits(key: str) -> None:
        raise SystemExit(1)

    async def agent(ctx: outlast.Context) -> None:
        await ctx.effect("act", drops, on_unknown=quits)

    assert run(agent).task.reason == "effect_unknown"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_wants_to_end_the_process_is_in_doubt_like_one_that_raises(
    is_async: bool,
) -> None:
    def quits() -> None:
        raise SystemExit(1)

    async def quits_async() -> None:
        raise SystemExit(1)

    async def agent(ctx: outlast.Context) -> None:
        await ctx.effect("act", quits_async if is_async else quits)

    ran = run(agent)

    assert (ran.task.state, ran.task.reason) == ("review", "effect_unknown")
    assert ran.kinds[-2:] == ["effect.unknown", "lease.released"]


@pytest.mark.parametrize("bad", [threading.Lock(), "x" * (50 << 20), float("nan"), "\ud800"])
def test_an_effect_whose_result_cannot_be_stored_is_applied_and_never_repeated(bad: Any) -> None:
    """case R48, case R62"""
    calls: list[int] = []

    def tool() -> Any:
        calls.append(1)
        return bad

    async def agent(ctx: outlast.Context) -> str:
        try:
            await ctx.effect("act", tool)
        except (outlast.NotSerializable, outlast.PayloadTooLarge) as error:
            said = type(error).__name__
        await ctx.step("after", str, 1)
        return said

    ran = run(agent, crash_after=5)

    assert len(calls) == 1
    assert ran.result.startswith(("NotSerializable", "PayloadTooLarge"))
    assert [effect.state for effect in ran.effects] == ["applied"]


def test_other_arguments_under_the_same_key_are_a_conflict_and_nothing_is_done(
    world: World,
) -> None:
    """case R49"""
    lives: list[int] = []

    def mail(text: str, idempotency_key: str) -> str:
        return world.act("mail", idempotency_key)

    async def agent(ctx: outlast.Context) -> None:
        lives.append(1)
        await ctx.effect("mail", mail, "Dear Ann" if len(lives) == 1 else "Hello Ann")
        await ctx.step("after", str, 1)

    ran = run(agent, crash_after=5)

    assert (ran.task.state, ran.task.reason) == ("review", "effect_conflict")
    assert world.acts["mail"] == 1


def test_ten_parallel_effects_cut_off_are_each_resolved_by_their_own_state(world: World) -> None:
    """case R53"""

    async def many(ctx: outlast.Context) -> list[str]:
        def one(i: int) -> Any:
            return ctx.effect("act", world.act, str(i), on_unknown=world.find)

        return await ctx.gather(*(one(i) for i in range(10)))

    for n in (4, 8, 12, 16, 20):
        world.acts.clear()
        world.keys.clear()
        ran = run(many, crash_after=n)
        assert ran.result == [f"{i} done" for i in range(10)]
        assert sorted(world.acts.values()) == [1] * 10


def reviewed(harness: Harness, task: str) -> Ran:
    ran = harness.run(task)
    assert ran.task.state == "review"
    return ran


def doubtful_app(world: World) -> outlast.App:
    app = outlast.App()

    @app.agent
    async def charge(ctx: outlast.Context) -> str:
        def tool(idempotency_key: str) -> str:
            world.act("charge", idempotency_key)
            if world.acts["charge"] == 1:
                raise ConnectionError("reset")
            return "charged"

        return str(await ctx.effect("charge", tool))

    return app


def test_a_person_settles_a_doubt_with_a_receipt_and_the_agent_gets_it(
    outlast_harness: Any, world: World
) -> None:
    harness: Harness = outlast_harness(doubtful_app(world))
    ran = reviewed(harness, harness.submit("charge"))
    harness.store.settle(ran.effects[0].key, Order("ann", "saw it"), applied=True, receipt="r-1")
    assert harness.run(ran.task.id).result == "r-1"
    assert world.acts["charge"] == 1


def test_a_person_who_says_not_applied_orders_a_new_try_with_the_same_key(
    outlast_harness: Any, world: World
) -> None:
    harness: Harness = outlast_harness(doubtful_app(world))
    ran = reviewed(harness, harness.submit("charge"))
    harness.store.settle(ran.effects[0].key, Order("ann", "not there"), applied=False)
    assert harness.run(ran.task.id).result == "charged"
    assert len(set(world.keys["charge"])) == 1


def test_a_task_that_fails_with_an_open_intent_says_unknown_first_and_can_be_settled(
    outlast_harness: Any,
) -> None:
    """case R79"""
    app = outlast.App()

    @app.agent
    async def careless(ctx: outlast.Context) -> None:
        def drops() -> None:
            raise ConnectionError("reset")

        await ctx.effect("act", drops, on_unknown="retry", retries=0)

    harness: Harness = outlast_harness(app)
    ran = harness.run(harness.submit("careless"))
    assert ran.kinds[-3:] == ["attempt.failed", "effect.unknown", "task.failed"]
    settled = harness.store.settle(ran.effects[0].key, Order("ann", "seen"), applied=True)
    assert settled.state == "applied"


def acting_app(log: list[str]) -> outlast.App:
    app = outlast.App()

    @app.agent
    async def acts(ctx: outlast.Context) -> None:
        async def tool() -> None:
            log.append("acted")

        await ctx.effect("act", tool)

    return app


def turn_without_watch(worker: HandWorker) -> None:
    """What can happen between an answer of the writer and the next look of the watch."""
    worker.worker.lookout.tick()
    for _ in range(20):
        worker.worker.writer.tick()
        worker.worker.loop.run_until_complete(asyncio.sleep(0))


def test_trust_that_ran_out_while_the_intent_was_written_keeps_the_tool_from_being_called(
    outlast_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case R4"""
    acted: list[str] = []
    harness: Harness = outlast_harness(acting_app(acted))
    worker = harness.worker()
    worker.turn()
    store: Any = worker.worker.writer._store
    append = store.append

    def slow_answer(offers: Any) -> Any:
        answer = append(offers)
        if offers[0].last.kind == "effect.intended":
            monkeypatch.setattr(store, "append", append)
            harness.clock.move(26_000)
        return answer

    monkeypatch.setattr(store, "append", slow_answer)
    task = harness.submit("acts")
    turn_without_watch(worker)
    assert acted == []
    ran = harness.run(task)
    # The first life did not call it, and says so; the second may, since nothing is in doubt.
    assert ran.kinds[2:5] == ["effect.intended", "effect.failed", "lease.released"]
    assert ran.bodies("lease.released")[0]["reason"] == "trust"
    assert (acted, ran.task.state, ran.task.epoch) == (["acted"], "succeeded", 2)


def test_a_cancel_that_came_while_the_intent_was_written_keeps_the_tool_from_being_called(
    outlast_harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outlast.worker.stop import Cause, Stop

    acted: list[str] = []
    harness: Harness = outlast_harness(acting_app(acted))
    worker = harness.worker()
    worker.turn()
    store: Any = worker.worker.writer._store
    append = store.append

    def heard_meanwhile(offers: Any) -> Any:
        answer = append(offers)
        if offers[0].last.kind == "effect.intended":
            [holding] = worker.worker.holdings.all()
            deliver, holding.deliver = holding.deliver, lambda: None  # it comes a moment later
            holding.order(Stop(Cause.CANCEL, "no more", "ann", harness.clock.now_ms))
            holding.deliver = deliver
        return answer

    monkeypatch.setattr(store, "append", heard_meanwhile)
    task = harness.submit("acts")
    harness.settle()
    ran = harness.ran(task)
    assert (acted, ran.task.state) == ([], "cancelled")
    assert [effect.state for effect in ran.effects] == ["failed"]  # known not to have been called


def test_a_probe_waits_until_the_old_owner_is_surely_gone(
    outlast_harness: Any, world: World
) -> None:
    app, probed = outlast.App(), list[int]()

    def probe(key: str) -> str | None:
        probed.append(harness.clock.now_ms)
        return world.find(key)

    @app.agent(kill_after="20s")
    async def pays(ctx: outlast.Context) -> str:
        return str(await ctx.effect("pay", world.act, "pay", on_unknown=probe))

    harness: Harness = outlast_harness(app)
    task = harness.submit("pays")
    harness.worker(crash_after=3)
    ran = harness.run(task)
    [expired] = [event for event in ran.events if event.kind == "lease.expired"]
    assert ran.result == "pay done"
    assert probed[0] >= expired.at_ms + 20_000


def test_what_a_zombie_knows_settles_the_doubt_of_its_heir(outlast_harness: Any) -> None:
    """case R13"""
    app, calls = outlast.App(), list[int]()
    gate = threading.Event()

    @app.agent
    async def slow(ctx: outlast.Context) -> str:
        def tool() -> str:
            calls.append(1)
            gate.wait(10)
            return "receipt"

        return str(await ctx.effect("act", tool))

    harness: Harness = outlast_harness(app)
    task = harness.submit("slow")
    zombie = harness.worker()
    for _ in range(50):
        zombie.turn()
        if calls:
            break
    harness.jump("2m")  # frozen: the other worker declares it dead
    heir = harness.worker()
    for _ in range(3):
        heir.turn()
        harness.jump("31s")
    for _ in range(50):
        heir.turn()
    assert harness.store.get(task).state == "review"
    gate.set()
    for _ in range(200):
        zombie.turn()
    harness.move("11s")  # reviews are looked at every ten seconds
    ran = harness.run(task)
    assert (ran.result, calls) == ("receipt", [1])
    assert [o.kind for o in harness.store.observations(task)] != []
