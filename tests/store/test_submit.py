"""Submitting tasks, and finding them again."""

from __future__ import annotations

import json

import pytest

from outlast.core.clock import uuid7
from outlast.core.errors import KeyReused, NotAllowedNow, PayloadTooLarge, UnknownTask, UsageError
from outlast.core.limits import PAYLOAD_BYTES, SUBMIT_BATCH
from outlast.store.verbs import Query, Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    body,
    claim,
    grants,
    kinds,
    log,
    new_task,
    signal,
    start,
    submit,
)


def test_a_submitted_task_is_ready_and_is_its_own_first_event(store: Store) -> None:
    task = submit(store, input='{"repo":"a/b"}', by="ann", labels={"team": "blue"}, priority=3)

    assert (task.state, task.reason, task.epoch, task.priority) == ("ready", "first", 0, 3)
    [event] = log(store, task.id)
    assert (event.seq, event.holder, event.kind) == (1, 0, "task.submitted")
    said = body(event)
    assert (said["agent"], said["input"], said["by"]) == ("agent", {"repo": "a/b"}, "ann")
    assert (task.head_seq, task.head_digest) == (1, event.digest)


def test_an_acknowledged_submit_is_there_for_everybody_else(stores: Stores, store: Store) -> None:
    """case R27"""
    task = submit(store)
    store.close()

    assert stores.open().get(task.id) == task


def test_a_submit_whose_answer_was_lost_is_sent_again_and_changes_nothing(
    stores: Stores, store: Store
) -> None:
    wanted = new_task(store)
    [first] = store.submit([wanted])
    before = stores.state()

    [again] = store.submit([wanted])

    assert (first.created, again.created) == (True, False)
    assert (again.task, stores.state()) == (first.task, before)


def test_the_same_key_gives_the_same_task_back(stores: Stores, store: Store) -> None:
    """case R50"""
    first = submit(store, key="a/b#7")
    before = stores.state()

    [again] = store.submit([new_task(store, key="a/b#7")])

    assert (again.created, again.task.id, stores.state()) == (False, first.id, before)


@pytest.mark.parametrize(
    "other", [{"input": '{"n":2}'}, {"agent": "other"}], ids=["input", "agent"]
)
def test_a_key_with_another_agent_or_input_is_refused(
    stores: Stores, store: Store, other: dict[str, str]
) -> None:
    first = submit(store, key="a/b#7")
    before = stores.state()

    with pytest.raises(KeyReused) as refused:
        submit(store, key="a/b#7", **other)

    assert (refused.value.task_id, stores.state()) == (first.id, before)


def test_a_key_belongs_to_its_task_when_that_has_ended_too(store: Store) -> None:
    owner = start(store, key="a/b#7")
    owner.succeed()

    [again] = store.submit([new_task(store, key="a/b#7")])

    assert (again.created, again.task.state) == (False, "succeeded")


def test_the_same_input_in_another_spelling_is_the_same_input(store: Store) -> None:
    first = submit(store, key="a/b#7", input='{"a":1,"b":2}')

    assert submit(store, key="a/b#7", input='{ "b": 2, "a": 1 }').id == first.id


def test_a_batch_is_stored_all_or_none(stores: Stores, store: Store) -> None:
    submit(store, key="taken")
    before = stores.state()

    with pytest.raises(KeyReused):
        store.submit([new_task(store), new_task(store, key="taken", input='{"n":2}')])

    assert stores.state() == before


def test_a_batch_keeps_its_order_and_a_key_in_it_twice_is_one_task(store: Store) -> None:
    wanted = [new_task(store, key=key) for key in ("a", "b", "a")]

    answers = store.submit(wanted)

    assert [each.created for each in answers] == [True, True, False]
    assert [each.task.id for each in answers] == [wanted[0].id, wanted[1].id, wanted[0].id]


@pytest.mark.parametrize(
    "wrong",
    ["not json", "[1, 2]", '"text"', '{"n": NaN}', ""],
    ids=["prose", "list", "text", "nan", "empty"],
)
def test_input_that_is_no_json_object_is_refused(stores: Stores, store: Store, wrong: str) -> None:
    before = stores.state()

    with pytest.raises(UsageError):
        submit(store, input=wrong)

    assert stores.state() == before


def test_input_over_the_limit_is_refused_with_both_sizes(stores: Stores, store: Store) -> None:
    text = '{"n":"' + "x" * PAYLOAD_BYTES + '"}'

    with pytest.raises(PayloadTooLarge, match=f"{PAYLOAD_BYTES:,}"):
        submit(store, input=text)

    assert stores.rows("select id from tasks") == []


def test_more_tasks_than_a_batch_may_hold_are_refused(stores: Stores, store: Store) -> None:
    with pytest.raises(UsageError):
        store.submit([new_task(store) for _ in range(SUBMIT_BATCH + 1)])

    assert stores.rows("select id from tasks") == []


def test_nothing_submitted_is_nothing_written(store: Store) -> None:
    assert store.submit([]) == []


