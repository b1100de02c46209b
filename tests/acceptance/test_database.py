"""The database goes away under running workers: they live, and nothing is done twice."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import Scene, Worker
from tests.support.postgres import PostgresServer
from tests.support.waiting import until
from tests.support.wire import Wire

TASKS = 20
GRACE_MS = 4_000


@pytest.mark.postgres
@pytest.mark.parametrize("harm", ["fast", pytest.param("kill -9", marks=pytest.mark.faults)])
def test_when_postgresql_restarts_all_tasks_end_and_no_step_is_repeated(
    own_scene: Scene, server: PostgresServer, harm: str
) -> None:
    """case R55, case R23: twenty tasks on two workers; no lease lapses by a restart"""
    scene = own_scene
    steps = [f"step {number}" for number in range(4)]
    tasks = [scene.submit("walk", steps=steps) for _ in range(TASKS)]
    scene.witness.hold("step 1", "after", times=TASKS)
    workers = [scene.worker(ttl="40s") for _ in range(2)]
    scene.witness.until_held("step 1", "after", count=TASKS)
    scene.close()

    if harm == "fast":
        server.stop("fast")
    else:
        server.kill9()
    # All steps end while the database is away: their results wait until it is back.
    scene.witness.let_go("step 1")
    until(lambda: len(scene.witness.lines("step 1", "answered")) == TASKS, "all answers",
          timeout_s=60)  # fmt: skip
    server.start()
    for task in tasks:
        scene.result(task)
        assert [body_of(e)["epoch"] for e in scene.events(task, "lease.granted")] == [1]
    assert [scene.witness.came(step) for step in steps] == [TASKS] * len(steps)
    assert [worker.code for worker in workers] == [None, None]


@pytest.mark.faults
@pytest.mark.postgres
@pytest.mark.parametrize("how", ["cut", "swallow"])
def test_a_drain_without_a_database_ends_within_its_grace_and_says_what_it_left(
    own_scene: Scene, server: PostgresServer, wire: Callable[[int], Wire], how: str
) -> None:
    """case R32: refused, and a network that swallows everything"""
    scene, link = own_scene, wire(server.port)
    scene.witness.hold("write")
    task = scene.submit("walk_async", steps=["plan", "write"])
    old = scene.worker("old", ttl="6s", grace=f"{GRACE_MS}ms", db=link.url(scene.db))
    scene.witness.until_held("write")
    link.cut() if how == "cut" else link.swallow()

    took_ms = end_by_sigterm(old)
    assert took_ms <= GRACE_MS + 1_000
    assert old.code == 75
    assert old.said("worker.ended")[0]["left_behind"] == [task]
    scene.witness.let_go("write")
    scene.worker("heir")
    scene.result(task)
    assert scene.witness.came("plan") == 1


@pytest.mark.faults
def test_a_drain_beside_a_locked_file_ends_within_its_grace(
    sqlite_scene: Scene,
) -> None:
    """case R32: somebody holds the write lock of the SQLite file"""
    scene = sqlite_scene
    scene.witness.hold("write")
    task = scene.submit("walk_async", steps=["plan", "write"])
    old = scene.worker("old", ttl="6s", grace=f"{GRACE_MS}ms")
    scene.witness.until_held("write")
    with locked(scene):
        took_ms = end_by_sigterm(old)
    assert took_ms <= GRACE_MS + 1_000
    assert old.code == 75
    assert old.said("worker.ended")[0]["left_behind"] == [task]
    scene.witness.let_go("write")
    scene.worker("heir")
    scene.result(task)


@pytest.mark.faults
def test_a_file_that_nobody_can_write_for_long_ends_no_worker(sqlite_scene: Scene) -> None:
    """Not renewals alone are refused: nothing is wrong with the workers."""
    scene = sqlite_scene
    scene.witness.hold("write")
    task = scene.submit("walk_async", steps=["plan", "write", "send"])
    workers = [scene.worker(ttl="2s") for _ in range(2)]
    scene.witness.until_held("write")
    with locked(scene):
        time.sleep(7)
    scene.witness.let_go("write")
    scene.result(task)
    time.sleep(2)
    assert [worker.code for worker in workers] == [None, None]
    assert scene.task(task).failures == 0
    assert scene.witness.came("plan") == 1


def test_where_only_renewals_are_refused_attempts_stop_and_the_worker_ends_itself(
    scene: Scene,
) -> None:
    """case R6: for two TTLs, while the worker can write everything else

    It may claim the task once more in between; that lease cannot be renewed either.
    """
    task = scene.submit("walk_async", steps=["plan", "write", "send"])
    scene.witness.hold("write", times=5)
    old = scene.worker("old", ttl="2s")
    scene.witness.until_held("write")
    refuse_renewals(scene)
    assert old.wait() == 70
    assert "no heartbeat was answered" in old.said("worker.unfit")[0]["why"]
    released = [body_of(e)["reason"] for e in scene.events(task, "lease.released")]
    assert released[0] == "trust", scene.told(task)
    assert not scene.task(task).ended
    allow_renewals(scene)
    scene.witness.let_go("write")
    scene.worker("fresh")
    scene.result(task)
    assert scene.task(task).failures == 0
    assert scene.witness.came("plan") == scene.witness.came("send") == 1


def end_by_sigterm(old: Worker) -> float:
    """How many ms from the signal to the end of the process."""
    began = time.monotonic()
    old.send(signal.SIGTERM)
    old.wait()
    return (time.monotonic() - began) * 1_000


@contextmanager
def locked(scene: Scene) -> Iterator[None]:
    assert scene.file is not None
    with closing(sqlite3.connect(scene.file, isolation_level=None, timeout=30)) as connection:
        connection.execute("begin immediate")
        yield
        connection.execute("rollback")


PLPGSQL = """
create function outlast.refuse() returns trigger language plpgsql as
$$ begin raise exception 'renewals are refused' using errcode = 'insufficient_privilege'; end $$
"""
TRIGGER = "create trigger refuse before update on {} for each row execute function outlast.refuse()"
LITE_TRIGGER = """
create trigger refuse before update on leases
begin select raise(abort, 'renewals are refused'); end
"""


def refuse_renewals(scene: Scene) -> None:
    if scene.is_sqlite:
        run(scene, LITE_TRIGGER)
    else:
        run(scene, PLPGSQL)
        run(scene, TRIGGER.format("outlast.leases"))


def allow_renewals(scene: Scene) -> None:
    run(scene, f"drop trigger refuse{'' if scene.is_sqlite else ' on outlast.leases'}")


def run(scene: Scene, statement: str) -> None:
    if scene.file is not None:
        with closing(sqlite3.connect(scene.file, isolation_level=None, timeout=30)) as file:
            file.execute(statement)
        return
    with psycopg.connect(scene.db, autocommit=True) as connection:
        connection.execute(statement.encode())
