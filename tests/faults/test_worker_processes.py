"""Real workers that are signalled, frozen, blocked, and cut off from their database."""

from __future__ import annotations

import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import outlast
from outlast.client.handle import TaskHandle
from tests.support.processes import Processes, Running
from tests.support.waiting import until

AGENTS = Path(__file__).with_name("agents.py")


class Place:
    """A store on a file, workers on it, and what their agents did."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.db = f"sqlite:{folder / 'o.db'}"
        self.log_path = folder / "log"
        self.client = outlast.connect(self.db)
        self._processes = processes

    def worker(self, *options: str) -> Running:
        environment = {"AGENTS_LOG": str(self.log_path)}
        worker = self._processes.python(AGENTS, self.db, *options, environment=environment)
        worker.wait_for_line("worker.started")
        return worker

    def log(self) -> list[str]:
        return self.log_path.read_text().splitlines() if self.log_path.exists() else []

    def wait_for(self, word: str) -> None:
        until(lambda: any(word in line for line in self.log()), f"{word!r} in the log")

    def kinds(self, task: TaskHandle) -> list[str]:
        return [event.kind for event in task.log()]


@pytest.fixture
def place(processes: Processes, tmp_path: Path) -> Place:
    return Place(processes, tmp_path)


def test_a_worker_told_to_leave_in_the_middle_of_a_step_hands_the_task_over(place: Place) -> None:
    """case R30, case R35"""
    task = place.client.submit("steps", {"seconds": 0.5})
    old = place.worker()
    place.wait_for("begin 0")
    old.send(signal.SIGTERM)
    assert old.wait() == 0
    new = place.worker()
    assert task.result(timeout="10s") == "done"
    assert [line.split()[1] for line in place.log() if line.startswith("begin")] == ["0", "1", "2"]
    assert task.status().failures == 0
    new.send(signal.SIGTERM)
    assert new.wait() == 0


def test_a_worker_whose_grace_is_too_short_releases_before_it_leaves(place: Place) -> None:
    """case R30"""
    task = place.client.submit("steps", {"seconds": 30})
    old = place.worker("grace_ms=1000", "ttl_ms=60000")
    place.wait_for("begin 0")
    begun = time.monotonic()
    old.send(signal.SIGTERM)
    assert old.wait() == 75
    assert time.monotonic() - begun < 1.5
    assert task.status().state == "ready"


def test_a_second_signal_ends_it_at_once(place: Place) -> None:
    """case R35"""
    place.client.submit("steps", {"seconds": 30})
    old = place.worker("grace_ms=20000")
    place.wait_for("begin 0")
    old.send(signal.SIGTERM)
    old.wait_for_line("drain.asked")
    begun = time.monotonic()
    old.send(signal.SIGTERM)
    assert old.wait() == 75
    assert time.monotonic() - begun < 2.5


def test_a_blocked_event_loop_keeps_its_lease_and_says_how_long_it_was_blocked(
    place: Place,
) -> None:
    """case R8"""
    task = place.client.submit("blocks", {"seconds": 3})
    place.worker("ttl_ms=1000")
    place.wait_for("block")
    until(
        lambda: place.client.ask(lambda store: store.workers())[0].loop_blocked_ms > 1_500,
        "a heartbeat that tells of the blocked loop",
    )
    assert task.result(timeout="10s") == "done"
    assert task.status().epoch == 1


def test_a_worker_whose_loop_is_blocked_for_ever_still_leaves_within_its_grace(
    place: Place,
) -> None:
    task = place.client.submit("blocks", {"seconds": 600})
    old = place.worker("grace_ms=1500", "ttl_ms=60000")
    place.wait_for("block")
    begun = time.monotonic()
    old.send(signal.SIGTERM)
    assert old.wait() == 75
    assert time.monotonic() - begun < 2.5
    assert place.kinds(task)[-1] == "lease.released"
    assert task.status().state == "ready"


def test_a_frozen_worker_that_thaws_writes_nothing_more_for_its_task(place: Place) -> None:
    """case R7"""
    task = place.client.submit("steps", {"seconds": 1.5})
    old = place.worker()
    place.wait_for("begin 0")
    old.send(signal.SIGSTOP)
    old.wait_for_state("T")
    place.worker()
    assert task.result(timeout="20s") == "done"
    events = len(task.log())
    old.send(signal.SIGCONT)
    old.wait_for_line("attempt.ended")
    assert len(task.log()) == events
    assert f"end 0 {old.pid}" not in place.log()


def test_a_tool_that_cannot_be_stopped_ends_its_worker_and_only_its_own_lease_expires(
    place: Place,
) -> None:
    """case R41"""
    stuck = place.client.submit("hangs", {})
    other = place.client.submit("steps", {"seconds": 60})
    old = place.worker("ttl_ms=2000")
    place.wait_for("hang")
    place.wait_for("begin 0")
    stuck.cancel("no more of this")
    assert old.wait() == 70
    assert other.status().state == "ready"
    assert other.status().resumes == 0
    place.worker()
    until(lambda: stuck.status().state == "cancelled", "the cancelled task to end")


def test_a_worker_leaves_within_its_grace_though_the_database_is_away(place: Place) -> None:
    """case R32"""
    place.client.submit("steps", {"seconds": 30})
    old = place.worker("grace_ms=2000", "ttl_ms=60000")
    place.wait_for("begin 0")
    locker: Any = sqlite3.connect(place.db.removeprefix("sqlite:"), isolation_level=None)
    locker.execute("begin exclusive")
    try:
        begun = time.monotonic()
        old.send(signal.SIGTERM)
        assert old.wait() == 75
        assert time.monotonic() - begun < 3.0
    finally:
        locker.execute("rollback")
        locker.close()
    assert "left_behind" in old.output


def test_a_worker_without_a_store_says_so_and_exits_with_69(
    processes: Processes, tmp_path: Path
) -> None:
    worker = processes.python(AGENTS, "postgresql://nobody@127.0.0.1:1/none")
    assert worker.wait() == 69