VALUES = {
    "nul": r'"\u0000"',
    "emoji": '"🦊"',
    "2^63": "9223372036854775808",
    "quotes": r'"\"\\"',
    "nested": '[{"a":[null,true,1.5]}]',
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_what_json_can_say_comes_back_as_it_was(store: Store, value: str) -> None:
    """case R62"""
    task = submit(store, input='{"n":' + value + "}")

    owner = claim(store)

    assert owner.grant.task.input == task.input
    assert json.loads(task.input) == {"n": json.loads(value)}
    assert body(log(store, task.id)[0])["input"] == {"n": json.loads(value)}


def test_a_number_that_no_program_can_hold_is_refused(stores: Stores, store: Store) -> None:
    """case R62"""
    with pytest.raises(UsageError):
        submit(store, input='{"n":1e400}')

    assert stores.rows("select id from tasks") == []


def test_a_task_is_found_by_a_beginning_of_its_id(store: Store) -> None:
    task = submit(store)
    submit(store, id=uuid7(1, 3))

    assert store.get(task.id[:8]).id == task.id


def test_a_beginning_that_fits_two_tasks_is_not_guessed(store: Store) -> None:
    first, second = submit(store), submit(store)
    assert first.id[:8] == second.id[:8]

    with pytest.raises(UsageError):
        store.get(first.id[:8])


def test_a_beginning_that_is_too_short_is_no_name(store: Store) -> None:
    task = submit(store)

    with pytest.raises(UsageError):
        store.get(task.id[:7])


@pytest.mark.parametrize("wild", ["%", "________", "0_______%"])
def test_an_id_is_not_a_pattern(store: Store, wild: str) -> None:
    submit(store)

    with pytest.raises(UsageError):
        store.get(wild)


def test_what_is_not_there_is_said_to_be_unknown(store: Store) -> None:
    nobody = new_task(store).id
    unknown = [
        lambda: store.get(nobody),
        lambda: store.cancel(nobody, OPERATOR),
        lambda: signal(store, nobody, "approval"),
        lambda: store.retry(nobody, OPERATOR),
        lambda: store.revoke(nobody, OPERATOR),
    ]
    for ask in unknown:
        with pytest.raises(UnknownTask):
            ask()


def test_tasks_are_listed_newest_first_page_by_page(stores: Stores, store: Store) -> None:
    ids = []
    for _ in range(5):
        ids.append(submit(store).id)
        stores.move(1)

    first = store.find(Query(limit=2))
    second = store.find(Query(limit=2, after=first[-1].task.id))
    third = store.find(Query(limit=2, after=second[-1].task.id))

    listed = [held.task.id for page in (first, second, third) for held in page]
    assert listed == ids[::-1]


def test_a_list_is_narrowed_by_what_a_task_is(stores: Stores, store: Store) -> None:
    plain = submit(store)
    stores.move(10)
    blue = submit(store, queue="slow", agent="other", key="k", labels={"team": "blue", "x": "1"})

    def found(**wanted: object) -> list[str]:
        return [held.task.id for held in store.find(Query(**wanted))]  # type: ignore[arg-type]

    assert found(queue="slow") == [blue.id]
    assert found(agent="agent") == [plain.id]
    assert found(key="k") == [blue.id]
    assert found(labels={"team": "blue"}) == [blue.id]
    assert found(labels={"team": "blue", "x": "2"}) == []
    assert found(since_ms=blue.created_ms) == [blue.id]
    assert found(states=["running"]) == []
    assert found(states=["ready", "running"]) == [blue.id, plain.id]


@pytest.mark.parametrize("text", ["50%", "a_b", "it's", '"quoted"', "back\\slash"])
def test_a_search_text_is_taken_literally(store: Store, text: str) -> None:
    submit(store, labels={"say": "50 percent, aXb, its"})
    wanted = submit(store, labels={"say": f"so {text} it is"}, key=f"key {text}")

    assert [held.task.id for held in store.find(Query(text=text))] == [wanted.id]


def test_a_held_task_is_listed_with_its_owner_and_its_effects(stores: Stores, store: Store) -> None:
    owner = start(store, worker="old")
    owner.intend("pay")
    owner.applied("pay")
    owner.intend("mail")
    stores.move(100)

    [held] = store.find(Query(states=["running"]))

    assert held.lease is not None
    assert held.worker is not None
    assert (held.lease.grant, held.worker.id) == (owner.grant.event.digest, "worker-old")
    assert held.lease.expires_ms - held.now_ms == TTL - 100
    assert dict(held.effects) == {"applied": 1, "intended": 1}


def test_priorities_go_first_then_who_was_due_first(stores: Stores, store: Store) -> None:
    last = submit(store)
    stores.move(1)
    later = submit(store, priority=1)
    stores.move(1)
    first = submit(store, priority=2)
    stores.move(1)
    between = submit(store, priority=1)

    order = [claim(store).task_id for _ in range(4)]

    assert order == [first.id, later.id, between.id, last.id]


def test_a_task_due_later_is_run_once_at_its_time_and_holds_no_lease_meanwhile(
    stores: Stores, store: Store
) -> None:
    """case R18"""
    task = submit(store, delay_ms=7_200_000)
    stores.move(7_199_999)
    assert (grants(store), store.get(task.id).state) == ([], "ready")

    stores.move(1)
    claim(store).succeed()

    assert grants(store) == []
    assert kinds(store, task.id) == ["task.submitted", "lease.granted", "task.succeeded"]


def test_an_ended_task_takes_no_signal(store: Store) -> None:
    owner = start(store)
    owner.succeed()

    with pytest.raises(NotAllowedNow):
        signal(store, owner.task_id, "approval")
