"""Cancelling: whatever state a task is in, it ends, and does not come back."""

from __future__ import annotations

import signal
import time

import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import Scene, Worker
from tests.support.waiting import until

TTL_MS = 3_000
TTL = f"{TTL_MS}ms"
# The request is heard at a heartbeat, a third of a TTL apart; the rest is for the answer.
HEARTBEAT_MS = TTL_MS // 3 + 500


def test_a_task_without_an_owner_ends_in_the_same_call(scene: Scene) -> None:
    """case R40, case R42: ready, asleep, waiting, in back-off, in review; no worker lives"""
    tasks = {
        "ready": scene.submit("an agent that nobody knows"),
        "asleep": scene.submit("sleeps", duration="1h"),
        "waiting": scene.submit("waits", name="never"),
        "back-off": scene.submit("fails", name="attempt"),
        "review": scene.submit("buys", tool="plain"),
    }
    scene.witness.drop("charge plain")
    worker = scene.worker()
    scene.until_state(tasks["asleep"], "waiting")
    scene.until_state(tasks["waiting"], "waiting")
    scene.until_state(tasks["review"], "review")
    scene.until_event(tasks["back-off"], "lease.released", reason="retry")
    worker.kill()

    for name, task in tasks.items():
        answer = scene.cancel(task)
        assert (name, answer.state, answer.task.state) == (name, "cancelled", "cancelled")
        assert scene.cancel(task).state == "cancelled"
    scene.worker()
    time.sleep(1)
    assert {scene.task(task).state for task in tasks.values()} == {"cancelled"}
    assert scene.command("cancel", tasks["ready"], "--reason", "twice").code == 0


@pytest.mark.parametrize("agent", ["walk_async", "swallows"])
def test_a_running_task_is_cancelled_within_a_heartbeat(scene: Scene, agent: str) -> None:
    """case R39, case R41: in an async step; and by an agent that catches Exception and goes on"""
    if agent == "walk_async":
        task, worker = running(scene, "walk_async", "held", steps=["held"])
    else:
        task, worker = running(scene, "swallows", "a turn", catches="Exception")
    scene.cancel(task)
    scene.until_state(task, "cancelled")
    heard = scene.events(task, "cancel.acknowledged")[0]
    assert heard.at_ms - body_of(heard)["asked_ms"] <= HEARTBEAT_MS
    assert body_of(heard)["by"] == "the test"
    acts = [e.seq for e in scene.log(task) if e.kind in ("step.done", "effect.intended")]
    assert max(acts, default=0) < heard.seq
    assert worker.code is None


@pytest.mark.faults
def test_code_that_catches_everything_is_refused_and_ended(scene: Scene) -> None:
    """case R41: it goes on after CancelledError; nothing more of it is recorded or admitted"""
    task, worker = running(scene, "swallows", "a turn", catches="everything")
    scene.cancel(task)
    assert worker.wait() == 70
    scene.witness.let_go("a turn")
    scene.worker("another", ttl=TTL)
    scene.until_state(task, "cancelled")
    heard = scene.events(task, "cancel.acknowledged")
    later = [e.kind for e in scene.log(task) if heard and e.seq > heard[0].seq]
    assert "step.done" not in later
    assert worker.said("worker.unfit")


@pytest.mark.parametrize("agent", ["walk", pytest.param("walk_plain", marks=pytest.mark.faults)])
def test_a_thread_that_cannot_be_stopped_ends_with_its_worker(scene: Scene, agent: str) -> None:
    """case R41: the neighbour is handed over first"""
    task, worker = running(scene, agent, "held", steps=["held", "never"])
    scene.witness.hold("beside")
    beside = scene.submit("walk_async", steps=["beside", "after"])
    scene.witness.until_held("beside")
    scene.cancel(task)
    heard = scene.until_event(task, "cancel.acknowledged")
    assert heard.at_ms - body_of(heard)["asked_ms"] <= HEARTBEAT_MS
    assert worker.wait() == 70
    scene.witness.let_go("beside")
    scene.witness.let_go("held")
    scene.worker("another", ttl=TTL)
    scene.until_state(task, "cancelled")
    scene.result(beside)
    assert scene.witness.came("never") == 0
    assert scene.events(beside, "lease.released")


