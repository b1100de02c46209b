"""The effect ledger: what each intent and each outcome makes of an act on the outside world."""

from __future__ import annotations

import pytest

from outlast.core.model import Turned, Written
from outlast.store.verbs import EffectQuery, Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    claim,
    counter,
    effect,
    kinds,
    reap,
    start,
    why,
)


def test_an_intent_is_in_the_ledger_before_the_act(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(100)

    written = owner.intend("pay")

    assert isinstance(written, Written)
    row = effect(store, owner.key("pay"))
    assert (row.task_id, row.name, row.tool) == (owner.task_id, "pay", "bank.pay")
    assert (row.state, row.tries, row.intent_seq, row.outcome_seq) == (
        "intended",
        1,
        written.seq,
        None,
    )
    assert (row.intended_ms, row.settled_ms) == (store.now_ms(), None)


def test_an_applied_effect_keeps_its_result(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    stores.move(100)

    written = owner.applied("pay", {"id": "pi_1"})

    assert isinstance(written, Written)
    row = effect(store, owner.key("pay"))
    assert (row.state, row.result, row.outcome_seq) == ("applied", '{"id":"pi_1"}', written.seq)
    assert row.settled_ms == store.now_ms()


def test_an_effect_that_failed_is_tried_again_with_the_same_key(store: Store) -> None:
    """case R51, case R80"""
    owner = start(store)
    owner.intend("pay")
    owner.failed("pay")
    assert effect(store, owner.key("pay")).state == "failed"

    owner.intend("pay", **{"try": 2})

    row = effect(store, owner.key("pay"))
    assert (row.state, row.tries, row.error) == ("intended", 2, None)
    owner.applied("pay")
    assert effect(store, owner.key("pay")).state == "applied"


def test_an_intent_whose_owner_died_is_in_doubt(stores: Stores, store: Store) -> None:
    """case R46"""
    owner = start(store)
    owner.intend("pay")
    assert store.find_effects(EffectQuery(in_doubt=True)) == []
    stores.move(TTL + 1)
    # No worker need be alive to see it: nobody may have declared the owner dead yet.
    [lapsed] = store.find_effects(EffectQuery(in_doubt=True))
    reap(store)

    [doubt] = store.find_effects(EffectQuery(in_doubt=True))
    assert (doubt.key, doubt.state) == (owner.key("pay"), "intended")
    assert doubt == lapsed


def test_ten_effects_that_were_cut_off_are_each_as_far_as_they_came(
    stores: Stores, store: Store
) -> None:
    """case R53"""
    owner = start(store)
    owner.send(owner.offer(*[("effect.intended", owner.intent(f"call-{n}")) for n in range(10)]))
    for n in range(4):
        owner.applied(f"call-{n}", n)
    owner.failed("call-4")
    stores.move(TTL + 1)
    reap(store)

    rows = {row.name: row for row in store.find_effects(EffectQuery(task_id=owner.task_id))}
    states = [rows[f"call-{n}"].state for n in range(10)]
    assert states == ["applied"] * 4 + ["failed"] + ["intended"] * 5
    heir = claim(store, "new")
    assert isinstance(heir.intend("call-9", **{"try": 2}), Written)


def test_an_intent_and_its_outcome_in_one_offer_are_one_settled_effect(store: Store) -> None:
    owner = start(store)
    key = owner.key("pay")
    offer = owner.offer(
        ("effect.intended", owner.intent("pay")),
        ("effect.applied", {"key": key, "name": "pay", "result": 1}),
        ("effect.intended", owner.intent("mail")),
    )

    assert isinstance(owner.send(offer), Written)

    assert (effect(store, key).state, effect(store, owner.key("mail")).state) == (
        "applied",
        "intended",
    )


def test_an_outcome_sent_again_does_not_undo_what_came_after_it(
    stores: Stores, store: Store
) -> None:
    """case R69: "the event exists" is no guard, it is true for a resend too."""
    owner = start(store)
    owner.intend("pay")
    failed = owner.offer(
        ("effect.failed", {"key": owner.key("pay"), "error": {"type": "E", "message": ""}})
    )
    owner.send(failed)
    owner.intend("pay", **{"try": 2})
    owner.applied("pay")
    before = stores.state()

    assert isinstance(store.append([failed])[0], Written)
    assert stores.state() == before


def test_an_intent_sent_again_after_its_outcome_does_not_reopen_it(
    stores: Stores, store: Store
) -> None:
    """case R69"""
    owner = start(store)
    intent = owner.offer(("effect.intended", owner.intent("pay")))
    owner.send(intent)
    owner.applied("pay")
    before = stores.state()

    assert isinstance(store.append([intent])[0], Written)
    assert stores.state() == before
    assert effect(store, owner.key("pay")).state == "applied"


def test_a_zombies_outcome_does_not_touch_the_ledger(stores: Stores, store: Store) -> None:
    zombie = start(store)
    zombie.intend("pay")
    stores.move(TTL + 1)
    reap(store)
    heir = claim(store, "new")
    heir.intend("pay", **{"try": 2})
    before = stores.state()

    assert why(zombie.failed("pay")) == "lost"
    assert stores.state() == before


def test_an_effect_cannot_be_begun_under_another_tasks_key(stores: Stores, store: Store) -> None:
    """A plain append is for the task's own keys: shared ones are begun."""
    mine, other = start(store), start(store)
    other.intend("pay")
    before = stores.state()

    answer = mine.write("effect.intended", **mine.intent("pay", key=other.key("pay")))

    assert isinstance(answer, Turned)
    assert stores.state() == before


def test_an_outcome_of_another_tasks_effect_is_no_outcome(store: Store) -> None:
    mine, other = start(store), start(store)
    other.intend("pay")

    mine.applied("pay", key=other.key("pay"))

    assert effect(store, other.key("pay")).state == "intended"


@pytest.mark.parametrize("end", ["succeed", "fail", "acknowledge_cancel"])
def test_a_task_that_ends_over_an_open_intent_says_that_it_is_unknown(
    store: Store, end: str
) -> None:
    """case R79"""
    owner = start(store)
    owner.intend("pay")
    if end == "acknowledge_cancel":
        store.cancel(owner.task_id, OPERATOR)

    assert isinstance(getattr(owner, end)(), Written)

    assert kinds(store, owner.task_id)[-2] == "effect.unknown"
    assert effect(store, owner.key("pay")).state == "unknown"


def test_effects_answered_from_the_log_are_counted(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.applied("pay")
    owner.release()
    heir = claim(store)

    heir.write(
        "replay.finished", through=4, answered=3, unused=[], suppressed={"bank.pay": 1, "mail": 2}
    )

    duplicates = "agent_tool_effect_duplicate_total"
    assert counter(store, duplicates, tool="bank.pay", disposition="suppressed") == 1
    assert counter(store, duplicates, tool="mail", disposition="suppressed") == 2


def test_effects_taken_over_from_the_world_are_counted(store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.applied("pay", adopted=True, tool="bank.pay")

    duplicates = "agent_tool_effect_duplicate_total"
    assert counter(store, duplicates, tool="bank.pay", disposition="adopted") == 1


def test_counting_is_not_repeated_when_the_event_is_sent_again(store: Store) -> None:
    """case R69"""
    owner = start(store)
    said = {"through": 2, "answered": 1, "unused": [], "suppressed": {"bank.pay": 1}}
    offer = owner.offer(("replay.finished", said))

    for _ in range(3):
        store.append([offer])

    assert counter(store, "agent_tool_effect_duplicate_total", tool="bank.pay") == 1


def test_effects_are_found_by_task_key_and_state(stores: Stores, store: Store) -> None:
    one, other = start(store), start(store)
    one.intend("pay")
    stores.move(1)
    one.applied("pay")
    one.intend("mail")
    stores.move(1)
    other.intend("pay")

    def found(**wanted: object) -> list[str]:
        return [row.key for row in store.find_effects(EffectQuery(**wanted))]  # type: ignore[arg-type]

    assert found() == [other.key("pay"), one.key("mail"), one.key("pay")]
    assert found(task_id=one.task_id) == [one.key("mail"), one.key("pay")]
    assert found(key=one.key("mail")) == [one.key("mail")]
    assert found(states=["applied"]) == [one.key("pay")]
    assert found(limit=1) == [other.key("pay")]
