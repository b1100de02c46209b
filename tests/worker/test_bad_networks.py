"""Requests and answers that are lost, at any place: nothing is done twice, nothing is lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import outlast
from outlast.core.chain import Quote, entry, verify
from outlast.core.errors import Unavailable
from outlast.core.model import Offer, Turned
from outlast.testing import Harness
from outlast.worker.store_clock import StoreClock
from outlast.worker.writer import Pen, Writer, draft

from .conftest import World

VERBS = ("append", "begin", "claim", "renew", "look", "reap", "read", "signals", "last", "retire")


class BadLine:
    """A store of which requests or answers get lost, before or after they are carried out."""

    def __init__(self, store: Any, chance: Random, share: float) -> None:
        self._store, self._chance, self._share = store, chance, share

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._lossy(found) if name in VERBS else found

    def _lossy(self, verb: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            luck = self._chance.random()
            if luck < self._share / 2:
                raise Unavailable("the line", "the request was lost")
            answer = verb(*args, **options)
            if luck < self._share:
                raise Unavailable("the line", "the answer was lost")
            return answer

        return call


@pytest.mark.parametrize("seed", range(12))
def test_agents_come_to_the_same_end_over_a_line_that_loses_a_third(
    seed: int, outlast_harness: Any, world: World
) -> None:
    """case R11, case R69, case R73"""
    app = outlast.App()

    @app.agent
    async def busy(ctx: outlast.Context, name: str) -> list[Any]:
        async def branch(i: int) -> Any:
            await ctx.step("think", str, i)
            return await ctx.effect("act", world.act, f"{name}{i}", on_unknown=world.find)

        done = await ctx.gather(branch(0), branch(1))
        shared = await ctx.effect("pay", world.act, "pay", key="invoice", on_unknown=world.find)
        await ctx.sleep("1h")
        return [*done, shared, await ctx.wait("go")]

    harness: Harness = outlast_harness(app)
    chance = Random(seed)
    harness.through = lambda store: BadLine(store, chance, 0.33)  # type: ignore
    tasks = [harness.submit("busy", {"name": name}) for name in "ab"]
    for task in tasks:
        harness.signal(task, "go", "now")
    harness.worker()
    for name, task in zip("ab", tasks, strict=True):
        ran = harness.run(task)
        assert ran.result == [f"{name}0 done", f"{name}1 done", "pay done", "now"]
        assert verify(ran.events) == len(ran.events)
    assert set(world.acts.values()) == {1}


# -- the writer alone -----------------------------------------------------------------------------


class Owned:
    """A task with an owner, its pen, and a writer on a store that a test may break."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.worker = harness.worker()
        self.task = harness.submit("idle")
        self.worker.worker.lookout.tick()
        [holding] = self.worker.worker.holdings.all()
        self.pen = Pen(holding.grant, self.worker.worker.id)
        self.store: Any = harness.store
        self.writer = Writer(lambda: self.store, StoreClock(harness.clock))

    def kinds(self) -> list[str]:
        return self.harness.ran(self.task).kinds[2:]


@pytest.fixture
def owned(outlast_harness: Any) -> Owned:
    app = outlast.App()

    @app.agent
    async def idle(ctx: outlast.Context) -> None:
        return None

    return Owned(outlast_harness(app))


def note(text: str) -> Any:
    return draft("note", {"text": text, "data": None})


def test_everything_that_waits_for_one_task_is_committed_together(owned: Owned) -> None:
    answers = [owned.writer.append(owned.pen, note(str(i))) for i in range(5)]
    owned.writer.tick()
    assert {answer.result(0).seq for answer in answers} == {7}
    assert owned.kinds() == ["note"] * 5


def test_an_offer_without_an_answer_is_sent_again_byte_for_byte(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[Offer]] = []
    append = owned.store.append

    def loses_answers(offers: list[Offer]) -> Any:
        sent.append(offers)
        answer = append(offers)
        if len(sent) < 4:
            owned.harness.clock.move(1_000)
            raise Unavailable("the line", "the answer was lost")
        return answer

    monkeypatch.setattr(owned.store, "append", loses_answers)
    first = owned.writer.append(owned.pen, note("first"))
    owned.writer.tick()
    second = owned.writer.append(owned.pen, note("second"))
    for _ in range(6):
        owned.writer.tick()
    assert [offers[0] for offers in sent[:4]] == [sent[0][0]] * 4
    assert (first.result(0).seq, second.result(0).seq) == (3, 4)
    assert owned.kinds() == ["note", "note"]


def test_an_entry_that_raises_fails_alone(owned: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    """case R81"""
    append = owned.store.append

    def chokes(offers: list[Offer]) -> Any:
        if any("poison" in entry.event.body for offer in offers for entry in offer.entries):
            raise ValueError("cannot be stored")
        return append(offers)

    monkeypatch.setattr(owned.store, "append", chokes)
    answers = [owned.writer.append(owned.pen, note(text)) for text in ("a", "poison", "b")]
    for _ in range(6):
        owned.writer.tick()
    assert answers[0].result(0).seq == 3
    assert isinstance(answers[1].exception(), ValueError)
    assert answers[2].result(0).seq == 4
    assert owned.kinds() == ["note", "note"]


def test_after_its_release_a_pen_writes_nothing(owned: Owned) -> None:
    """case R71"""
    released = draft("lease.released", {"reason": "drain"}, lets_go=True)
    owned.writer.append(owned.pen, released)
    late = owned.writer.append(owned.pen, note("late"))
    for _ in range(3):
        owned.writer.tick()
    answer = late.result(0)
    assert isinstance(answer, Turned)
    assert answer.why == "lost"
    assert owned.kinds() == ["lease.released"]
    assert owned.harness.store.observations(owned.task) == []  # it was not even sent


def test_a_lost_pen_stays_lost_and_its_refused_write_is_on_record(owned: Owned) -> None:
    """case R13"""
    owned.harness.jump("2m")
    owned.harness.store.reap(since_ms=owned.harness.clock.now_ms)
    answers = [owned.writer.append(owned.pen, note("zombie")) for _ in range(2)]
    owned.writer.tick()
    late = owned.writer.append(owned.pen, note("again"))
    owned.writer.tick()
    assert {answer.result(0).why for answer in [*answers, late]} == {"lost"}
    assert owned.kinds() == ["lease.expired"]
    [seen] = owned.harness.store.observations(owned.task)
    assert (seen.kind, seen.count) == ("refused", 2)


def test_a_body_says_whether_the_lease_had_a_result(owned: Owned) -> None:
    done = draft("step.done", {"key": "a", "args": "", "result": 1, "try": 1})
    owned.writer.append(owned.pen, done)
    owned.writer.append(owned.pen, draft("lease.released", {"reason": "drain"}, lets_go=True))
    for _ in range(3):
        owned.writer.tick()
    [body] = owned.harness.ran(owned.task).bodies("lease.released")
    assert body["progressed"] is True


def test_a_pen_quotes_its_grant_and_then_only_itself(owned: Owned) -> None:
    offer = owned.pen.offer([note("x"), note("y")], 5)
    grant = owned.harness.ran(owned.task).events[1]
    first, second = offer.entries
    wanted = entry(
        Quote.of(grant), 1, holder=1, kind="note", body=note("x").text, at_ms=grant.at_ms
    )
    assert first == wanted
    assert second.quoted == first.event.digest
