"""A standby takes over that lacks what was acknowledged: noticed, and never forked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.model import Answer, Turned, Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import OPERATOR, Owner, claim, kinds, start, submit, why

NOT_ON_THIS_LOG = ("lost", "commits_lost")


def test_an_owner_notices_that_its_last_event_is_gone(stores: Stores, store: Store) -> None:
    owner = start(store)
    standby = stores.standby()
    owner.step("a")
    stores.fail_over(standby)

    assert why(owner.step("b")) == "commits_lost"
    assert kinds(store, owner.task_id) == ["task.submitted", "lease.granted"]


def test_an_acknowledged_offer_does_not_stand_any_more(stores: Stores, store: Store) -> None:
    owner = start(store)
    standby = stores.standby()
    offer = owner.offer(("step.done", {"key": "a", "result": 1}))
    store.append([offer])
    stores.fail_over(standby)

    assert why(store.stands(offer)) == "again"
    assert isinstance(store.append([offer])[0], Written), "the same bytes still fit"


def given_twice(stores: Stores, store: Store) -> tuple[Owner, Owner]:
    """Epoch 1 of one task, before a failover and after it."""
    submit(store)
    standby = stores.standby()
    lost = claim(store, "old")
    stores.fail_over(standby)
    stores.move(1)
    heir = claim(store, "new")
    assert (lost.epoch, heir.epoch, lost.task_id) == (1, 1, heir.task_id)
    return lost, heir


WRITES: dict[str, Callable[[Owner], Answer]] = {
    "note": lambda owner: owner.note(),
    "step": lambda owner: owner.step(),
    "intent": lambda owner: owner.intend("pay"),
    "release": lambda owner: owner.release("drain"),
    "retry": lambda owner: owner.retry(),
    "wait": lambda owner: owner.wait("approval"),
    "success": lambda owner: owner.succeed(),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_epoch_that_was_given_twice_is_one_writers(
    stores: Stores, store: Store, write: str
) -> None:
    """Same task, same place, same epoch: only the quote tells the two apart."""
    lost, heir = given_twice(stores, store)
    before = stores.state()

    assert why(WRITES[write](lost)) in NOT_ON_THIS_LOG
    assert stores.state() == before
    assert isinstance(heir.note(), Written)


def test_nor_in_a_batch_with_one_who_may_write(stores: Stores, store: Store) -> None:
    lost, heir = given_twice(stores, store)
    other = start(store)
    offers = [each.offer(("step.done", {"key": "a", "result": 1})) for each in (lost, other)]

    answers = store.append(offers)

    assert why(answers[0]) in NOT_ON_THIS_LOG
    assert isinstance(answers[1], Written)
    assert isinstance(heir.note(), Written)


def test_nor_does_it_begin_an_effect_or_keep_the_lease(stores: Stores, store: Store) -> None:
    lost, heir = given_twice(stores, store)
    before = stores.state()

    assert lost.begin("invoice-17").state == "turned"
    assert lost.renew().state == "lost"
    assert stores.state() == before
    assert heir.renew().state == "held"


def test_a_log_that_went_on_without_the_lost_commit_is_not_forked(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    twin = Owner(store, owner.grant)
    standby = stores.standby()
    owner.note("one life")
    stores.fail_over(standby)
    twin.note("another life")
    before = stores.state()

    assert why(owner.step("b")) in NOT_ON_THIS_LOG
    assert stores.state() == before


def test_a_lost_end_is_not_taken_for_an_end(stores: Stores, store: Store) -> None:
    """The owner was told that it succeeded; now the task runs again, and can be seen to."""
    owner = start(store)
    standby = stores.standby()
    end = owner.offer(("task.succeeded", {"result": 1}))
    store.append([end])
    stores.fail_over(standby)
    store.revoke(owner.task_id, OPERATOR, now=True)
    heir = claim(store, "new")

    answer = store.append([end])[0]

    assert isinstance(answer, Turned)
    assert heir.task.state == "running"
