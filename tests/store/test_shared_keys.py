"""Effects under a key that all tasks share: two tasks with the key `invoice-17` act once."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from outlast.core.model import Written
from outlast.store.verbs import Begun, Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    Owner,
    claim,
    counter,
    effect,
    kinds,
    reap,
    start,
    why,
)

KEY = "invoice-17"


def test_the_first_to_begin_acts(store: Store) -> None:
    owner = start(store)

    begun = owner.begin(KEY)

    assert begun.state == "fresh"
    assert isinstance(begun.answer, Written)
    row = effect(store, KEY)
    assert (row.task_id, row.state, row.shared) == (owner.task_id, "intended", 1)
    assert begun.effect == row
    assert isinstance(owner.applied("pay", key=KEY), Written)
    assert effect(store, KEY).state == "applied"


def test_who_comes_while_it_is_done_waits(stores: Stores, store: Store) -> None:
    """case R52"""
    first, second = start(store), start(store)
    first.begin(KEY)
    before = stores.state()

    begun = second.begin(KEY)

    assert begun.state == "busy"
    assert begun.effect is not None
    assert begun.effect.task_id == first.task_id
    assert stores.state() == before


def test_who_comes_after_it_was_done_gets_its_result(stores: Stores, store: Store) -> None:
    """case R52"""
    first, second = start(store), start(store)
    first.begin(KEY)
    first.applied("pay", {"id": "pi_1"}, key=KEY)
    before = stores.state()

    begun = second.begin(KEY)

    assert begun.state == "done"
    assert begun.effect is not None
    assert begun.effect.result == '{"id":"pi_1"}'
    assert stores.state() == before


def test_a_key_stays_done_when_its_task_has_ended(store: Store) -> None:
    first = start(store)
    first.begin(KEY)
    first.applied("pay", 1, key=KEY)
    first.succeed()

    assert start(store).begin(KEY).state == "done"


@pytest.mark.parametrize("state", ["intended", "applied", "failed", "unknown"])
def test_other_arguments_under_the_same_key_are_a_conflict(
    stores: Stores, store: Store, state: str
) -> None:
    """case R49"""
    first, second = start(store), start(store)
    first.begin(KEY)
    if state in ("applied", "failed"):
        getattr(first, state)("pay", key=KEY)
    elif state == "unknown":
        first.fail()
    before = stores.state()

    begun = second.begin(KEY, fingerprint="11 euros")

    assert begun.state == "conflict"
    assert stores.state() == before


def test_a_conflict_that_leads_to_review_is_counted(store: Store) -> None:
    """case R49"""
    first, second = start(store), start(store)
    first.begin(KEY)
    second.begin(KEY, fingerprint="11 euros")

    second.send(
        second.offer(second.releasing("review", why="effect_conflict", doubts=[], tool="bank.pay"))
    )

    assert second.task.reason == "effect_conflict"
    conflicts = counter(
        store, "agent_tool_effect_duplicate_total", tool="bank.pay", disposition="conflict"
    )
    assert conflicts == 1


def test_an_effect_that_failed_may_be_begun_by_anybody(store: Store) -> None:
    """case R51"""
    first, second = start(store), start(store)
    first.begin(KEY)
    first.failed("pay", key=KEY)

    begun = second.begin(KEY, **{"try": 2})

    assert begun.state == "fresh"
    assert effect(store, KEY).task_id == second.task_id


def test_the_doubt_of_a_dead_owner_is_taken_over_by_one(stores: Stores, store: Store) -> None:
    """case R77"""
    dead, heir, third = start(store, "dead"), start(store), start(store)
    dead.begin(KEY)
    stores.move(TTL)
    heir.renew()
    third.renew()
    stores.move(1)
    assert list(reap(store).expired) == [dead.task_id]

    begun, late = heir.begin(KEY), third.begin(KEY)

    assert begun.state == "in_doubt"
    assert isinstance(begun.answer, Written)
    assert late.state == "busy"
    row = effect(store, KEY)
    assert (row.task_id, row.state) == (heir.task_id, "intended")
    heir.applied("pay", "found it", key=KEY)
    assert third.begin(KEY).state == "done"


def test_a_doubt_says_since_when_the_old_owner_cannot_act(stores: Stores, store: Store) -> None:
    """case R77: a probe waits for that moment and more."""
    dead, heir = start(store, "dead"), start(store)
    dead.begin(KEY)
    stores.move(TTL)
    heir.renew()
    stores.move(1)
    reap(store)
    ended_ms = store.now_ms()
    stores.move(500)

    assert heir.begin(KEY).since_ms == ended_ms


def test_a_lapsed_owner_that_nobody_has_declared_dead_is_still_at_it(
    stores: Stores, store: Store
) -> None:
    first, second = start(store), start(store)
    first.begin(KEY)
    stores.move(10 * TTL)

    assert second.begin(KEY).state == "busy"


def test_ones_own_open_intent_is_in_doubt_after_a_resume(store: Store) -> None:
    """case R77"""
    owner = start(store)
    owner.begin(KEY)
    owner.release("deadline")
    heir = claim(store, "new")

    begun = heir.begin(KEY, **{"try": 2})

    assert begun.state == "in_doubt"
    assert effect(store, KEY).tries == 2


def test_an_unknown_effect_is_in_doubt_for_whoever_comes(store: Store) -> None:
    first = start(store)
    first.begin(KEY)
    first.fail()
    assert effect(store, KEY).state == "unknown"

    assert start(store).begin(KEY).state == "in_doubt"


def test_a_person_s_not_applied_makes_way_for_a_new_try(store: Store) -> None:
    first = start(store)
    first.begin(KEY)
    first.fail()
    store.settle(KEY, OPERATOR, applied=False)

    assert start(store).begin(KEY).state == "fresh"


def test_the_old_owner_of_a_doubt_cannot_report_on_it_any_more(
    stores: Stores, store: Store
) -> None:
    """case R77"""
    zombie, heir = start(store), start(store)
    zombie.begin(KEY)
    stores.move(TTL)
    heir.renew()
    stores.move(1)
    reap(store)
    heir.begin(KEY)
    before = stores.state()

    assert why(zombie.failed("pay", key=KEY)) == "lost"
    assert stores.state() == before


def test_a_begin_whose_answer_was_lost_is_sent_again(stores: Stores, store: Store) -> None:
    owner = start(store)
    offer = owner.beginning(KEY)
    first = store.begin(offer)
    before = stores.state()

    again = store.begin(offer)

    assert (again.state, again.answer) == ("fresh", first.answer)
    assert stores.state() == before


def test_a_takeover_whose_answer_was_lost_is_still_in_doubt(stores: Stores, store: Store) -> None:
    """What was in doubt is not fresh because the question was asked twice."""
    first, second = start(store), start(store)
    first.begin(KEY)
    first.fail()
    offer = second.beginning(KEY)
    begun = store.begin(offer)
    before = stores.state()

    again = store.begin(offer)

    assert (begun.state, again.state) == ("in_doubt", "in_doubt")
    assert again.since_ms == begun.since_ms
    assert stores.state() == before


def test_a_zombie_begins_nothing(stores: Stores, store: Store) -> None:
    zombie = start(store)
    store.revoke(zombie.task_id, OPERATOR)
    before = stores.state()

    begun = zombie.begin(KEY)

    assert begun.state == "turned"
    assert why(begun.answer) == "lost"
    assert stores.state() == before


def test_a_zombie_does_not_take_a_doubt_over(stores: Stores, store: Store) -> None:
    first, zombie = start(store), start(store)
    first.begin(KEY)
    first.fail()
    store.revoke(zombie.task_id, OPERATOR)
    before = stores.state()

    assert zombie.begin(KEY).state == "turned"
    assert stores.state() == before


def test_what_an_offer_says_before_its_intent_goes_with_it(store: Store) -> None:
    """All or nothing: with a busy key nothing of the offer is on the log."""
    first, second = start(store), start(store)
    first.begin(KEY)
    offer = second.offer(
        ("note", {"text": "I will pay"}),
        ("effect.intended", second.intent("pay", key=KEY, shared=1)),
    )

    assert store.begin(offer).state == "busy"
    assert "note" not in kinds(store, second.task_id)
    first.failed("pay", key=KEY)
    assert store.begin(offer).state == "fresh"
    assert kinds(store, second.task_id)[-2:] == ["note", "effect.intended"]


def test_a_key_that_is_shared_is_not_begun_by_a_plain_append(stores: Stores, store: Store) -> None:
    first, second = start(store), start(store)
    first.begin(KEY)
    before = stores.state()

    answer = second.write("effect.intended", **second.intent("pay", key=KEY, shared=1))

    assert not isinstance(answer, Written)
    assert stores.state() == before


def test_tasks_that_begin_one_key_at_the_same_moment_act_once(stores: Stores, store: Store) -> None:
    """case R52: twenty keys, four tasks each."""
    owners = [start(store) for _ in range(4)]
    begun: dict[str, list[Begun]] = {f"invoice-{n}": [] for n in range(20)}
    together = Barrier(4)

    def act(owner: Owner, mine: Store) -> None:
        owner.store = mine
        together.wait()
        for key, answers in begun.items():
            answers.append(owner.begin(key))

    threads = [Thread(target=act, args=[owner, stores.open()]) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for answers in begun.values():
        assert sorted(each.state for each in answers) == ["busy", "busy", "busy", "fresh"]


def test_a_doubt_is_taken_over_by_one_of_those_who_ask_at_the_same_moment(
    stores: Stores, store: Store
) -> None:
    """case R77"""
    first = start(store)
    keys = [f"invoice-{n}" for n in range(10)]
    for key in keys:
        first.begin(key)
    first.fail()
    owners = [start(store) for _ in range(3)]
    states: dict[str, list[str]] = {key: [] for key in keys}
    together = Barrier(3)

    def act(owner: Owner, mine: Store) -> None:
        owner.store = mine
        together.wait()
        for key in keys:
            states[key].append(owner.begin(key).state)

    threads = [Thread(target=act, args=[owner, stores.open()]) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {tuple(sorted(each)) for each in states.values()} == {("busy", "busy", "in_doubt")}


def test_a_beginning_asked_again_after_others_went_on_is_no_leave_to_act(store: Store) -> None:
    """Found by the model: a zombie asks again for a lost answer, after a new try was ordered."""
    owner = start(store)
    offer = owner.beginning(KEY)
    assert store.begin(offer).state == "fresh"
    assert store.begin(offer).state == "fresh", "the answer was lost, and nobody has gone on"

    store.revoke(owner.task_id, OPERATOR, now=True)
    assert store.begin(offer).state == "turned"

    heir = claim(store, "heir")
    assert heir.begin(KEY, tries=2).state == "in_doubt"
    assert store.begin(offer).state == "turned"
