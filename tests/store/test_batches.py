"""Offers that go in together: each has its own answer, and a bad one fails alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from outlast.core.chain import entry
from outlast.core.errors import UsageError
from outlast.core.limits import APPEND_BATCH, PAYLOAD_BYTES
from outlast.core.model import Offer, Turned, Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    Owner,
    log,
    start,
    why,
)

# -- batches -----------------------------------------------------------------------------------


def test_a_batch_is_answered_offer_by_offer(stores: Stores, store: Store) -> None:
    zombie, alive, ended = start(store), start(store), start(store)
    store.revoke(zombie.task_id, OPERATOR)
    ended.succeed()

    answers = store.append(
        [each.offer(("note", {"text": "hi"})) for each in (zombie, alive, ended)]
    )

    assert [type(answer) for answer in answers] == [Turned, Written, Turned]
    assert len(log(store, alive.task_id)) == 3


def test_a_refused_event_takes_the_rest_of_its_offer_with_it(stores: Stores, store: Store) -> None:
    """case R70: a zombie's second event must not slip in behind the heir's first."""
    zombie = start(store)
    first, second = zombie.offer(("note", {"text": "1"}), ("note", {"text": "2"})).entries
    rival = zombie.offer(("note", {"text": "rival"}))
    store.append([rival])
    before = stores.state()

    assert why(store.append([Offer((first, second), "worker-old")])[0]) == "lost"
    assert stores.state() == before


def test_an_offer_half_of_which_was_known_is_not_half_written(stores: Stores, store: Store) -> None:
    """An offer that begins like one that stands, and ends otherwise, is another offer."""
    owner = start(store)
    standing = owner.offer(("note", {"text": "1"}))
    longer = owner.offer(("note", {"text": "1"}), ("note", {"text": "2"}))
    assert longer.entries[0] == standing.entries[0]
    store.append([standing])
    before = stores.state()

    [answer] = store.append([longer])

    assert isinstance(answer, Turned)
    assert not isinstance(store.stands(longer), Written)
    assert stores.state() == before


def test_an_offer_that_jumps_a_place_is_refused(stores: Stores, store: Store) -> None:
    owner = start(store)
    _, second = owner.offer(("note", {"text": "1"}), ("note", {"text": "2"})).entries
    before = stores.state()

    [answer] = store.append([Offer((second,), "worker-old")])

    assert isinstance(answer, Turned)
    assert stores.state() == before


def test_two_offers_of_one_task_in_a_batch_are_not_let_in_together(
    stores: Stores, store: Store
) -> None:
    """A batch carries at most one offer a task; a second is never a way around the first."""
    owner = start(store)
    both = owner.offer(("note", {"text": "1"})), owner.offer(("note", {"text": "2"}))

    before = stores.state()

    with pytest.raises(UsageError):
        store.append(both)

    assert stores.state() == before


def test_an_empty_batch_is_answered_with_nothing(store: Store) -> None:
    assert store.append([]) == []


def test_a_full_batch_goes_in_at_once(store: Store) -> None:
    owners = [start(store) for _ in range(APPEND_BATCH)]

    answers = store.append([owner.offer(("step.done", {"key": "a"})) for owner in owners])

    assert all(isinstance(answer, Written) for answer in answers)


def oversize(owner: Owner) -> Offer:
    return owner.offer(("step.done", {"key": "a", "result": "x" * (PAYLOAD_BYTES * 2)}))


def unstorable(owner: Owner) -> Offer:
    """A NUL, raw, where text that PostgreSQL stores may have none."""
    return owner.offer(("note\x00", {"text": "a"}))


def unstorable_key(owner: Owner) -> Offer:
    return owner.offer(("effect.intended", owner.intent("pay", key="a\x00b")))


def broken_body(owner: Owner) -> Offer:
    [plain] = owner.offer(("note", {"text": "a"})).entries
    event = plain.event
    made = entry(
        owner.quote, owner.epoch, holder=owner.epoch, kind="note", body="{", at_ms=event.at_ms
    )
    return Offer((made,), owner.worker)


def lying_digest(owner: Owner) -> Offer:
    """A digest that is not that of its content would break the chain for ever."""
    [plain] = owner.offer(("note", {"text": "a"})).entries
    return Offer((replace(plain, event=replace(plain.event, digest="f" * 64)),), owner.worker)


def unknown_kind(owner: Owner) -> Offer:
    return owner.offer(("task.exploded", {}))


def not_an_owners(owner: Owner) -> Offer:
    return owner.offer(("lease.expired", {"worker": "me", "holder": 0}))


def keeps_hold_of_an_end(owner: Owner) -> Offer:
    """An end that leaves its writer the holder: it could write on behind it."""
    return owner.offer(("task.succeeded", {"result": 1, "holder": owner.epoch}))


def lets_go_in_passing(owner: Owner) -> Offer:
    """A note that lets go: a lease would be left that nobody can write under."""
    return owner.offer(("note", {"text": "bye", "holder": 0}))


def hands_to_a_stranger(owner: Owner) -> Offer:
    return owner.offer(("note", {"text": "bye", "holder": owner.epoch + 7}))


WRONG = [
    oversize,
    unstorable,
    unstorable_key,
    broken_body,
    lying_digest,
    unknown_kind,
    not_an_owners,
    keeps_hold_of_an_end,
    lets_go_in_passing,
    hands_to_a_stranger,
]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_offer_that_cannot_be_stored_fails_alone(
    stores: Stores, store: Store, wrong: Callable[[Owner], Offer]
) -> None:
    """case R81"""
    sick, well = start(store), start(store)
    before = log(store, sick.task_id)

    answers = store.append([wrong(sick), well.offer(("step.done", {"key": "a", "result": 1}))])

    assert why(answers[0]) == "invalid"
    assert isinstance(answers[1], Written)
    assert log(store, sick.task_id) == before
    assert isinstance(sick.note("still here"), Written)


def test_nothing_may_follow_the_event_that_lets_go(store: Store) -> None:
    owner = start(store)
    offer = owner.offer(("task.succeeded", {"result": 1}), ("note", {"text": "after"}))

    [answer] = store.append([offer])

    assert isinstance(answer, Turned)
    assert store.get(owner.task_id).state == "running"


def test_time_on_a_log_never_goes_back(stores: Stores, store: Store) -> None:
    """case R59"""
    owner = start(store)
    owner.write_at(store.now_ms() - 600_000)

    assert [event.at_ms for event in log(store, owner.task_id)] == sorted(
        event.at_ms for event in log(store, owner.task_id)
    )


@pytest.mark.parametrize("off_by_ms", [-600_000, 600_000])
def test_no_clock_of_a_worker_is_a_condition_of_the_write(store: Store, off_by_ms: int) -> None:
    """case R59"""
    owner = start(store)

    assert isinstance(owner.write_at(store.now_ms() + off_by_ms), Written)
    assert isinstance(owner.succeed(), Written)


def test_a_lapsed_owner_still_writes_while_nobody_has_declared_it_dead(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    stores.move(10 * TTL)

    assert isinstance(owner.step(), Written)
    assert isinstance(owner.succeed(), Written)
