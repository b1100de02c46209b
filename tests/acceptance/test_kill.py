"""A worker that dies without a word: its tasks go on elsewhere, no sooner than they may."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import ROOT, Scene

TTL_MS = 3_000
TTL = f"{TTL_MS}ms"
STEPS = ["plan", "write", "send"]
SUBMIT_AND_DIE = """
import json, os, signal, sys
import outlast
with outlast.connect(sys.argv[1]) as client:
    print(client.submit("walk", {"steps": ["only"]}).id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_workers_task_goes_on_within_its_ttl_and_two_seconds(scene: Scene) -> None:
    task = scene.submit("walk", steps=STEPS)
    scene.witness.hold("write")
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("write")
    heir = scene.worker("heir", ttl=TTL)

    killed_ms = scene.now_ms()
    old.kill()
    granted = scene.until_event(task, "lease.granted", epoch=2)
    scene.witness.let_go("write")
    assert len(scene.result(task)) == len(STEPS)
    assert scene.owner(task) is heir
    # A reaper that was itself kept from looking for half a TTL spares a lapsed lease once.
    spared = [told for told in heir.said("reaped") if task in told["spared"]]
    assert granted.at_ms - killed_ms <= (2 if spared else 1) * TTL_MS + 2_000
    expired = scene.events(task, "lease.expired")
    assert [event.seq + 1 for event in expired] == [granted.seq]
    assert expired[0].at_ms >= body_of(expired[0])["expires_ms"]
    assert [scene.witness.came(step) for step in STEPS] == [1, 2, 1]
    assert (scene.task(task).failures, scene.task(task).expiries) == (0, 1)


@pytest.mark.faults
def test_with_nobody_left_a_fresh_worker_finds_the_task_and_goes_on(scene: Scene) -> None:
    """case R21: it cannot know how long it was blind, so it spares the lease once"""
    task = scene.submit("walk", steps=STEPS)
    scene.witness.hold("write")
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("write")
    old.kill()
    scene.witness.let_go("write")

    began_ms = scene.now_ms()
    fresh = scene.worker("fresh", ttl=TTL)
    enlisted_ms = scene.now_ms()
    granted = scene.until_event(task, "lease.granted", epoch=2)
    assert scene.result(task)
    assert scene.owner(task) is fresh
    assert granted.at_ms - max(began_ms, enlisted_ms) <= 2 * TTL_MS + 2_000
    assert scene.witness.came("plan") == 1


def test_killed_between_two_steps_it_goes_on_at_the_next(scene: Scene) -> None:
    """case R24"""
    task = scene.submit("walks_with_gaps", steps=["one", "two"])
    scene.witness.hold("after one")
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("after one")
    old.kill()
    scene.witness.let_go("after one")
    scene.worker("heir", ttl=TTL)
    assert len(scene.result(task)) == 2
    assert [scene.witness.came(step) for step in ("one", "two")] == [1, 1]
    replayed = scene.events(task, "replay.finished")
    assert [body_of(event)["answered"] for event in replayed] == [1]


@pytest.mark.faults
def test_killed_in_every_step_it_still_ends_with_each_result_recorded_once(scene: Scene) -> None:
    steps = [f"step {number}" for number in range(4)]
    task = scene.submit("walk", steps=steps)
    for number, step in enumerate(steps):
        scene.witness.hold(step)
        worker = scene.worker(f"life-{number}", ttl="1s", poll="100ms")
        scene.witness.until_held(step)
        worker.kill()
        scene.witness.let_go(step)
    scene.worker("last", ttl="1s")
    assert len(scene.result(task)) == len(steps)
    done = [body_of(event)["key"] for event in scene.events(task, "step.done")]
    assert done == steps
    assert [scene.witness.came(step) for step in steps] == [2] * 4
    # Each life but the first had a result, so no two bad ends in a row are counted.
    assert (scene.task(task).epoch, scene.task(task).resumes) == (5, 1)


def test_who_submits_and_is_killed_right_after_the_answer_has_submitted(scene: Scene) -> None:
    """case R27"""
    died = subprocess.run(
        [sys.executable, "-c", SUBMIT_AND_DIE, scene.db],
        capture_output=True,
        check=False,
        text=True,
        timeout=90,
        cwd=ROOT,
        env={**os.environ},
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    scene.worker()
    assert scene.result(died.stdout.strip()) == ["receipt-1"]


@pytest.mark.faults
@pytest.mark.postgres
def test_what_was_acknowledged_before_the_database_was_killed_is_there(
    own_scene: Scene, server: object
) -> None:
    """case R27: with the database gone in the same moment"""
    submitted = own_scene.command("submit", "walk", json.dumps({"steps": ["only"]}), "--json")
    server.kill9()  # type: ignore[attr-defined]
    server.start()  # type: ignore[attr-defined]
    own_scene.worker()
    assert own_scene.result(submitted.json["id"]) == ["receipt-1"]
