"""Waiting without a lease: timers, signals, and the moment when both meet."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from outlast.core.model import Signal, Turned, Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import (
    TTL,
    body,
    claim,
    grants,
    kinds,
    log,
    reap,
    signal,
    start,
    submit,
    why,
)


def test_a_waiting_task_holds_no_lease(store: Store) -> None:
    owner = start(store)

    owner.wait("approval")

    assert (owner.task.state, owner.task.waiting_for) == ("waiting", "approval")
    assert owner.lease is None
    assert grants(store) == []


def test_a_sleeping_task_is_woken_when_its_time_has_come(stores: Stores, store: Store) -> None:
    """case R18"""
    owner = start(store)
    owner.wait(None, until_ms=store.now_ms() + 60_000)
    stores.move(59_999)
    assert list(reap(store).woken) == []

    stores.move(1)
    assert list(reap(store).woken) == [owner.task_id]

    assert (owner.task.state, owner.task.reason) == ("ready", "woken")
    heir = claim(store, "new")
    assert (heir.epoch, heir.grant.reason) == (2, "woken")


def test_a_wake_is_no_event_and_happens_once(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.wait(None, until_ms=store.now_ms() + 1)
    stores.move(1)
    before = log(store, owner.task_id)

    reap(store)
    assert list(reap(store).woken) == []

    assert log(store, owner.task_id) == before


def test_a_holder_that_went_to_sleep_is_refused_after_the_wake(
    stores: Stores, store: Store
) -> None:
    """case R16"""
    owner = start(store, "old")
    owner.wait(None, until_ms=store.now_ms() + 1)
    stores.move(1)
    reap(store)
    heir = claim(store, "new")

    assert why(owner.note("good morning")) == "lost"
    assert owner.renew().state == "lost"
    assert isinstance(heir.note(), Written)


def test_a_signal_wakes_the_task_that_waits_for_it(store: Store) -> None:
    owner = start(store)
    owner.wait("approval", until_ms=store.now_ms() + 3_600_000)

    sent = signal(store, owner.task_id, "approval", {"ok": True})

    assert (owner.task.state, owner.task.reason) == ("ready", "woken")
    heir = claim(store, "new")
    [unread] = store.signals(owner.task_id)
    assert (unread.id, unread.payload, unread.sent_by) == (sent.id, '{"ok":true}', "ann")
    assert unread.sent_ms == store.now_ms()
    heir.read_signal(unread)
    assert store.signals(owner.task_id) == []
    assert body(log(store, owner.task_id)[-1])["payload"] == {"ok": True}


def test_a_signal_of_another_name_lets_it_sleep(store: Store) -> None:
    owner = start(store)
    owner.wait("approval")

    signal(store, owner.task_id, "weather")

    assert owner.task.state == "waiting"
    assert len(store.signals(owner.task_id)) == 1


@pytest.mark.parametrize("state", ["ready", "running", "waiting", "review"])
def test_a_signal_before_its_wait_is_kept(store: Store, state: str) -> None:
    owner = start(store)
    moves = {
        "ready": owner.release,
        "running": owner.note,
        "waiting": lambda: owner.wait("other"),
        "review": lambda: owner.ask_a_person("replay_mismatch"),
    }
    moves[state]()

    signal(store, owner.task_id, "approval")

    assert owner.task.state == state
    assert [each.name for each in store.signals(owner.task_id)] == ["approval"]


def test_signals_are_read_oldest_first(stores: Stores, store: Store) -> None:
    task = submit(store)
    sent = []
    for _ in range(3):
        sent.append(signal(store, task.id, "n").id)
        stores.move(1)

    assert [each.id for each in store.signals(task.id)] == sent


def test_a_signal_sent_twice_is_one_signal(stores: Stores, store: Store) -> None:
    """case R54"""
    task = submit(store)
    sent = signal(store, task.id, "approval", {"ok": True}, id="click-1")
    before = stores.state()

    assert store.signal(task.id, sent) is False
    assert stores.state() == before
    assert store.signal(task.id, Signal("click-2", task.id, "approval", "true", "bob", 0)) is True


def test_a_signal_sent_again_after_it_was_read_is_nothing_new(stores: Stores, store: Store) -> None:
    """case R54: its first answer was lost, and it must not answer the next wait as well."""
    owner = start(store)
    sent = signal(store, owner.task_id, "approval", {"pay": 10}, id="click-1")
    owner.read_signal(sent)
    before = stores.state()

    assert store.signal(owner.task_id, sent) is False

    assert store.signals(owner.task_id) == []
    assert stores.state() == before
    assert isinstance(owner.wait("approval"), Written)


def test_a_signal_is_consumed_by_the_wait_that_names_it_and_by_no_other(store: Store) -> None:
    """case R20: each answer reaches its own call."""
    owner = start(store)
    sent = [signal(store, owner.task_id, name, name) for name in ("call-1", "call-2", "call-3")]

    owner.read_signal(sent[1])

    assert [each.name for each in store.signals(owner.task_id)] == ["call-1", "call-3"]
    assert isinstance(owner.wait("call-2"), Written)
    assert owner.task.state == "waiting"


def test_a_signal_that_is_consumed_in_a_refused_event_is_still_there(
    stores: Stores, store: Store
) -> None:
    """case R16, case R69: what an event changes is changed by this very insert only."""
    zombie = start(store)
    sent = signal(store, zombie.task_id, "approval")
    stores.move(TTL + 1)
    reap(store)
    claim(store, "new")

    assert why(zombie.read_signal(sent)) == "lost"
    assert [each.id for each in store.signals(zombie.task_id)] == [sent.id]


def test_a_wait_ended_sent_again_consumes_nothing_more(store: Store) -> None:
    owner = start(store)
    sent = signal(store, owner.task_id, "approval")
    ended = owner.offer(
        (
            "wait.ended",
            {"key": "approval", "name": "approval", "cause": "signal", "signal": sent.id},
        )
    )
    [written] = store.append([ended])
    other = signal(store, owner.task_id, "approval")

    assert store.append([ended]) == [written]
    assert [each.id for each in store.signals(owner.task_id)] == [other.id]


def test_a_signal_of_another_task_cannot_be_consumed(store: Store) -> None:
    mine, other = start(store), start(store)
    sent = signal(store, other.task_id, "approval")

    mine.read_signal(sent)

    assert [each.id for each in store.signals(other.task_id)] == [sent.id]


# -- the moment when both meet -----------------------------------------------------------------


def test_a_task_does_not_lie_down_over_a_signal_that_is_there(stores: Stores, store: Store) -> None:
    """case R75"""
    owner = start(store)
    sent = signal(store, owner.task_id, "approval")
    before = stores.state()

    assert why(owner.wait("approval")) == "signal_waiting"

    assert stores.state() == before
    assert isinstance(owner.read_signal(sent), Written)


def test_nor_over_a_timer_that_has_passed(stores: Stores, store: Store) -> None:
    owner = start(store)
    before = stores.state()

    assert why(owner.wait(None, until_ms=store.now_ms() - 1)) == "signal_waiting"
    assert stores.state() == before


def test_a_wait_that_keeps_the_lease_is_not_asked(store: Store) -> None:
    owner = start(store)
    signal(store, owner.task_id, "approval")
    said = ("wait.started", {"key": "approval", "name": "approval", "until_ms": None})

    assert isinstance(owner.send(owner.offer(said)), Written)
    assert owner.task.state == "running"


def test_a_signal_and_a_wait_at_the_same_moment_never_miss_each_other(
    stores: Stores, store: Store
) -> None:
    """case R75: a signal that is unread means ready or running, never waiting."""
    owners = [start(store) for _ in range(60)]
    waits = [owner.offer(owner.waiting("approval")) for owner in owners]
    signals = [
        Signal(f"both-{number}", owner.task_id, "approval", "true", "ann", 0)
        for number, owner in enumerate(owners)
    ]
    together = Barrier(2)
    answers: list[object] = []

    def wait(mine: Store) -> None:
        together.wait()
        for offer in waits:
            answers.extend(mine.append([offer]))

    def send(mine: Store) -> None:
        together.wait()
        for each in signals:
            mine.signal(each.task_id, each)

    threads = [Thread(target=work, args=[stores.open()]) for work in (wait, send)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for owner, answer in zip(owners, answers, strict=True):
        if isinstance(answer, Turned):
            assert (answer.why, owner.task.state) == ("signal_waiting", "running")
        else:
            assert (owner.task.state, owner.task.reason) == ("ready", "woken")


def test_a_wake_that_was_missed_is_caught_up_by_the_reaper(stores: Stores, store: Store) -> None:
    """Whatever lost it, an unread signal does not leave its task asleep for ever."""
    owner = start(store)
    owner.wait("approval")
    stores.change(
        "insert into signals (id, task_id, name, payload, sent_by, sent_ms) values (?,?,?,?,?,?)",
        "behind the back",
        owner.task_id,
        "approval",
        "true",
        "nobody",
        store.now_ms(),
    )

    assert list(reap(store).woken) == [owner.task_id]
    assert owner.task.state == "ready"


def test_a_signal_to_a_woken_task_is_kept_for_its_heir(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.wait("approval", until_ms=store.now_ms() + 1)
    stores.move(1)
    reap(store)

    signal(store, owner.task_id, "approval")

    assert owner.task.state == "ready"
    assert len(store.signals(owner.task_id)) == 1


def test_a_wait_is_progress_or_not_as_the_lease_was(stores: Stores, store: Store) -> None:
    owner = start(store)
    for _ in range(2):
        stores.move(TTL + 1)
        reap(store)
        stores.move(600_000)
        owner = claim(store)
    assert owner.task.resumes == 2

    owner.wait("approval")
    assert owner.task.resumes == 2, "no result yet"
    signal(store, owner.task_id, "approval")
    owner = claim(store)
    owner.step()
    owner.wait("approval again")

    assert owner.task.resumes == 0
    assert kinds(store, owner.task_id)[-2:] == ["step.done", "wait.started"]
