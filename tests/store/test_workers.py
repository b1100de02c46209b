"""Workers: made known, asked to drain, gone; and what they counted."""

from __future__ import annotations

import pytest

from outlast.core.errors import UnknownWorker
from outlast.store.verbs import Order, Store
from tests.store.databases import Stores
from tests.store.world import OPERATOR, TTL, claim, counter, enlisted, grants, start, submit, worker


def test_an_enlisted_worker_is_known_with_the_databases_times(stores: Stores, store: Store) -> None:
    known = store.enlist(worker("new", slots=3))

    assert (known.state, known.slots, known.started_ms, known.beat_ms) == (
        "active",
        3,
        store.now_ms(),
        store.now_ms(),
    )
    assert store.workers() == [known]


def test_enlisting_again_is_the_same_worker(stores: Stores, store: Store) -> None:
    first = store.enlist(worker("new"))
    stores.move(1_000)

    again = store.enlist(worker("new"))

    assert (again.id, again.started_ms) == (first.id, first.started_ms)
    assert len(store.workers()) == 1


def test_one_worker_is_asked_to_drain(store: Store) -> None:
    for name in ("old", "new"):
        enlisted(store, name)

    asked = store.order_drain(Order("ann", "deploy"), worker_id="worker-old")

    assert [each.id for each in asked] == ["worker-old"]
    states = {each.id: each.state for each in store.workers()}
    assert states == {"worker-old": "draining", "worker-new": "active"}
    assert "ann" in (asked[0].drain_by or "")
    assert (store.renew("worker-old", []).drain, store.renew("worker-new", []).drain) == (
        True,
        False,
    )


def test_all_workers_of_a_build_are_asked_to_drain(store: Store) -> None:
    """case R36"""
    enlisted(store, "a", build="build-1")
    enlisted(store, "b", build="build-1")
    enlisted(store, "c", build="build-2")

    asked = store.order_drain(OPERATOR, build="build-1")

    assert sorted(each.id for each in asked) == ["worker-a", "worker-b"]


def test_everybody_is_asked_to_drain(store: Store) -> None:
    enlisted(store, "a")
    enlisted(store, "b")
    enlisted(store, "gone")
    store.retire("worker-gone")

    assert sorted(each.id for each in store.order_drain(OPERATOR)) == ["worker-a", "worker-b"]


def test_nobody_to_ask_is_nobody_asked_and_a_wrong_name_is_said_to_be_wrong(store: Store) -> None:
    assert store.order_drain(OPERATOR) == []
    with pytest.raises(UnknownWorker):
        store.order_drain(OPERATOR, worker_id="nobody")


def test_a_worker_that_drains_is_given_nothing_more(store: Store) -> None:
    """case R36"""
    submit(store)
    enlisted(store, "old")
    store.order_drain(OPERATOR, worker_id="worker-old")

    assert grants(store, "old") == []
    assert len(grants(store, "new")) == 1


def test_a_worker_says_itself_that_it_drains(store: Store) -> None:
    enlisted(store, "old")

    store.retire("worker-old", "draining")

    [known] = store.workers()
    assert known.state == "draining"


def test_retiring_twice_is_retiring(store: Store) -> None:
    enlisted(store, "old")
    store.retire("worker-old")
    store.retire("worker-old")

    assert [each.state for each in store.workers() if each.state != "retired"] == []


def test_what_a_worker_counted_survives_it(stores: Stores, store: Store) -> None:
    """case R65: counters do not fall when workers come and go."""
    for name in ("a", "b"):
        for _ in range(3):
            start(store, name).succeed()
    ended = counter(store, "agent_task_terminal_total", state="succeeded")

    store.retire("worker-a")
    store.retire("worker-b")

    assert ended == 6
    assert counter(store, "agent_task_terminal_total", state="succeeded") == 6
    assert {row["worker"] for row in stores.rows("select worker from counters")} == {""}


def test_a_retired_worker_that_still_owns_something_is_recovered(
    stores: Stores, store: Store
) -> None:
    owner = start(store, "old")
    store.retire("worker-old")
    stores.move(TTL + 1)

    assert list(store.reap(since_ms=store.now_ms()).expired) == [owner.task_id]
    assert claim(store, "new").epoch == 2
