"""The effect ledger: what each intent and each outcome makes of an act on the outside world."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from outlast.core.errors import NotAllowedNow, UnknownEffect
from outlast.core.model import Turned, Written
from outlast.store.verbs import EffectQuery, Store
from tests.store.databases import Stores
from tests.store.test_append import why
from tests.store.world import (
    OPERATOR,
    TTL,
    body,
    claim,
    counter,
    effect,
    kinds,
    log,
    reap,
    start,
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
    assert store.find_effects(EffectQuery(states=["intended", "unknown"])) == []
    stores.move(TTL + 1)
    reap(store)

    [doubt] = store.find_effects(EffectQuery(states=["intended", "unknown"]))
    assert (doubt.key, doubt.state) == (owner.key("pay"), "intended")


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
