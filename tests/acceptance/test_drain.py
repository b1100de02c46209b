"""A worker that is told to leave hands its tasks over, and is gone within its grace."""

from __future__ import annotations

import signal
import time

import pytest

from outlast.core.lifecycle import body_of
from outlast.core.model import Event
from tests.acceptance.scene import Scene, Worker

SECOND_MS = 1_000
GRACE_MS = 3_000
STEPS = ["plan", "write", "send"]


def test_a_drained_task_goes_on_within_a_second_and_has_spent_nothing(scene: Scene) -> None:
    """case R35: the plain `outlast worker` and SIGTERM, no code of the user's own

    The heir polls too seldom to notice in time: it is told.
    """
    task, old = in_the_middle(scene, "walk")
    heir = scene.worker("heir", ttl="120s", poll="30s")

    old.send(signal.SIGTERM)
    old.until_said("drain.asked")
    scene.witness.let_go("write")

    assert len(scene.result(task)) == len(STEPS)
    assert old.wait() == 0
    released = only_release(scene, task, "drain")
    assert next_step(scene, task, released).at_ms - released.at_ms <= SECOND_MS
    assert scene.owner(task) is heir
    assert [scene.witness.applied(step) for step in STEPS] == [1, 1, 1]
    ended = scene.task(task)
    assert (ended.failures, ended.resumes, ended.expiries, ended.handoffs) == (0, 0, 0, 1)


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param("walk", marks=pytest.mark.faults),
        "walk_async",
        pytest.param("walk_plain", marks=pytest.mark.faults),
    ],
)
def test_a_step_that_does_not_end_is_cut_off_within_the_grace(scene: Scene, agent: str) -> None:
    """case R30: given back before the exit; the heir goes on at once, not after a TTL"""
    # A second of it is kept for what is written then: a shared disk was seen to take half of one.
    task, old = in_the_middle(scene, agent, grace=f"{GRACE_MS}ms", ttl="20s")
    scene.worker("heir", ttl="20s")

    signalled_ms = scene.now_ms()
    old.send(signal.SIGTERM)
    assert old.wait() == 75
    released = only_release(scene, task, "deadline")
    assert released.at_ms - signalled_ms <= GRACE_MS
    scene.witness.let_go("write")
    scene.result(task)
    heir_granted = scene.events(task, "lease.granted", epoch=2)[0]
    assert heir_granted.at_ms - released.at_ms <= SECOND_MS
    assert body_of(heir_granted)["reason"] == "drain"
    assert scene.witness.came("plan") == 1
    assert old.said("worker.ended") == [
        {"event": "worker.ended", "code": 75, "cut_off": 1, "left_behind": []}
    ]


@pytest.mark.faults
def test_a_second_sigterm_leaves_at_once(scene: Scene) -> None:
    """case R35: at once is the two seconds that are kept for the last words"""
    task, old = in_the_middle(scene, "walk", grace="100s", ttl="60s")
    old.send(signal.SIGTERM)
    old.until_said("drain.asked")

    signalled_ms = scene.now_ms()
    old.send(signal.SIGTERM)
    assert old.wait() == 75
    released = only_release(scene, task, "deadline")
    assert released.at_ms - signalled_ms <= 2 * SECOND_MS
    scene.witness.let_go("write")
    scene.worker("heir")
    scene.result(task)
    assert scene.witness.came("plan") == 1


@pytest.mark.faults
def test_heartbeats_and_cancel_work_until_the_last_task_of_a_drain_has_gone(scene: Scene) -> None:
    """case R31"""
    ttl_ms = 3 * SECOND_MS
    task, old = in_the_middle(scene, "walk_async", ttl="3s", grace="120s")
    scene.worker("beside it", ttl="3s")
    old.send(signal.SIGTERM)
    old.until_said("drain.asked")
    time.sleep(2 * ttl_ms / 1_000)
    assert scene.owner(task) is old
    assert not scene.events(task, "lease.expired")

    scene.cancel(task)
    scene.until_state(task, "cancelled")
    assert old.wait() == 0
    heard = scene.events(task, "cancel.acknowledged")[0]
    assert heard.at_ms - body_of(heard)["asked_ms"] <= ttl_ms // 3 + SECOND_MS // 2


def test_of_five_tasks_one_fails_while_draining_and_four_are_handed_over(scene: Scene) -> None:
    """case R33"""
    names = [f"work {number}" for number in range(4)]
    for name in [*names, "failing"]:
        scene.witness.hold(name)
    tasks = [scene.submit("walk", steps=[name, f"{name}, more"]) for name in names]
    failing = scene.submit("fails_at", step="failing")
    old = scene.worker("old")
    for name in [*names, "failing"]:
        scene.witness.until_held(name)

    old.send(signal.SIGTERM)
    old.until_said("drain.asked")
    scene.witness.let_go("failing")
    assert scene.until_state(failing, "failed").reason == "error"
    for name in names:
        scene.witness.let_go(name)
    assert old.wait() == 0
    for task in tasks:
        only_release(scene, task, "drain")
        assert (scene.task(task).state, scene.task(task).failures) == ("ready", 0)
    scene.worker("heir")
    for task in tasks:
        scene.result(task)
    assert [scene.witness.applied(name) for name in names] == [1] * 4


