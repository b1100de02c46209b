"""A whole history of two tasks, told to a store verb by verb: every kind of verb that writes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from outlast.core.errors import NotAllowedNow
from outlast.store.verbs import Store
from tests.store import world
from tests.store.databases import Stores
from tests.store.world import OPERATOR

KEY = "invoice-17"
TABLES = ("tasks", "leases", "events", "effects", "signals", "workers", "counters", "queues")


def tell(store: Store, stores: Stores) -> None:
    """The history; the clock moves between its chapters, never within one."""
    task = world.submit(store, key="once").id
    for chapter in (_works, _waits, _is_in_doubt, _changes_hands, _ends):
        chapter(store, task)
        stores.move(50)
    _of_another_task(store, stores)
    _of_workers_and_queues(store)


def _works(store: Store, task: str) -> None:
    owner = world.claim(store)
    owner.step()
    owner.intend()
    owner.applied()
    owner.begin(KEY)
    owner.applied(key=KEY)
    owner.write("checkpoint", state=1, counts={"think": 1})
    owner.renew()
    owner.release("drain")


def _waits(store: Store, task: str) -> None:
    owner = world.claim(store)
    owner.wait("approval")
    sent = world.signal(store, task, "approval")
    owner = world.claim(store, "new")
    owner.read_signal(sent)
    owner.retry()


def _is_in_doubt(store: Store, task: str) -> None:
    owner = world.claim(store)
    owner.intend("doubtful")
    owner.ask_a_person()
    settled(store, owner.key("doubtful"))
    owner = world.claim(store)
    owner.intend("late")
    store.observe(task, owner.epoch, owner.worker, owner.key("late"), applied=True, result="late")
    owner.release("deadline")


def _changes_hands(store: Store, task: str) -> None:
    owner = world.claim(store)
    owner.applied("late", adopted=True, tool="bank.pay")
    owner.step("before")
    ordered(store.revoke, task, OPERATOR, now=True)
    assert owner.note().why == "lost"  # type: ignore[union-attr]
    owner = world.claim(store, "new")
    owner.step("after")
    store.crash(owner.worker, by="its parent")


def _ends(store: Store, task: str) -> None:
    world.claim(store).fail()
    ordered(store.retry, task, OPERATOR)
    owner = world.claim(store)
    store.cancel(task, OPERATOR)
    owner.acknowledge_cancel()


def _of_another_task(store: Store, stores: Stores) -> None:
    task = world.submit(store).id
    world.claim(store).step()
    stores.move(world.TTL + 1)
    world.reap(store)
    owner = world.claim(store)
    owner.begin(KEY)  # done long ago, by the other
    owner.succeed()
    store.cancel(task, OPERATOR)


def _of_workers_and_queues(store: Store) -> None:
    store.order_drain(OPERATOR, worker_id="worker-old")
    store.retire("worker-old")
    store.pause("default", OPERATOR)
    store.unpause("default")
    store.pause("default", OPERATOR)


def settled(store: Store, key: str) -> None:
    ordered(store.settle, key, OPERATOR, applied=True, receipt="r")


def ordered(verb: Any, *words: Any, **options: Any) -> None:
    """An order that may have been carried out already, when its answer was lost."""
    with suppress(NotAllowedNow):
        verb(*words, **options)
