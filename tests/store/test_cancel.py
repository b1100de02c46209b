"""Cancelling: a request with a receipt, or an end at once where nobody owns the task."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from outlast.core.errors import NotAllowedNow
from outlast.core.model import Turned, Written
from outlast.store.verbs import CancelAnswer, Order, Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    Owner,
    body,
    claim,
    counter,
    effect,
    grants,
    kinds,
    log,
    reap,
    signal,
    start,
    submit,
    why,
)

ANN = Order("ann", "superseded")


def test_a_task_without_an_owner_is_cancelled_in_the_same_call(store: Store) -> None:
    """case R42"""
    task = submit(store)

    answer = store.cancel(task.id, ANN)

    assert (answer.state, answer.running_on) == ("cancelled", None)
    assert answer.task == store.get(task.id)
    assert (answer.task.state, answer.task.finished_ms) == ("cancelled", store.now_ms())
    said = log(store, task.id)[-1]
    assert (said.kind, body(said)["by"], body(said)["why"]) == (
        "task.cancelled",
        "ann",
        "superseded",
    )
    assert counter(store, "agent_task_terminal_total", state="cancelled") == 1


@pytest.mark.parametrize("where", ["retry", "sleep", "approval", "review"])
def test_a_task_that_rests_is_cancelled_at_once(store: Store, where: str) -> None:
    """case R40"""
    owner = start(store)
    owner.intend("pay")
    rest = {
        "retry": lambda: owner.retry(after_ms=60_000),
        "sleep": lambda: owner.wait("sleep", until_ms=store.now_ms() + 60_000),
        "approval": lambda: owner.wait("approval"),
        "review": owner.ask_a_person,
    }
    if where != "review":
        owner.applied("pay")
    rest[where]()

    assert store.cancel(owner.task_id, ANN).state == "cancelled"
    assert owner.task.state == "cancelled"
    assert grants(store) == []


def test_an_owner_is_asked_and_writes_the_receipt(stores: Stores, store: Store) -> None:
    owner = start(store)
    asked = store.cancel(owner.task_id, ANN)
    assert (asked.state, asked.task.state) == ("asked", "running")
    assert (asked.task.cancel_by, asked.task.cancel_why) == ("ann", "superseded")
    stores.move(2_000)

    owner.acknowledge_cancel()

    task = owner.task
    assert (task.state, task.reason) == ("cancelled", "cancelled")
    receipt, end = log(store, owner.task_id)[-2:]
    assert (receipt.kind, end.kind) == ("cancel.acknowledged", "task.cancelled")
    assert body(receipt)["asked_ms"] == store.now_ms() - 2_000


def test_asking_is_no_event(stores: Stores, store: Store) -> None:
    owner = start(store)
    before = stores.state("events", "leases", "effects")

    store.cancel(owner.task_id, ANN)

    assert stores.state("events", "leases", "effects") == before
    assert isinstance(owner.note(), Written)


def test_the_first_request_stands(stores: Stores, store: Store) -> None:
    """case R42: cancelling twice is cancelling."""
    owner = start(store)
    store.cancel(owner.task_id, ANN)
    stores.move(1_000)
    before = stores.state()

    again = store.cancel(owner.task_id, Order("bob", "me too"))

    assert (again.state, again.task.cancel_by) == ("asked", "ann")
    assert stores.state() == before


def test_cancelling_what_is_cancelled_says_the_same_and_changes_nothing(
    stores: Stores, store: Store
) -> None:
    """case R42"""
    task = submit(store)
    first = store.cancel(task.id, ANN)
    before = stores.state()

    again = store.cancel(task.id, Order("bob", "me too"))

    assert (again.state, again.task) == (first.state, first.task)
    assert stores.state() == before


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_cancelling_what_has_ended_otherwise_changes_nothing(
    stores: Stores, store: Store, end: str, force: bool
) -> None:
    """case R42, P8"""
    owner = start(store)
    getattr(owner, end)()
    before = stores.state()

    assert store.cancel(owner.task_id, ANN, force=force).state == "ended"
    assert stores.state() == before


# -- what an owner may still write -------------------------------------------------------------


@pytest.mark.parametrize("reason", ["drain", "deadline", "trust", "unstarted", "crashed", "retry"])
def test_an_owner_that_has_not_read_the_request_does_not_let_the_task_go(
    stores: Stores, store: Store, reason: str
) -> None:
    """case R76: cancelled, never ready with an unread request."""
    owner = start(store)
    release = owner.offer(owner.releasing(reason))
    store.cancel(owner.task_id, ANN)
    before = stores.state()

    assert why(owner.send(release)) == "cancel_asked"
    assert stores.state() == before
    owner.acknowledge_cancel()
    assert owner.task.state == "cancelled"


@pytest.mark.parametrize("let_go", ["retry", "wait", "sleep", "review"])
def test_nor_does_it_wait_or_ask_or_try_later(stores: Stores, store: Store, let_go: str) -> None:
    """case R76"""
    owner = start(store)
    owner.intend("pay")
    acts = {
        "retry": lambda: owner.send(
            owner.offer(
                ("attempt.failed", {"error": {"type": "E", "message": ""}, "retry_ms": 0}),
                owner.releasing("retry"),
            )
        ),
        "wait": owner.wait,
        "sleep": lambda: owner.wait(None, until_ms=store.now_ms() + 1),
        "review": owner.ask_a_person,
    }
    store.cancel(owner.task_id, ANN)
    before = stores.state()

    assert why(acts[let_go]()) == "cancel_asked"
    assert stores.state() == before


def test_no_effect_is_begun_behind_a_request(stores: Stores, store: Store) -> None:
    """case R41"""
    owner = start(store)
    store.cancel(owner.task_id, ANN)
    before = stores.state()

    assert why(owner.intend("pay")) == "cancel_asked"
    begun = owner.begin("invoice-17")
    assert begun.state == "turned"
    assert why(begun.answer) == "cancel_asked"
    assert stores.state() == before


def test_what_happened_before_the_request_is_still_recorded(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    store.cancel(owner.task_id, ANN)

    assert isinstance(owner.applied("pay"), Written)
    assert isinstance(owner.step(), Written)
    assert isinstance(owner.note("cleaning up"), Written)
    owner.acknowledge_cancel()

    assert effect(store, owner.key("pay")).state == "applied"


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_an_end_wins_over_an_unread_request(store: Store, end: str) -> None:
    """Cancel against success: one wins, by the chain."""
    owner = start(store)
    store.cancel(owner.task_id, ANN)

    assert isinstance(getattr(owner, end)(), Written)
    assert owner.task.state in ("succeeded", "failed")
    assert store.cancel(owner.task_id, ANN).state == "ended"


def test_a_wait_that_keeps_the_lease_may_begin_behind_a_request(store: Store) -> None:
    owner = start(store)
    store.cancel(owner.task_id, ANN)
    waiting = ("wait.started", {"key": "approval", "name": "approval", "until_ms": None})

    assert isinstance(owner.send(owner.offer(waiting)), Written)
    assert owner.task.state == "running"


def test_a_cancel_and_a_release_at_the_same_moment_never_leave_it_unread(
    stores: Stores, store: Store
) -> None:
    """case R76: thirty rounds of both at once."""
    owners = [start(store) for _ in range(30)]
    releases = [owner.offer(owner.releasing("drain")) for owner in owners]
    answers: list[CancelAnswer] = []
    together = Barrier(2)

    def release(mine: Store) -> None:
        together.wait()
        for offer in releases:
            mine.append([offer])

    def cancel(mine: Store) -> None:
        together.wait()
        for owner in owners:
            answers.append(mine.cancel(owner.task_id, ANN))

    threads = [Thread(target=work, args=[stores.open()]) for work in (release, cancel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for owner, answer in zip(owners, answers, strict=True):
        expected = {"cancelled": "cancelled", "asked": "running"}[answer.state]
        assert owner.task.state == expected
        assert owner.task.cancel_ms is not None or expected == "cancelled"


# -- dead or stubborn owners -------------------------------------------------------------------


def test_a_dead_owners_task_is_cancelled_without_any_worker(stores: Stores, store: Store) -> None:
    """case R42"""
    owner = start(store)
    owner.intend("pay")
    stores.move(TTL + 1)

    assert store.cancel(owner.task_id, ANN).state == "cancelled"

    assert kinds(store, owner.task_id)[-3:] == ["lease.expired", "effect.unknown", "task.cancelled"]
    assert why(owner.note()) == "lost"


def test_an_owner_that_dies_before_it_answers_is_answered_for_by_the_reaper(
    stores: Stores, store: Store
) -> None:
    """case R42, case R76"""
    owner = start(store)
    owner.intend("pay")
    store.cancel(owner.task_id, ANN)
    stores.move(TTL + 1)

    assert list(reap(store).cancelled) == [owner.task_id]

    assert owner.task.state == "cancelled"
    assert kinds(store, owner.task_id)[-3:] == ["lease.expired", "effect.unknown", "task.cancelled"]
    assert body(log(store, owner.task_id)[-1])["by"] == "ann"


def test_a_crashed_owner_is_answered_for_too(store: Store) -> None:
    owner = start(store)
    store.cancel(owner.task_id, ANN)

    store.crash(owner.worker, by="parent")

    assert owner.task.state == "cancelled"
    assert kinds(store, owner.task_id)[-2:] == ["lease.released", "task.cancelled"]


def test_a_revoke_with_an_unread_request_ends_the_task(store: Store) -> None:
    owner = start(store)
    store.cancel(owner.task_id, ANN)

    task = store.revoke(owner.task_id, OPERATOR)

    assert task.state == "cancelled"
    assert kinds(store, owner.task_id)[-2:] == ["lease.revoked", "task.cancelled"]


def test_force_ends_it_now_and_says_where_code_may_still_run(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")

    answer = store.cancel(owner.task_id, ANN, force=True)

    assert answer.state == "cancelled"
    assert answer.running_on is not None
    assert "host" in answer.running_on
    assert "4711" in answer.running_on
    assert kinds(store, owner.task_id)[-3:] == ["lease.revoked", "effect.unknown", "task.cancelled"]
    assert why(owner.succeed()) == "lost"
    assert owner.task.state == "cancelled"


def test_force_after_a_request_keeps_who_asked_first(store: Store) -> None:
    owner = start(store)
    store.cancel(owner.task_id, ANN)

    answer = store.cancel(owner.task_id, Order("bob", "now"), force=True)

    assert answer.state == "cancelled"
    assert answer.task.cancel_by == "ann"


def test_an_open_intent_is_unknown_when_its_task_is_cancelled_and_can_be_settled(
    store: Store,
) -> None:
    """case R79"""
    owner = start(store)
    owner.intend("pay")
    store.cancel(owner.task_id, ANN, force=True)
    assert effect(store, owner.key("pay")).state == "unknown"

    settled = store.settle(owner.key("pay"), OPERATOR, applied=True, receipt="pi_1")

    assert (settled.state, settled.result) == ("applied", '"pi_1"')
    assert owner.task.state == "cancelled"


def test_a_cancelled_task_never_comes_back(stores: Stores, store: Store) -> None:
    """case R43, P8"""
    owner = start(store)
    stale = owner.offer(owner.releasing("drain"))
    store.cancel(owner.task_id, ANN, force=True)
    signalled = before = stores.state()

    assert [why(each) for each in store.append([stale])] == ["lost"]
    assert owner.renew().state == "lost"
    assert grants(store) == []
    stores.move(10 * TTL)
    reap(store)
    with pytest.raises(NotAllowedNow):
        signal(store, owner.task_id, "approval")
    with pytest.raises(NotAllowedNow):
        store.revoke(owner.task_id, OPERATOR)
    assert stores.open().get(owner.task_id).state == "cancelled"
    assert stores.state() == before == signalled


def test_a_cancelled_task_that_an_operator_reopens_carries_nothing_of_it(store: Store) -> None:
    """case R44"""
    owner = start(store)
    owner.step("plan", "a plan")
    store.cancel(owner.task_id, ANN)
    owner.acknowledge_cancel()

    task = store.retry(owner.task_id, OPERATOR)

    assert (task.state, task.reason, task.finished_ms) == ("ready", "operator", None)
    assert (task.cancel_by, task.cancel_why, task.cancel_ms) == (None, None, None)
    heir = claim(store, "new")
    assert (heir.epoch, heir.grant.reason) == (2, "operator")
    assert heir.renew().cancel_ms is None
    assert isinstance(heir.intend("pay"), Written)


def test_a_request_that_lost_against_the_end_does_not_come_back_with_a_retry(store: Store) -> None:
    """case R44"""
    owner = start(store)
    store.cancel(owner.task_id, ANN)
    owner.fail()

    assert store.retry(owner.task_id, OPERATOR).cancel_ms is None
    heir = claim(store)
    assert isinstance(heir.release("drain"), Written)


def test_cancel_against_success_at_the_same_moment_has_one_winner(
    stores: Stores, store: Store
) -> None:
    """Twenty rounds, force against success."""
    owners = [start(store) for _ in range(20)]
    ends = [owner.offer(("task.succeeded", {"result": 1})) for owner in owners]
    wrote: list[bool] = []
    said: list[str] = []
    together = Barrier(2)

    def succeed(mine: Store) -> None:
        together.wait()
        wrote.extend(isinstance(mine.append([end])[0], Written) for end in ends)

    def cancel(mine: Store) -> None:
        together.wait()
        said.extend(mine.cancel(owner.task_id, ANN, force=True).state for owner in owners)

    threads = [Thread(target=work, args=[stores.open()]) for work in (succeed, cancel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for owner, written, answer in zip(owners, wrote, said, strict=True):
        expected = ("succeeded", True, "ended") if written else ("cancelled", False, "cancelled")
        assert (owner.task.state, written, answer) == expected


def test_an_answer_that_was_lost_is_given_again(store: Store) -> None:
    owner: Owner = start(store)
    first = store.cancel(owner.task_id, ANN)

    again = store.cancel(owner.task_id, ANN)

    assert (again.state, again.task) == (first.state, first.task)
    assert not isinstance(again, Turned)
