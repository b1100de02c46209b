"""Any order of verbs, lost answers and late zombies, against a simple model of the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from outlast.core.clock import uuid7
from outlast.core.errors import NotAllowedNow
from outlast.core.model import Answer, Offer, Written
from outlast.store.verbs import Claim, EffectQuery, Store
from tests.store import truth
from tests.store.databases import Stores
from tests.store.model import FINAL, Life, Model
from tests.store.world import OPERATOR, TTL, Owner, ask, new_task, reap, signal

SHARED = "invoice-17"
TASKS = 4
WORKERS = st.sampled_from(["a", "b", "c"])
PICK = st.integers(0, 1_000)
WORK = ["step", "note", "intend", "applied", "failed"]
ENDS = [
    *("wait", "sleep", "review", "retry", "succeed", "fail", "stop"),
    *("drain", "deadline", "trust", "unstarted"),
]
FATES = st.sampled_from(["heard"] * 4 + ["answer lost", "request lost"])
MOMENTS = st.sampled_from([1, 900, TTL // 2, TTL + 1, 3 * TTL, 400_000])


class Machine(RuleBasedStateMachine):
    """Rules are verbs; owners that lost their leases stay around and go on trying."""

    stores: Stores
    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.stores.empty()
        self.model = Model(self.stores.clock.now_ms)
        self.chance = Random(1)
        self.owners: list[Owner] = []
        self.pending: dict[int, tuple[Offer, bool]] = {}
        self.answered: list[tuple[Offer, Answer]] = []
        self.claims: list[Claim] = []

    @property
    def living(self) -> list[int]:
        """The owners that hold their task, by number."""
        return [n for n, each in enumerate(self.owners) if self.holds(each)]

    @property
    def zombies(self) -> list[int]:
        """Those that have lost it, or let it go."""
        return [n for n, each in enumerate(self.owners) if not self.holds(each)]

    def holds(self, owner: Owner) -> bool:
        return self.model.tasks[owner.task_id].owner is owner

    @initialize(tasks=st.integers(1, 3))
    def some_are_running(self, tasks: int) -> None:
        for _ in range(tasks):
            self.submit(delay_ms=0)
        self.claim(worker="a", room=tasks, held=0, lost=False)

    # -- time and tasks ---------------------------------------------------------------------------

    @rule(by_ms=MOMENTS)
    def time_passes(self, by_ms: int) -> None:
        self.stores.move(by_ms)
        self.model.now_ms += by_ms

    @precondition(lambda self: len(self.model.tasks) < TASKS)
    @rule(delay_ms=st.sampled_from([0, 0, 0, 5_000]))
    def submit(self, delay_ms: int) -> None:
        task_id = uuid7(self.model.now_ms, self.chance.getrandbits(74))
        wanted = new_task(self.store, id=task_id, delay_ms=delay_ms)
        for created in (True, False):
            [answer] = self.store.submit([wanted])
            assert answer.created is created
        self.model.tasks[wanted.id] = Life(wanted.id, self.model.now_ms + delay_ms)

    # -- leases -----------------------------------------------------------------------------------

    @precondition(lambda self: self.model.claimable(9, held=0))
    @rule(worker=WORKERS, room=st.integers(1, 3), held=st.integers(0, 1), lost=st.booleans())
    def claim(self, worker: str, room: int, held: int, lost: bool) -> None:
        claim = ask(self.store, worker, room=room, held=held)
        expected = self.model.claimable(room, held)
        given = self.store.claim(claim)
        if lost and given:
            again = self.store.claim(claim)
            assert {each.event for each in again} == {each.event for each in given}
        assert sorted(each.task.id for each in given) == sorted(expected)
        for grant in given:
            owner = Owner(self.store, grant)
            owner.read_ledger()
            self.owners.append(owner)
            self.model.grant(owner)

    @precondition(lambda self: self.owners)
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        owner = self.owners[pick % len(self.owners)]
        task = self.model.tasks[owner.task_id]
        held = task.owner is owner
        assert owner.renew().state == ("held" if held else "lost")
        if held:
            task.expires_ms, task.spared = self.model.now_ms + TTL, False

    @rule(sure=st.booleans())
    def reap(self, sure: bool) -> None:
        expected = self.model.reap(sure=sure)
        reaped = reap(self.store) if sure else reap(self.store, since_ms=None)
        names = ("expired", "spared", "abandoned", "cancelled", "woken", "reviewed", "blocked")
        found = {name: set(getattr(reaped, name)) for name in names}
        assert {name: ids for name, ids in found.items() if ids} == expected

    @precondition(lambda self: self.living)
    @rule(pick=PICK)
    def crash(self, pick: int) -> None:
        worker = self.owners[self.living[pick % len(self.living)]].worker
        lives = [
            task
            for task in self.model.tasks.values()
            if task.owner is not None and task.owner.worker == worker
        ]
        assert set(self.store.crash(worker, by="parent")) == {each.id for each in lives}
        for task in lives:
            self.model.expire(task, "crashed")

    # -- what owners write, alive or not -----------------------------------------------------------

    def says(self, owner: Owner, what: str) -> Offer | None:
        """What an owner would write next; None where its own record forbids it."""
        if what == "step":
            return owner.offer(("step.done", {"key": "think", "result": 1}))
        if what == "note":
            return owner.offer(("note", {"text": "x"}), ("note", {"text": "y"}))
        if what == "intend":
            act = self.model.acts.get(owner.key("pay"))
            if act is not None and act.state in ("applied", "intended"):
                return None
            return owner.offer(("effect.intended", owner.intent("pay")))
        if what in ("applied", "failed"):
            return self._outcome(owner, what)
        if what == "wait":
            return owner.offer(owner.waiting("go"))
        if what == "sleep":
            return owner.offer(owner.waiting(None, until_ms=self.model.now_ms + 2_000))
        if what == "review":
            doubts = list(owner.open_intents)
            if not doubts:
                return None
            release = owner.releasing("review", why="effect_unknown", doubts=doubts)
            return owner.offer(*owner.doubts(), release)
        if what == "retry":
            failed = ("attempt.failed", {"error": {"type": "E", "message": ""}, "retry_ms": 10})
            due_ms = self.model.now_ms + 10
            return owner.offer(failed, owner.releasing("retry", due_ms=due_ms))
        if what == "succeed":
            return owner.offer(*owner.doubts(), ("task.succeeded", {"result": "done"}))
        if what == "fail":
            final = {"reason": "error", "error": {"type": "E", "message": ""}}
            return owner.offer(*owner.doubts(), ("task.failed", final))
        if what == "stop":
            if not self.model.tasks[owner.task_id].cancel_asked:
                return None
            receipt = {"by": "ann", "why": "because", "asked_ms": 0}
            said = ("cancel.acknowledged", receipt), *owner.doubts(), ("task.cancelled", receipt)
            return owner.offer(*said)
        return owner.offer(owner.releasing(what))

    def _outcome(self, owner: Owner, what: str) -> Offer | None:
        if not owner.open_intents:
            return None
        key = next(iter(owner.open_intents))
        said = {"key": key, "tool": "bank.pay", "result": "receipt"}
        return owner.offer((f"effect.{what}", said))

    @precondition(lambda self: self.living)
    @rule(pick=PICK, what=st.sampled_from(WORK), fate=FATES)
    def owner_works(self, pick: int, what: str, fate: str) -> None:
        self.write(self.living[pick % len(self.living)], what, fate)

    @precondition(lambda self: self.living)
    @rule(pick=PICK, what=st.sampled_from(ENDS), fate=FATES)
    def owner_lets_go(self, pick: int, what: str, fate: str) -> None:
        self.write(self.living[pick % len(self.living)], what, fate)

    @precondition(lambda self: self.zombies)
    @rule(pick=PICK, what=st.sampled_from(WORK + ENDS), fate=FATES)
    def zombie_writes(self, pick: int, what: str, fate: str) -> None:
        self.write(self.zombies[pick % len(self.zombies)], what, fate)

    def write(self, number: int, what: str, fate: str) -> None:
        owner = self.owners[number]
        if number in self.pending:
            return self.send_again(number)
        offer = self.says(owner, what)
        if offer is None:
            return None
        if fate == "request lost":
            self.pending[number] = (offer, False)
            return None
        answer = self.deliver(owner, offer, written_before=False)
        if fate == "heard":
            self.hears(number, offer, answer)
        else:
            self.pending[number] = (offer, isinstance(answer, Written))
        return None

    def send_again(self, number: int) -> None:
        """Until it is answered, the same bytes and nothing else."""
        offer, written_before = self.pending.pop(number)
        answer = self.deliver(self.owners[number], offer, written_before=written_before)
        self.hears(number, offer, answer)

    def deliver(self, owner: Owner, offer: Offer, *, written_before: bool) -> Answer:
        verdict = "written" if written_before else self.model.verdict(owner, offer)
        before = self.stores.state() if written_before or verdict != "written" else None
        [answer] = self.store.append([offer])
        assert (answer.why if not isinstance(answer, Written) else "written") == verdict
        if before is not None:
            assert self.stores.state() == before, "a refused or known offer has changed something"
        else:
            self.model.write(owner, offer)
        return answer

    def hears(self, number: int, offer: Offer, answer: Answer) -> None:
        self.owners[number].heard(offer, answer)
        self.answered.append((offer, answer))

    @precondition(lambda self: self.answered)
    @rule(pick=PICK)
    def a_late_copy_arrives(self, pick: int) -> None:
        offer, answer = self.answered[pick % len(self.answered)]
        if not isinstance(answer, Written) and answer.why != "lost":
            return  # its owner has offered something else since, or will
        before = self.stores.state()
        [again] = self.store.append([offer])
        assert type(again) is type(answer)
        assert self.store.stands(offer) == again
        assert self.stores.state() == before

    @precondition(lambda self: self.owners)
    @rule(pick=PICK)
    def begin(self, pick: int) -> None:
        number = pick % len(self.owners)
        owner = self.owners[number]
        if number in self.pending:
            return
        expected = self.model.begin(owner, SHARED)
        before = self.stores.state()
        offer = owner.beginning(SHARED)
        begun = self.store.begin(offer)
        assert begun.state in expected
        if begun.state in ("fresh", "in_doubt"):
            assert self.store.begin(offer).state == begun.state
            owner.heard(offer, begun.answer)  # type: ignore[arg-type]
            self.model.write(owner, offer)
        else:
            assert self.stores.state() == before

    @precondition(lambda self: self.owners)
    @rule(pick=PICK)
    def read_signal(self, pick: int) -> None:
        number = pick % len(self.owners)
        owner = self.owners[number]
        unread = self.store.signals(owner.task_id)
        if number in self.pending or not unread:
            return
        said = {"key": "go", "name": "go", "cause": "signal", "signal": unread[0].id}
        offer = owner.offer(("wait.ended", said))
        self.hears(number, offer, self.deliver(owner, offer, written_before=False))

    @precondition(lambda self: self.owners)
    @rule(pick=PICK, applied=st.booleans())
    def observe(self, pick: int, applied: bool) -> None:
        owner = self.owners[pick % len(self.owners)]
        act = self.model.acts.get(owner.key("pay"))
        if act is None:
            return
        self.store.observe(
            owner.task_id, owner.epoch, owner.worker, owner.key("pay"), applied=applied, result=1
        )
        act.observed = act.observed or applied

    # -- what people do ---------------------------------------------------------------------------

    def task(self, pick: int) -> Life:
        tasks = list(self.model.tasks.values())
        return tasks[pick % len(tasks)]

    @precondition(lambda self: self.model.tasks)
    @rule(pick=PICK)
    def send_signal(self, pick: int) -> None:
        task = self.task(pick)
        if task.state in FINAL:
            self.is_refused(lambda: signal(self.store, task.id, "go"))
            return
        sent = signal(self.store, task.id, "go")
        assert self.store.signal(task.id, sent) is False
        self.model.signal(task, sent.id)

    @precondition(lambda self: self.model.tasks)
    @rule(pick=PICK, force=st.booleans())
    def cancel(self, pick: int, force: bool) -> None:
        task = self.task(pick)
        expected = self.model.cancel(task, force=force)
        assert self.store.cancel(task.id, OPERATOR, force=force).state == expected

    @precondition(lambda self: self.model.tasks)
    @rule(pick=PICK, now=st.booleans())
    def revoke(self, pick: int, now: bool) -> None:
        task = self.task(pick)
        if task.state != "running":
            self.is_refused(lambda: self.store.revoke(task.id, OPERATOR, now=now))
            return
        self.store.revoke(task.id, OPERATOR, now=now)
        self.model.revoke(task, now=now)

    @precondition(lambda self: self.model.tasks)
    @rule(pick=PICK)
    def retry(self, pick: int) -> None:
        task = self.task(pick)
        if task.state in ("ready", "running", "waiting"):
            self.is_refused(lambda: self.store.retry(task.id, OPERATOR))
            return
        self.store.retry(task.id, OPERATOR)
        self.model.retry(task)

    @precondition(lambda self: self.model.acts)
    @rule(pick=PICK, applied=st.booleans())
    def settle(self, pick: int, applied: bool) -> None:
        key = list(self.model.acts)[pick % len(self.model.acts)]
        if not self.model.may_settle(key, applied=applied):
            self.is_refused(lambda: self.store.settle(key, OPERATOR, applied=applied))
            return
        self.store.settle(key, OPERATOR, applied=applied, receipt="r")
        self.model.settle(key, applied=applied)

    def is_refused(self, asked: Any) -> None:
        before = self.stores.state()
        with pytest.raises(NotAllowedNow):
            asked()
        assert self.stores.state() == before

    # -- what is true after every step ------------------------------------------------------------

    @invariant()
    def the_store_is_where_the_model_is(self) -> None:
        for task in self.model.tasks.values():
            row = self.store.get(task.id)
            found = (row.state, row.epoch, row.failures, row.resumes, row.expiries, row.handoffs)
            assert found == (
                task.state,
                task.epoch,
                task.failures,
                task.resumes,
                task.expiries,
                task.handoffs,
            )
            if task.state == "ready":
                assert (row.reason, row.due_ms) == (task.reason, task.due_ms)
        leases = self.stores.rows("select task_id, epoch, expires_ms, spared from leases")
        assert {(r["task_id"], r["epoch"], r["expires_ms"], r["spared"]) for r in leases} == {
            (t.id, t.epoch, t.expires_ms, int(t.spared))
            for t in self.model.tasks.values()
            if t.state == "running"
        }
        effects = self.store.find_effects(EffectQuery(limit=1_000))
        assert {(e.key, e.task_id, e.state) for e in effects} == {
            (key, act.task_id, act.state) for key, act in self.model.acts.items()
        }

    @invariant()
    def every_row_is_the_fold_of_its_log(self) -> None:
        truth.check(self.stores)

    def teardown(self) -> None:
        truth.check_what_the_store_says(self.store)


def run(stores: Stores, *, examples: int, steps: int) -> None:
    machine = type("Verbs", (Machine,), {"stores": stores, "store": stores.open()})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stores", ["sqlite"], indirect=True)
def test_any_order_of_verbs_is_what_the_model_says(stores: Stores) -> None:
    run(stores, examples=300, steps=40)


@pytest.mark.faults
@pytest.mark.timeout(1_800)
def test_many_more_orders_of_verbs_on_every_database(stores: Stores) -> None:
    run(stores, examples=500 if stores.kind == "sqlite" else 50, steps=50)