def test_a_task_that_ends_right_before_the_exit_has_its_end_on_the_log(scene: Scene) -> None:
    """case R34"""
    scene.witness.hold("last call")
    task = scene.submit("returns_after", call="last call")
    old = scene.worker("old")
    scene.witness.until_held("last call")
    old.send(signal.SIGTERM)
    old.until_said("drain.asked")
    scene.witness.let_go("last call")
    assert old.wait() == 0
    ended = scene.task(task)
    assert (ended.state, ended.result) == ("succeeded", '"ended by itself"')
    assert not scene.events(task, "lease.released")


@pytest.mark.parametrize("how", ["raises", "returns"])
def test_what_an_agent_makes_of_a_drain_is_no_end_of_its_task(scene: Scene, how: str) -> None:
    """case R37: SIGTERM is never worse than SIGKILL, whatever the agent catches"""
    scene.witness.hold("held")
    task = scene.submit("hides_a_drain", step="held", how=how)
    old = scene.worker("old")
    scene.witness.until_held("held")
    old.send(signal.SIGTERM)
    old.until_said("drain.asked")
    scene.witness.let_go("held")
    assert old.wait() == 0
    only_release(scene, task, "drain")
    scene.worker("heir")
    assert scene.result(task) == "the true result"
    assert scene.task(task).failures == 0


def test_in_a_rolling_deploy_the_draining_worker_takes_nothing_new(scene: Scene) -> None:
    """case R36"""
    held, old = in_the_middle(scene, "walk")
    old.send(signal.SIGTERM)
    old.until_said("drain.asked")
    later = [scene.submit("walk", steps=["later"]) for _ in range(5)]
    time.sleep(1)
    assert {scene.task(task).state for task in later} == {"ready"}
    new = scene.worker("new")
    for task in later:
        scene.result(task)
        assert [body_of(e)["build"] for e in scene.events(task, "lease.granted")] == ["new"]
    scene.witness.let_go("write")
    scene.result(held)
    assert old.wait() == 0
    assert new.code is None


@pytest.mark.faults
def test_claims_that_were_not_begun_go_back_untouched(scene: Scene) -> None:
    """case R38: the event loop is blocked, so that what is claimed cannot start"""
    blocker = scene.submit("blocks", how="sleep", seconds=6)
    old = scene.worker("old", ttl="20s")
    scene.until_event(blocker, "step.done", key="before")
    waiting = [scene.submit("walk", steps=["step"]) for _ in range(9)]
    for task in waiting:
        scene.until_event(task, "lease.granted")
    old.send(signal.SIGTERM)
    assert old.wait() == 0
    for task in waiting:
        only_release(scene, task, "unstarted")
        row = scene.task(task)
        assert (row.state, row.reason) == ("ready", "first")
        assert (row.failures, row.resumes, row.expiries, row.handoffs) == (0, 0, 0, 0)
    assert scene.witness.came("step") == 0


def test_an_order_to_drain_is_waited_for_and_leaves_nothing_behind(scene: Scene) -> None:
    task, old = in_the_middle(scene, "walk", ttl="2s")
    waiting = scene.start_command("drain", old.id, "--wait", "120s", "--json")
    old.until_said("drain.asked")
    later = scene.submit("walk", steps=["later"])
    assert waiting.code is None
    scene.witness.let_go("write")
    assert waiting.wait(90) == 0
    assert '"left":true' in waiting.output.replace(" ", "")
    assert old.wait() == 0
    only_release(scene, task, "drain")
    assert scene.task(later).state == "ready"
    scene.worker("heir")
    scene.result(task)
    scene.result(later)


def in_the_middle(scene: Scene, agent: str, **options: str) -> tuple[str, Worker]:
    """A task whose second step is under way, held by the witness; and the worker that owns it."""
    task = scene.submit(agent, steps=STEPS)
    scene.witness.hold("write")
    old = scene.worker("old", **options)  # type: ignore[arg-type]
    scene.witness.until_held("write")
    return task, old


def only_release(scene: Scene, task: str, reason: str) -> Event:
    """The one lease that was let go; for that reason."""
    released = scene.events(task, "lease.released")
    assert [body_of(event)["reason"] for event in released] == [reason], scene.told(task)
    return released[0]


def next_step(scene: Scene, task: str, event: Event) -> Event:
    """The first result of whoever came after it."""
    later = [e for e in scene.log(task) if e.seq > event.seq and e.kind == "step.done"]
    assert later, scene.told(task)
    return later[0]


def test_what_ends_a_child_of_an_agent_is_no_order_to_its_worker(scene: Scene) -> None:
    """A forked process has the worker's handlers, and the pipe that they write into."""
    worker = scene.worker()
    task = scene.submit("ends_a_child")

    assert scene.result(task) == -signal.SIGTERM
    assert worker.said("drain.asked") == []
