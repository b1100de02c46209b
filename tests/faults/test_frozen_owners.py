"""A process is stopped inside a transaction: others go on, its task too; thawed it is refused."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlast.core.errors import Unavailable
from outlast.store.open import open_store
from outlast.store.sqlite import lock_holders
from outlast.store.verbs import Query, Store
from tests.faults import crew
from tests.faults.frozen_owner import ANSWERED, MID_PIPELINE
from tests.faults.judge import judge
from tests.store import world
from tests.support.databases import on_every_postgres
from tests.support.processes import Processes, Running
from tests.support.waiting import until

# Where it is stopped: what it was doing, and the statement that had just been run.
PLACES = [
    ("release", "lock_task"),
    ("release", "append"),
    ("intend", "append"),
    ("intend", "put_intent"),
    ("renew", "renew"),
]
TAKEN_OVER_S = 8.0
CALL_S = 2.0


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = open_store(crew.migrated(database_url), ttl_ms=1_000)
    yield store
    store.close()


@on_every_postgres
@pytest.mark.parametrize("moment", [ANSWERED, MID_PIPELINE])
@pytest.mark.parametrize(("verb", "statement"), PLACES)
def test_nobody_waits_for_a_frozen_owner(
    verb: str, statement: str, moment: str, database_url: str, store: Store, processes: Processes
) -> None:
    frozen_task = world.submit(store, priority=1).id
    owner = frozen_owner(processes, database_url, verb, statement, moment)
    held = begun(store, "other")

    slowest = 0.0
    deadline = time.monotonic() + TAKEN_OVER_S
    while store.get(frozen_task).state == "running":
        assert time.monotonic() < deadline, f"not reaped: {world.reap(store)}\n{owner.output}"
        slowest = max(slowest, timed(lambda: held.renew()))
        slowest = max(slowest, timed(lambda: begun(store, "other").succeed()))
        slowest = max(slowest, timed(lambda: cancel_another(store)))
        slowest = max(slowest, timed(lambda: world.reap(store)))
    assert slowest < CALL_S, f"somebody waited {slowest:.2f} s"

    assert owner.state() == "T", "it was to be frozen all the while"
    heir = world.claim(store, "heir", ttl_ms=60_000)
    assert heir.task_id == frozen_task
    heir.step("after")
    thawed_output = thawed(owner)

    assert "Written" not in thawed_output, "a zombie was let in"
    assert thawed_output.count("lost") >= 2, thawed_output
    heir.succeed()
    verdict = judge(database_url)
    assert not verdict.violations, verdict.examples
    kinds = world.kinds(store, frozen_task)
    assert kinds[2:] == [
        "step.done",
        "lease.expired",
        "lease.granted",
        "step.done",
        "task.succeeded",
    ]


@on_every_postgres
@pytest.mark.parametrize("order", ["cancel", "force", "revoke"])
def test_an_order_does_not_wait_for_a_frozen_owner(
    order: str, database_url: str, store: Store, processes: Processes
) -> None:
    """No reaper runs, and the owner's lease has not lapsed where it is forced."""
    task = world.submit(store).id
    owner = frozen_owner(processes, database_url, "release", "append", MID_PIPELINE)
    if order == "revoke":
        took = timed(lambda: store.revoke(task, world.OPERATOR))
        ended_by = "lease.revoked"
    else:
        until(lambda: order == "force" or has_lapsed(store, task), "the lease to lapse")
        took = timed(lambda: store.cancel(task, world.OPERATOR, force=order == "force"))
        ended_by = "task.cancelled"
    assert took < CALL_S, f"it waited {took:.2f} s"
    assert owner.state() == "T"
    assert world.kinds(store, task)[-1] == ended_by
    assert "Written" not in thawed(owner)
    verdict = judge(database_url)
    assert not verdict.violations, verdict.examples


def test_a_file_held_by_a_frozen_process_names_it(
    sqlite_url: str, processes: Processes, tmp_path: Path
) -> None:
    store = open_store(crew.migrated(sqlite_url))
    world.submit(store)
    owner = frozen_owner(processes, sqlite_url, "intend", "append", ANSWERED)

    assert lock_holders(Path(sqlite_url.removeprefix("sqlite:"))) == [owner.pid]
    name = f"pid {owner.pid} "
    with pytest.raises(Unavailable, match=name):
        world.enlisted(store, "another")
    started = time.monotonic()
    with pytest.raises(Unavailable, match=name):
        store.renew("worker-other", [])
    assert time.monotonic() - started < CALL_S, "a heartbeat must not wait for the frozen"
    said = {finding.check: finding for finding in store.checkup()}
    assert name in said["locks"].said
    assert said["locks"].state == "warn"
    assert store.find(Query()), "reading goes on"
    store.close()


@pytest.mark.parametrize("end", ["killed", "thawed"])
def test_a_file_is_free_again_when_the_frozen_process_is(
    end: str, sqlite_url: str, processes: Processes
) -> None:
    store = open_store(crew.migrated(sqlite_url))
    task = world.submit(store).id
    owner = frozen_owner(processes, sqlite_url, "intend", "append", ANSWERED)
    with pytest.raises(Unavailable, match=f"pid {owner.pid} "):
        world.reap(store)

    if end == "killed":
        owner.send(signal.SIGKILL)
        owner.wait()
    else:
        output = thawed(owner)
        # Nobody could write meanwhile, so it is the owner still, and its transaction stands.
        assert "answered: Written" in output, output

    until(lambda: world.reap(store).expired, "the lapsed lease to be reaped")
    intended = "effect.intended" in world.kinds(store, task)
    assert intended == (end == "thawed")
    world.claim(store, "heir").succeed()
    verdict = judge(sqlite_url)
    assert not verdict.violations, verdict.examples
    store.close()


def frozen_owner(processes: Processes, url: str, verb: str, statement: str, moment: str) -> Running:
    """A process that has claimed the one task there is, and stands still inside a transaction."""
    words = ("-m", "tests.faults.frozen_owner", url, verb, statement, moment)
    owner = processes.python(*words, name="frozen", folder=crew.PROJECT)
    owner.wait_for_line("freezing")
    owner.wait_for_state("T")
    return owner


def thawed(owner: Running) -> str:
    """What it says after it was woken."""
    owner.send(signal.SIGCONT)
    assert owner.wait() == 0, owner.output
    return owner.output.partition("thawed")[2]


def cancel_another(store: Store) -> None:
    task = world.submit(store)
    assert store.cancel(task.id, world.OPERATOR).state == "cancelled"


def timed(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return time.monotonic() - started


def begun(store: Store, worker: str) -> world.Owner:
    """A task of another worker's, with a lease that does not lapse meanwhile."""
    world.submit(store)
    return world.claim(store, worker, ttl_ms=60_000)


def has_lapsed(store: Store, task: str) -> bool:
    lease = world.lease_of(store, task)
    return lease is not None and lease.expires_ms < store.now_ms()
