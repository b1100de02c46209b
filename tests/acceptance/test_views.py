"""What a person is told while things go wrong: `ps`, `show`, `deploy-gate`."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.acceptance.scene import Scene
from tests.support.waiting import until


@pytest.mark.faults
def test_ps_tells_who_owns_a_task_and_what_is_the_matter_with_the_owner(scene: Scene) -> None:
    """case R66: the state is the stored one; stale, draining and cancelling stand beside it"""
    ttls = {"quiet": "6s", "leaving": "6s", "unwanted": "60s"}
    tasks, owners = {}, {}
    for name, ttl in ttls.items():
        scene.witness.hold(name)
        tasks[name] = scene.submit("walk", steps=[name])
        owners[name] = scene.worker(name, ttl=ttl, slots=1)
        scene.witness.until_held(name)
    for name in tasks:
        seen = row(scene, tasks[name])
        assert (seen["state"], seen["marks"]) == ("running", [])
        assert (seen["owner"]["pid"], seen["owner"]["build"]) == (owners[name].pid, name)
        assert seen["lease"]["ttl_s"] == float(ttls[name][:-1])

    owners["unwanted"].freeze(scene.file)
    assert scene.cancel(tasks["unwanted"]).state == "asked"
    assert row(scene, tasks["unwanted"])["marks"] == ["cancelling"]
    owners["leaving"].send(signal.SIGTERM)
    until(lambda: row(scene, tasks["leaving"])["marks"] == ["draining"], "draining", timeout_s=60)
    # All of them frozen: nobody is there to declare anybody dead.
    owners["leaving"].freeze(scene.file)
    owners["quiet"].freeze(scene.file)
    until(lambda: row(scene, tasks["quiet"])["marks"] == ["stale"], "stale", timeout_s=60)
    assert {row(scene, task)["state"] for task in tasks.values()} == {"running"}
    said = scene.command("ps").output
    assert "running, stale" in said
    assert "draining" in said
    assert "running, cancelling" in said
    assert "blocks: owner silent" in said


def test_what_was_done_before_a_stop_stays_readable_and_ends_are_told_apart(scene: Scene) -> None:
    """case R67, case R68"""
    scene.witness.hold("write")
    stopped = scene.submit("walk_async", steps=["plan", "write"])
    ended = scene.submit("walk_async", steps=["only"])
    failed = scene.submit("fails_at", step="failing")
    scene.worker()
    scene.witness.until_held("write")
    scene.cancel(stopped)
    for task in (stopped, ended, failed):
        scene.until_state(task, "cancelled", "succeeded", "failed")
    shown = scene.command("show", stopped, "--json").json
    assert [(step["key"], step["value"]) for step in shown["steps"]] == [
        ("plan", next(line["receipt"] for line in scene.witness.lines("plan", "applied")))
    ]
    assert shown["why"] == "by the test: no longer wanted"
    assert "✔" in scene.command("show", ended).output
    assert "⊘" in scene.command("show", stopped).output
    failure = scene.command("show", failed).output
    assert "✘" in failure
    assert "the tool fails" in failure


@pytest.mark.faults
def test_the_deploy_gate_opens_and_closes_with_what_a_deploy_would_do(scene: Scene) -> None:
    assert gate(scene)[0] == 0
    scene.witness.hold("held")
    task = scene.submit("walk", steps=["held"])
    old = scene.worker("old", ttl="6s")
    scene.witness.until_held("held")
    # What can be handed over does not block, however busy the fleet is.
    code, said = gate(scene, "--build", "old")
    assert (code, "can be handed over" in said) == (0, True)
    assert gate(scene, "--build", "other")[0] == 0

    old.freeze(scene.file)
    until(lambda: gate(scene)[0] == 5, "the gate to close", timeout_s=60)
    code, said = gate(scene)
    if code == 5:  # not yet given up
        assert task in said
        assert "at most" in said
    scene.worker("heir", ttl="60s")
    waited = scene.command("deploy-gate", "--build", "old", "--wait", "60s")
    assert waited.code == 0, waited.output
    scene.witness.let_go("held")
    scene.result(task)
    assert gate(scene)[1].startswith("Safe to deploy: no task is being run")


def test_an_effect_in_flight_for_longer_than_the_grace_closes_the_gate(scene: Scene) -> None:
    scene.witness.hold("charge plain")
    task = scene.submit("buys", tool="plain")
    scene.worker("old")
    scene.witness.until_held("charge plain")
    assert gate(scene)[0] == 0
    short = {"OUTLAST_GRACE": "100ms"}
    until(lambda: gate(scene, **short)[0] == 5, "the gate to close", timeout_s=60)
    assert "charge_plain in flight" in gate(scene, **short)[1]
    scene.witness.let_go("charge plain")
    scene.result(task)
    assert gate(scene)[0] == 0


def row(scene: Scene, task: str) -> dict[str, Any]:
    """The task as `ps --json` has it."""
    found: list[dict[str, Any]] = scene.command("ps", "--json").json["items"]
    return next(each for each in found if each["id"] == task)


def gate(scene: Scene, *words: str, **environment: str) -> tuple[int, str]:
    """The gate's exit code and sentence."""
    ran = scene.command("deploy-gate", *words, **environment)
    return ran.code, ran.output.strip()
