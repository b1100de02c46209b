"""Operators and owners at the same moment: whoever asks gets an answer, never a stack of errors."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from outlast.core.model import Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import OPERATOR, TTL, Owner, kinds, start

ROUNDS = 15


def writing(stores: Stores, owner: Owner, stop: Event) -> Thread:
    """A thread in which an owner writes as fast as it can, until it is fenced or told to stop."""
    owner.store = stores.open()

    def write() -> None:
        while not stop.is_set() and isinstance(owner.note(), Written):
            pass

    thread = Thread(target=write)
    thread.start()
    return thread


def revoke(store: Store, task_id: str) -> None:
    assert store.revoke(task_id, OPERATOR, now=True).state == "ready"


def force(store: Store, task_id: str) -> None:
    assert store.cancel(task_id, OPERATOR, force=True).state == "cancelled"


def crash(store: Store, task_id: str) -> None:
    assert store.crash("worker-old", by="parent") == [task_id]


@pytest.mark.parametrize("end", [revoke, force, crash])
def test_a_lease_is_ended_under_an_owner_that_writes_as_fast_as_it_can(
    stores: Stores, store: Store, end: Callable[[Store, str], None]
) -> None:
    """case R14: between the look at the last event and the write behind it, the owner writes."""
    for _ in range(ROUNDS):
        owner, stop = start(store), Event()
        thread = writing(stores, owner, stop)
        try:
            end(store, owner.task_id)
        finally:
            stop.set()
            thread.join()
        assert kinds(store, owner.task_id)[-1] != "note"
        store.cancel(owner.task_id, OPERATOR)


def test_a_reaper_buries_an_owner_that_writes_without_renewing(
    stores: Stores, store: Store
) -> None:
    """An owner that writes but no longer beats is dead all the same, and fenced from then on."""
    for _ in range(ROUNDS):
        owner, stop = start(store), Event()
        stores.move(TTL + 1)
        thread = writing(stores, owner, stop)
        try:
            ended = [
                task_id for _ in range(3) for task_id in store.reap(since_ms=store.now_ms()).expired
            ]
        finally:
            stop.set()
            thread.join()
        assert ended == [owner.task_id]
        store.cancel(owner.task_id, OPERATOR)
