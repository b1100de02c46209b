"""Letting go: what a release, a retry and an end make of the task, and what they cost it."""

from __future__ import annotations

import pytest

from outlast.core.model import Turned, Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    body,
    claim,
    counter,
    grants,
    kinds,
    log,
    start,
    submit,
)


def test_a_drained_task_is_ready_at_once_and_has_spent_no_retry(store: Store) -> None:
    """case R30"""
    old = start(store, worker="old")
    old.step()

    old.release("drain")

    assert (old.task.state, old.task.reason) == ("ready", "drain")
    new = claim(store, worker="new")
    assert (new.epoch, new.grant.reason) == (2, "drain")
    spent = new.task
    assert (spent.failures, spent.resumes, spent.expiries, spent.handoffs) == (0, 0, 0, 1)


def test_a_thousand_drains_are_not_one_failure(store: Store) -> None:
    """case R28: drains are not counted."""
    owner = start(store)
    for _ in range(20):
        owner.release("drain")
        owner = claim(store)

    assert (owner.task.state, owner.task.resumes, owner.task.handoffs) == ("running", 0, 20)


@pytest.mark.parametrize(
    ("reason", "resumes", "expiries", "handoffs"),
    [
        ("drain", 0, 0, 1),
        ("deadline", 0, 0, 1),
        ("trust", 0, 0, 0),
        ("unstarted", 0, 0, 0),
        ("crashed", 1, 1, 0),
        ("retry", 0, 0, 0),
    ],
)
def test_what_each_release_costs(
    store: Store, reason: str, resumes: int, expiries: int, handoffs: int
) -> None:
    owner = start(store)

    owner.release(reason)

    task = owner.task
    assert (task.resumes, task.expiries, task.handoffs) == (resumes, expiries, handoffs)
    assert (task.state, task.failures) == ("ready", 0)


def test_an_attempt_that_failed_is_due_again_after_its_delay(stores: Stores, store: Store) -> None:
    owner = start(store)

    owner.retry(after_ms=30_000)

    assert (owner.task.state, owner.task.reason, owner.task.failures) == ("ready", "retry", 1)
    stores.move(29_999)
    assert grants(store) == []
    stores.move(1)
    assert claim(store).grant.reason == "retry"
    assert kinds(store, owner.task_id)[2:4] == ["attempt.failed", "lease.released"]


def test_success_is_kept_with_its_result(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(5_000)

    owner.succeed({"url": "https://example.org", "n": [1, None, 2.5]})

    task = owner.task
    assert (task.state, task.reason) == ("succeeded", "succeeded")
    assert task.result == '{"url":"https://example.org","n":[1,null,2.5]}'
    assert (task.started_ms, task.finished_ms) == (task.created_ms, task.created_ms + 5_000)
    assert counter(store, "agent_task_terminal_total", queue="default", state="succeeded") == 1


@pytest.mark.parametrize("reason", ["error", "timed_out", "bad_input"])
def test_failure_is_kept_with_its_reason_and_error(store: Store, reason: str) -> None:
    """case R29, case R67: input that an agent cannot read fails this task, and no other."""
    neighbour = submit(store)
    owner = claim(store)
    other = submit(store)

    owner.fail(reason)

    task = owner.task
    assert owner.task_id == neighbour.id
    assert (task.state, task.reason) == ("failed", reason)
    assert task.error == '{"type":"ValueError","message":"no"}'
    assert claim(store).task_id == other.id


def test_a_result_of_nothing_is_a_result(store: Store) -> None:
    owner = start(store)

    owner.succeed(None)

    assert owner.task.state == "succeeded"


def test_an_ended_task_is_never_given_again(stores: Stores, store: Store) -> None:
    """case R43"""
    for end in ("succeed", "fail"):
        getattr(start(store), end)()
    stores.move(10_000_000)

    assert grants(store, room=9) == []


def test_what_an_interrupted_attempt_had_done_stays_readable(store: Store) -> None:
    """case R68"""
    owner = start(store)
    owner.step("plan", "a plan")
    store.cancel(owner.task_id, OPERATOR, force=True)

    [done] = [event for event in log(store, owner.task_id) if event.kind == "step.done"]
    assert body(done)["result"] == "a plan"


def test_a_task_in_review_shows_what_is_in_doubt_and_is_given_to_nobody(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    owner.intend("pay")

    owner.ask_a_person()

    task = owner.task
    assert (task.state, task.reason) == ("review", "effect_unknown")
    assert task.doubts == f'["{owner.task_id}/pay"]'
    stores.move(10_000_000)
    assert grants(store) == []


@pytest.mark.parametrize("why", ["effect_conflict", "replay_mismatch"])
def test_a_review_without_a_doubt_says_its_own_reason(store: Store, why: str) -> None:
    """case R49"""
    owner = start(store)

    owner.ask_a_person(why)

    assert (owner.task.state, owner.task.reason, owner.task.doubts) == ("review", why, "[]")


def test_a_release_is_the_same_bytes_whenever_it_is_sent(stores: Stores, store: Store) -> None:
    """case R69"""
    owner = start(store)
    release = owner.offer(owner.releasing("drain"))
    stores.move(3_000)

    [first] = store.append([release])
    [again] = store.append([release])

    assert isinstance(first, Written)
    assert again == first
    assert log(store, owner.task_id)[-1] == release.last


def test_a_release_that_would_leave_an_intent_unexplained_is_no_end(
    stores: Stores, store: Store
) -> None:
    """case R79: an end says of every intent how it stands; one that does not is turned away."""
    owner = start(store)
    owner.intend("pay")
    before = stores.state()

    [answer] = store.append([owner.offer(("task.succeeded", {"result": 1}))])

    assert isinstance(answer, Turned)
    assert stores.state() == before


def test_the_reasons_of_resumes_are_counted_by_how_many_in_a_row(store: Store) -> None:
    owner = start(store)
    for _ in range(4):
        owner.release("drain")
        owner = claim(store)

    counted = [
        counter(store, "agent_task_resume_total", reason="drain", nth=nth)
        for nth in ("1", "2", "3+")
    ]
    assert counted == [1, 1, 2]


def test_a_first_grant_a_retry_and_a_wake_are_no_resumes(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.retry()
    owner = claim(store)
    owner.wait("sleep", until_ms=store.now_ms() + 1)
    stores.move(1)
    store.reap(since_ms=store.now_ms())
    claim(store)

    assert counter(store, "agent_task_resume_total") == 0
