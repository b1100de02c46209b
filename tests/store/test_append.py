"""The fence: to write the next event, quote the last, as its holder, and find its place free."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outlast.core.chain import Quote, entry
from outlast.core.model import Offer, Turned, Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    Owner,
    body,
    claim,
    kinds,
    log,
    reap,
    start,
    submit,
    why,
)


def test_an_owner_writes_one_event_after_the_other(store: Store) -> None:
    owner = start(store)

    first, second = owner.step("plan", {"parts": 2}), owner.note("half way")

    assert isinstance(first, Written)
    assert isinstance(second, Written)
    assert (first.seq, second.seq) == (3, 4)
    assert [event.digest for event in log(store, owner.task_id)[2:]] == [
        first.digest,
        second.digest,
    ]
    assert [event.holder for event in log(store, owner.task_id)] == [0, 1, 1, 1]


def test_an_event_is_stored_as_it_was_offered(store: Store) -> None:
    owner = start(store)
    offer = owner.offer(("step.done", {"key": "a", "result": {"z": 1, "a": [1.5, "ü\x00🦊"]}}))

    owner.send(offer)

    assert log(store, owner.task_id)[-1] == offer.last


def test_an_offer_of_several_events_stands_whole(store: Store) -> None:
    owner = start(store)

    answer = owner.send(owner.offer(*[("note", {"text": str(n)}) for n in range(5)]))

    assert answer == Written(7, owner.quote.digest)
    assert [body(event)["text"] for event in log(store, owner.task_id)[2:]] == list("01234")


def test_an_offer_whose_answer_was_lost_is_sent_again_and_written_once(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    offer = owner.offer(("note", {"text": "a"}), ("step.done", {"key": "a", "result": 1}))
    [written] = store.append([offer])
    before = stores.state()
    stores.move(1_000)

    assert store.append([offer]) == [written]
    assert stores.state() == before


def test_an_offer_is_still_found_when_the_log_has_gone_on(stores: Stores, store: Store) -> None:
    """The owner hears "written" even if an heir has written since."""
    owner = start(store)
    offer = owner.offer(("step.done", {"key": "a", "result": 1}))
    [written] = store.append([offer])
    stores.move(TTL + 1)
    reap(store)
    claim(store, "new").note()
    before = stores.state()

    assert store.append([offer]) == [written]
    assert store.stands(offer) == written
    assert stores.state() == before


def test_whether_an_offer_stands_can_be_asked_without_writing_it(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    offer = owner.offer(("note", {"text": "a"}))
    before = stores.state()

    assert why(store.stands(offer)) == "again"
    assert stores.state() == before
    [written] = store.append([offer])
    assert store.stands(offer) == written


def test_two_offers_for_one_place_are_written_once(store: Store) -> None:
    owner = start(store)
    one, other = (owner.offer(("note", {"text": text})) for text in ("one", "other"))

    store.append([one])

    assert [why(answer) for answer in store.append([other])] == ["lost"]
    assert body(log(store, owner.task_id)[-1])["text"] == "one"


# -- zombies -----------------------------------------------------------------------------------


def lapse(stores: Stores, store: Store, owner: Owner) -> None:
    stores.move(TTL + 1)
    assert list(reap(store).expired) == [owner.task_id]


def revoke(stores: Stores, store: Store, owner: Owner) -> None:
    store.revoke(owner.task_id, OPERATOR)


def crash(stores: Stores, store: Store, owner: Owner) -> None:
    assert store.crash(owner.worker, by="parent") == [owner.task_id]


def let_go(stores: Stores, store: Store, owner: Owner) -> None:
    store.append([owner.offer(owner.releasing("drain"))])


def force_cancel(stores: Stores, store: Store, owner: Owner) -> None:
    store.cancel(owner.task_id, OPERATOR, force=True)


def end(stores: Stores, store: Store, owner: Owner) -> None:
    store.append([owner.offer(("task.succeeded", {"result": 1}))])


Ending = Callable[[Stores, Store, Owner], None]
ENDINGS = [lapse, revoke, crash, let_go, force_cancel, end]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_owner_whose_lease_has_ended_writes_nothing_more(
    stores: Stores, store: Store, ending: Ending
) -> None:
    """case R13, case R71: heir or no heir, the fence is closed."""
    zombie = start(store)
    ending(stores, store, zombie)
    before = stores.state()

    assert why(zombie.note()) == "lost"
    assert why(zombie.succeed()) == "lost"
    assert why(zombie.release("trust")) == "lost"
    assert stores.state() == before


@pytest.mark.parametrize("ending", ENDINGS[:4])
def test_an_owner_that_has_an_heir_writes_nothing_more(
    stores: Stores, store: Store, ending: Ending
) -> None:
    """case R13, case R16, case R72"""
    zombie = start(store)
    ending(stores, store, zombie)
    stores.move(TTL)
    heir = claim(store, "new")
    before = stores.state()

    assert why(zombie.step()) == "lost"
    assert why(zombie.succeed("zombie's")) == "lost"

    assert stores.state() == before
    heir.succeed("heir's")
    assert store.get(heir.task_id).result == '"heir\'s"'


def test_what_the_fence_turned_away_is_kept_and_counted(stores: Stores, store: Store) -> None:
    """case R13"""
    zombie = start(store)
    lapse(stores, store, zombie)
    heir = claim(store, "new")
    heir.succeed()

    for _ in range(3):
        zombie.note("I am still here")

    [kept] = store.observations(heir.task_id)
    assert (kept.kind, kept.epoch, kept.worker, kept.count) == ("refused", 1, "worker-old", 3)


def test_a_note_from_a_late_finally_is_refused(store: Store) -> None:
    """case R71"""
    owner = start(store)
    owner.release("drain")

    assert why(owner.note("finally")) == "lost"
    assert kinds(store, owner.task_id)[-1] == "lease.released"


def test_an_epoch_that_was_never_given_writes_nothing(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.epoch = 2
    before = stores.state()

    assert why(owner.note()) == "lost"
    assert stores.state() == before


def test_nobody_writes_into_a_task_that_is_owned_by_none(stores: Stores, store: Store) -> None:
    """An offer of epoch 0 quotes an event whose holder is nobody: the gate is for owners."""
    task = submit(store)
    [first] = log(store, task.id)
    forged = entry(Quote.of(first), 0, holder=0, kind="note", body="{}", at_ms=first.at_ms)
    before = stores.state()

    [answer] = store.append([Offer((forged,), "worker-old")])

    assert isinstance(answer, Turned)
    assert stores.state() == before


def test_a_release_sent_again_after_the_heir_took_over_changes_nothing(
    stores: Stores, store: Store
) -> None:
    """case R69"""
    old = start(store)
    release = old.offer(old.releasing("drain"))
    [written] = store.append([release])
    heir = claim(store, "new")
    heir.note()
    before = stores.state()

    assert store.append([release]) == [written]

    assert stores.state() == before
    assert heir.renew().state == "held"
    assert isinstance(heir.note(), Written)


@pytest.mark.parametrize("kind", ["task.succeeded", "lease.released", "wait.started"])
def test_an_end_sent_again_after_an_operator_reopened_the_task_changes_nothing(
    stores: Stores, store: Store, kind: str
) -> None:
    """case R69"""
    old = start(store)
    said = {
        "task.succeeded": ("task.succeeded", {"result": 1}),
        "lease.released": old.releasing("review", why="replay_mismatch", doubts=[]),
        "wait.started": old.waiting(until_ms=store.now_ms() + 1_000_000),
    }[kind]
    ending = old.offer(said)
    [written] = store.append([ending])
    if kind == "wait.started":
        stores.move(1_000_001)
        reap(store)
    else:
        store.retry(old.task_id, OPERATOR)
    heir = claim(store, "new")
    before = stores.state()

    assert store.append([ending]) == [written]
    assert stores.state() == before
    assert isinstance(heir.note(), Written)


# -- reading -----------------------------------------------------------------------------------


def test_a_log_is_read_page_by_page(store: Store) -> None:
    owner = start(store)
    for number in range(5):
        owner.note(str(number))

    assert [event.seq for event in store.read(owner.task_id, after=2, limit=3)] == [3, 4, 5]
    assert [event.seq for event in store.read(owner.task_id, after=5)] == [6, 7]


def test_the_newest_event_of_a_kind_is_found(store: Store) -> None:
    owner = start(store)
    owner.write("checkpoint", state={"round": 1}, counts={"think": 50})
    owner.note()
    owner.write("checkpoint", state={"round": 2}, counts={"think": 99})
    owner.note("the last")

    assert body(store.last(owner.task_id, "checkpoint"))["state"] == {"round": 2}
    assert body(store.last(owner.task_id, ""))["text"] == "the last"
    assert store.last(owner.task_id, "task.failed") is None


def test_an_offer_that_mixes_tasks_is_refused(stores: Stores, store: Store) -> None:
    one, other = start(store), start(store)
    mixed = Offer(
        (*one.offer(("note", {})).entries, *other.offer(("note", {})).entries), "worker-old"
    )
    before = stores.state()

    [answer] = store.append([mixed])

    assert isinstance(answer, Turned)
    assert stores.state() == before
