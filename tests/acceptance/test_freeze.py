"""A worker that stands still and wakes beside its heir: it can do nothing to the task any more."""

from __future__ import annotations

import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import Scene, Worker
from tests.support.waiting import until

TTL = "2s"
STEPS = ["plan", "write", "send"]


@pytest.mark.parametrize("agent", [pytest.param("walk", marks=pytest.mark.faults), "walk_async"])
def test_a_worker_frozen_past_its_ttl_writes_nothing_beside_its_heir(
    scene: Scene, agent: str
) -> None:
    """case R7"""
    task = scene.submit(agent, steps=STEPS)
    scene.witness.hold("write", times=2)
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("write")
    heir = scene.worker("heir", ttl="20s")
    old.freeze(scene.file)
    scene.witness.until_held("write", count=2)
    granted = scene.until_event(task, "lease.granted", epoch=2)

    # Its tool has its answer, the step is over, the task is its heir's: now it wakes.
    scene.witness.let_go("write")
    old.thaw()
    assert len(scene.result(task)) == len(STEPS)
    assert scene.owner(task) is heir
    until(lambda: has_heard(scene, old, task), "the zombie to hear of it", timeout_s=90)
    # No event of the first epoch stands after it was declared dead; the judge looks, too.
    late = [e for e in scene.log(task) if e.seq >= granted.seq and e.holder == 1]
    assert late == []
    assert [body_of(e)["key"] for e in scene.events(task, "step.done")] == STEPS
    assert_fit_or_gone(scene, old)


@pytest.mark.faults
def test_a_worker_frozen_alone_gives_up_what_it_cannot_trust_and_goes_on(scene: Scene) -> None:
    """case R7: nobody was there to take over, so nothing was lost, but nothing is taken for granted

    The attempt is ended, and the task goes on under a new lease.
    """
    task = scene.submit("walk_async", steps=STEPS)
    scene.witness.hold("write")
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("write")
    frozen_ms = scene.now_ms()
    old.freeze(scene.file)
    until(lambda: scene.now_ms() > frozen_ms + 4_000, "two TTLs to pass", timeout_s=60)
    scene.witness.let_go("write")
    old.thaw()
    assert len(scene.result(task)) == len(STEPS)
    reasons = [body_of(e)["reason"] for e in scene.events(task, "lease.granted")]
    assert reasons == ["first", "expired"], scene.told(task)
    assert scene.task(task).failures == 0
    assert_fit_or_gone(scene, old)


@pytest.mark.faults
def test_a_frozen_worker_that_could_only_act_is_stopped_before_it_acts(scene: Scene) -> None:
    """case R7: its next move would have been an effect, which its heir has done"""
    task = scene.submit("buys", tool="keyed")
    scene.witness.hold("before the charge")
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("before the charge")
    old.freeze(scene.file)
    scene.witness.let_go("before the charge")
    heir = scene.worker("heir", ttl="20s")
    assert len(scene.result(task)) == 3
    old.thaw()
    until(lambda: has_heard(scene, old, task), "the zombie to hear of it", timeout_s=90)
    assert {line["pid"] for line in scene.witness.lines("charge keyed", "came")} == {heir.pid}
    assert scene.witness.applied("charge keyed") == 1
    assert_fit_or_gone(scene, old)


def has_heard(scene: Scene, old: Worker, task: str) -> bool:
    """Whether the attempt of the old owner is over, or its process."""
    ended = [told for told in old.said("attempt.ended") if told["task"] == task]
    return old.code is not None or bool(ended)


def assert_fit_or_gone(scene: Scene, old: Worker) -> None:
    """A thawed worker either ended itself after losing its lease, or can run tasks as before."""
    if old.code is not None:
        assert old.code == 70, scene.told("")
        return
    for other in scene.workers:
        if other is not old and other.code is None:
            other.kill()
    task = scene.submit("walk_async", steps=["afterwards"])
    scene.result(task)
    assert scene.owner(task) is old