@pytest.mark.faults
def test_a_cancel_in_the_middle_of_an_effect_leaves_it_unknown_on_the_record(
    scene: Scene,
) -> None:
    """case R79: nothing new is admitted, and what was under way can still be settled"""
    task, worker = running(scene, "buys", "charge plain", tool="plain")
    scene.cancel(task)
    assert worker.wait() == 70
    scene.witness.let_go("charge plain")
    scene.worker("another", ttl=TTL)
    scene.until_state(task, "cancelled")
    assert [each.state for each in scene.effects(task)] == ["unknown"]
    key = scene.effects(task)[0].key
    settled = scene.command("settle", key, "--applied", "receipt-9", "--json")
    assert settled.code == 0
    assert settled.json["task_state"] == "cancelled"
    assert scene.witness.came("after the charge") == 0


@pytest.mark.faults
def test_a_blocked_event_loop_does_not_keep_a_cancel_from_its_task(scene: Scene) -> None:
    task = scene.submit("blocks", how="sleep", seconds=300)
    worker = scene.worker("old", ttl=TTL)
    scene.until_event(task, "step.done", key="before")
    scene.worker("another", ttl=TTL)
    scene.cancel(task)
    assert worker.wait() == 70
    scene.until_state(task, "cancelled")
    assert scene.witness.came("after the block") == 0


def test_a_task_of_a_dead_owner_is_cancelled_at_expiry_by_cancel_itself(scene: Scene) -> None:
    """case R42: no worker is alive"""
    task, worker = running(scene, "walk_async", "held", steps=["held"])
    worker.kill()
    assert scene.cancel(task).state in ("asked", "cancelled")
    until(lambda: scene.cancel(task).state == "cancelled", "the lease to lapse", timeout_s=60)
    expired = scene.events(task, "lease.expired")[0]
    assert expired.at_ms >= body_of(expired)["expires_ms"]
    assert scene.task(task).state == "cancelled"


@pytest.mark.faults
def test_a_frozen_owner_that_thaws_does_not_bring_a_cancelled_task_back(scene: Scene) -> None:
    """case R43"""
    task, worker = running(scene, "walk", "held", steps=["held", "never"])
    scene.worker("another", ttl=TTL)
    worker.freeze(scene.file)
    assert scene.cancel(task).state == "asked"
    scene.until_state(task, "cancelled")
    scene.witness.let_go("held")
    worker.thaw()
    until(
        lambda: worker.said("attempt.ended") or worker.code is not None,
        "the zombie to hear of it",
        timeout_s=90,
    )
    assert scene.task(task).state == "cancelled"
    assert len(scene.events(task, "lease.granted")) == 1
    assert scene.witness.came("never") == 0


def test_force_takes_the_lease_away_now_and_says_where_code_may_still_run(scene: Scene) -> None:
    task, worker = running(scene, "walk", "held", steps=["held", "never"])
    refused = scene.command("cancel", task, "--reason", "stuck", "--force", "--json")
    assert refused.code == 2, "without a terminal it wants --yes"
    forced = scene.command("cancel", task, "--reason", "stuck", "--force", "--yes", "--json")
    assert forced.code == 0
    assert forced.json["answer"] == "cancelled"
    assert str(worker.pid) in forced.json["running_on"]
    scene.witness.let_go("held")
    until(lambda: worker.said("attempt.ended"), "the owner to hear of it", timeout_s=90)
    assert scene.witness.came("never") == 0
    assert scene.task(task).state == "cancelled"
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def running(scene: Scene, agent: str, held: str, **arguments: object) -> tuple[str, Worker]:
    """A task that is in the middle of a call which the witness holds; and its owner."""
    scene.witness.hold(held)
    task = scene.submit(agent, **arguments)
    worker = scene.worker("old", ttl=TTL)
    scene.witness.until_held(held)
    return task, worker
