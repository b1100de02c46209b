"""Doubts and how they end: a person's word, a zombie's late knowledge, the reaper."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from outlast.core.errors import NotAllowedNow, UnknownEffect
from outlast.core.model import Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    body,
    claim,
    effect,
    log,
    reap,
    start,
)

# -- settling ----------------------------------------------------------------------------------


def test_a_receipt_settles_a_doubt_and_the_task_goes_on(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.ask_a_person()

    settled = store.settle(owner.key("pay"), OPERATOR, applied=True, receipt={"id": "pi_1"})

    assert (settled.state, settled.result) == ("applied", '{"id":"pi_1"}')
    assert settled == effect(store, owner.key("pay"))
    assert (owner.task.state, owner.task.reason, owner.task.doubts) == ("ready", "operator", None)
    said = log(store, owner.task_id)[-1]
    assert (said.kind, body(said)["by"], body(said)["applied"]) == ("effect.settled", "ann", True)
    assert claim(store, "new").grant.reason == "operator"


def test_an_order_to_try_again_settles_a_doubt_too(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.ask_a_person()

    settled = store.settle(owner.key("pay"), OPERATOR, applied=False)

    assert (settled.state, settled.result) == ("not_applied", None)
    heir = claim(store)
    assert isinstance(heir.intend("pay", **{"try": 2}), Written)


def test_a_review_ends_with_its_last_doubt(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.intend("mail")
    owner.ask_a_person()

    store.settle(owner.key("pay"), OPERATOR, applied=True)
    assert owner.task.state == "review"
    store.settle(owner.key("mail"), OPERATOR, applied=False)

    assert owner.task.state == "ready"


@pytest.mark.parametrize("reason", ["effect_conflict", "replay_mismatch"])
def test_a_review_for_another_reason_is_not_ended_by_a_settled_doubt(
    store: Store, reason: str
) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.ask_a_person(reason)

    store.settle(owner.key("pay"), OPERATOR, applied=True)

    assert owner.task.state in ("review", "ready")
    if owner.task.state == "review":
        assert store.retry(owner.task_id, OPERATOR).state == "ready"


@pytest.mark.parametrize("outcome", ["applied", "failed"])
def test_what_is_no_doubt_cannot_be_settled(stores: Stores, store: Store, outcome: str) -> None:
    owner = start(store)
    owner.intend("pay")
    getattr(owner, outcome)("pay")
    owner.release()
    before = stores.state()

    with pytest.raises(NotAllowedNow):
        store.settle(owner.key("pay"), OPERATOR, applied=True)

    assert stores.state() == before


def test_a_doubt_that_has_an_owner_is_the_owners(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    before = stores.state()

    with pytest.raises(NotAllowedNow):
        store.settle(owner.key("pay"), OPERATOR, applied=True)

    assert stores.state() == before


def test_settling_twice_is_refused_the_second_time(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.ask_a_person()
    store.settle(owner.key("pay"), OPERATOR, applied=True, receipt="pi_1")
    before = stores.state()

    with pytest.raises(NotAllowedNow):
        store.settle(owner.key("pay"), OPERATOR, applied=False)

    assert stores.state() == before


def test_a_key_that_nobody_used_is_unknown(store: Store) -> None:
    with pytest.raises(UnknownEffect):
        store.settle("nobody's", OPERATOR, applied=True)


@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_a_doubt_outlives_its_task_and_settling_it_does_not_wake_the_task(
    store: Store, end: str
) -> None:
    """case R79"""
    owner = start(store)
    owner.intend("pay")
    getattr(owner, end)()
    ended = owner.task

    settled = store.settle(owner.key("pay"), OPERATOR, applied=True, receipt=1)

    assert settled.state == "applied"
    assert owner.task.state == ended.state
    assert owner.task.finished_ms == ended.finished_ms
    assert owner.task.result == ended.result


# -- what a zombie learned ---------------------------------------------------------------------


def zombie_with_an_intent(stores: Stores, store: Store):  # type: ignore[no-untyped-def]
    zombie = start(store, "zombie")
    zombie.intend("pay")
    stores.move(TTL + 1)
    reap(store)
    return zombie


def test_a_zombies_late_knowledge_is_kept(stores: Stores, store: Store) -> None:
    zombie = zombie_with_an_intent(stores, store)
    before = stores.state("tasks", "leases", "events")

    store.observe(
        zombie.task_id, zombie.epoch, zombie.worker, zombie.key("pay"), applied=True, result="pi_1"
    )

    assert stores.state("tasks", "leases", "events") == before
    [seen] = store.observations(zombie.task_id)
    assert (seen.kind, seen.key, seen.epoch) == ("outcome", zombie.key("pay"), 1)
    observed = effect(store, zombie.key("pay")).observed
    assert observed is not None
    assert '"pi_1"' in observed


def test_an_observation_of_applied_refuses_not_applied(stores: Stores, store: Store) -> None:
    """case R78"""
    zombie = zombie_with_an_intent(stores, store)
    claim(store, "new").ask_a_person()
    store.observe(
        zombie.task_id, zombie.epoch, zombie.worker, zombie.key("pay"), applied=True, result="pi_1"
    )
    before = stores.state()

    with pytest.raises(NotAllowedNow, match="pi_1"):
        store.settle(zombie.key("pay"), OPERATOR, applied=False)

    assert stores.state() == before
    assert store.settle(zombie.key("pay"), OPERATOR, applied=True).state == "applied"


def test_an_observation_of_not_applied_proves_nothing(stores: Stores, store: Store) -> None:
    zombie = zombie_with_an_intent(stores, store)

    store.observe(zombie.task_id, zombie.epoch, zombie.worker, zombie.key("pay"), applied=False)

    assert effect(store, zombie.key("pay")).state == "intended"
    assert len(store.observations(zombie.task_id)) == 1


def test_the_reaper_ends_a_review_whose_last_doubt_was_observed(
    stores: Stores, store: Store
) -> None:
    zombie = zombie_with_an_intent(stores, store)
    heir = claim(store, "new")
    heir.open_intents = dict(zombie.open_intents)
    heir.ask_a_person()
    assert heir.task.state == "review"
    assert list(reap(store).reviewed) == []
    store.observe(
        zombie.task_id, zombie.epoch, zombie.worker, zombie.key("pay"), applied=True, result="pi_1"
    )

    assert list(reap(store).reviewed) == [zombie.task_id]

    assert heir.task.state == "ready"
    settled = effect(store, zombie.key("pay"))
    assert (settled.state, settled.result) == ("applied", '"pi_1"')
    assert log(store, zombie.task_id)[-1].kind == "effect.settled"


def test_a_review_is_not_ended_by_half_of_its_doubts(stores: Stores, store: Store) -> None:
    zombie = start(store, "zombie")
    zombie.intend("pay")
    zombie.intend("mail")
    stores.move(TTL + 1)
    reap(store)
    heir = claim(store, "new")
    heir.open_intents = dict(zombie.open_intents)
    heir.ask_a_person()

    store.observe(zombie.task_id, 1, zombie.worker, zombie.key("pay"), applied=True)

    reap(store)
    assert heir.task.state == "review"


def test_an_observation_of_what_is_settled_changes_nothing(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.applied("pay", "first")
    row = effect(store, owner.key("pay"))

    store.observe(owner.task_id, 1, owner.worker, owner.key("pay"), applied=True, result="second")

    assert replace(effect(store, owner.key("pay")), observed=None) == replace(row, observed=None)


def test_an_observation_sent_twice_is_one_row(stores: Stores, store: Store) -> None:
    zombie = zombie_with_an_intent(stores, store)

    for _ in range(2):
        store.observe(zombie.task_id, 1, zombie.worker, zombie.key("pay"), applied=True, result=1)

    assert len(store.observations(zombie.task_id)) == 1
