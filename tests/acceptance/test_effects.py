"""Acts on the outside world, cut off at each place: never done twice, never guessed."""

from __future__ import annotations

import json

import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import Scene

TTL = "2s"
TOOLS = ["keyed", "queryable", "plain"]


@pytest.mark.parametrize("place", ["not yet made", "applied, not answered", "not yet recorded"])
def test_killed_around_a_call_each_class_of_tool_is_settled_by_its_policy(
    scene: Scene, place: str
) -> None:
    """case R46, case R53: same key again, probe, or a person; the witness counts"""
    tasks = {tool: scene.submit("buys", tool=tool) for tool in TOOLS}
    held = {tool: hold_at(scene, tool, place) for tool in TOOLS}
    old = scene.worker("old", ttl=TTL)
    for name, where in held.values():
        scene.witness.until_held(name, where)
    old.kill()
    for name, _ in held.values():
        (scene.witness.forget if place == "not yet made" else scene.witness.let_go)(name)

    scene.worker("heir", ttl="30s")
    for tool in ("keyed", "queryable"):
        assert len(scene.result(tasks[tool])) == 3
        assert scene.witness.applied(f"charge {tool}") == 1
    happened = int(place != "not yet made")
    assert scene.witness.came("charge queryable") == (1 if happened else 2)
    keys = {line["key"] for line in scene.witness.lines("charge keyed", "came")}
    assert len(keys) == 1
    a_person_settles(scene, tasks["plain"], applied=bool(happened))
    assert scene.witness.applied("charge plain") == 1
    assert scene.witness.came("before the charge") == len(TOOLS)


def test_a_remote_that_commits_and_drops_the_connection_is_no_failure(scene: Scene) -> None:
    """case R47, case R80: as if killed, without any crash"""
    for tool in TOOLS:
        scene.witness.drop(f"charge {tool}")
    tasks = {tool: scene.submit("buys", tool=tool) for tool in TOOLS}
    scene.worker()
    for tool in ("keyed", "queryable"):
        scene.result(tasks[tool])
        assert scene.witness.applied(f"charge {tool}") == 1
        assert len(scene.events(tasks[tool], "lease.granted")) == 1
    a_person_settles(scene, tasks["plain"], applied=True)
    assert scene.witness.came("charge plain") == 1


def test_of_ten_effects_side_by_side_each_is_resumed_by_its_own_state(scene: Scene) -> None:
    """case R53"""
    scene.witness.hold("charge 3", "before")
    scene.witness.hold("charge 6", "after")
    task = scene.submit("buys_many", count=10)
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("charge 3", "before")
    scene.witness.until_held("charge 6", "after")
    for number in set(range(10)) - {3, 6}:
        scene.until_event(task, "effect.applied", name=f"gather[{number}]›charge {number}")
    old.kill()
    scene.witness.forget("charge 3")
    scene.witness.let_go("charge 6")
    scene.worker("heir", ttl="30s")
    receipts = scene.result(task)
    assert len(set(receipts)) == 10
    assert [scene.witness.applied(f"charge {number}") for number in range(10)] == [1] * 10
    came = [scene.witness.came(f"charge {number}") for number in range(10)]
    assert came == [2 if number in (3, 6) else 1 for number in range(10)]


def test_an_effect_that_failed_is_tried_again_with_the_same_key(scene: Scene) -> None:
    """case R51"""
    task = scene.submit("tries_again")
    scene.worker()
    scene.result(task)
    lines = [line for line in scene.witness.lines(word="came") if line["key"]]
    assert [line["name"] for line in lines] == ["declined", "declined", "charge"]
    assert len({line["key"] for line in lines}) == 1


def test_two_workers_with_one_key_act_once_and_both_have_the_result(scene: Scene) -> None:
    """case R52: a tool that knows nothing of keys"""
    scene.witness.hold("charge plain")
    first = scene.submit("buys_under", key="invoice-17", tool="plain")
    scene.worker("one", slots=1)
    scene.witness.until_held("charge plain")
    second = scene.submit("buys_under", key="invoice-17", tool="plain")
    scene.worker("two", slots=1)
    scene.until_event(second, "lease.granted")
    scene.witness.let_go("charge plain")
    assert scene.result(first) == scene.result(second)
    assert scene.witness.came("charge plain") == 1
    assert len(scene.events(second, "effect.reused")) == 1


@pytest.mark.faults
def test_when_the_owner_of_a_shared_key_dies_one_task_resolves_the_doubt(scene: Scene) -> None:
    """case R77: it was applied, and nobody had been told"""
    scene.witness.hold("charge queryable", "after")
    first = scene.submit("buys_under", key="invoice-17", tool="queryable")
    old = scene.worker("old", ttl=TTL)
    scene.witness.until_held("charge queryable", "after")
    second = scene.submit("buys_under", key="invoice-17", tool="queryable")
    scene.worker("two", ttl="30s")
    old.kill()
    scene.witness.let_go("charge queryable")
    assert scene.result(first) == scene.result(second)
    assert scene.witness.came("charge queryable") == 1


def test_what_was_approved_twice_at_once_is_done_once_and_exactly_so(scene: Scene) -> None:
    """case R54: and everything was restarted while it waited"""
    task = scene.submit("asks_first")
    first = scene.worker("first", ttl=TTL)
    scene.until_state(task, "waiting")
    first.kill()
    said = json.dumps({"amount": 17})
    both = [scene.start_command("signal", task, "approval", said, "--id", "yes") for _ in range(2)]
    assert [command.wait(90) for command in both] == [0, 0]
    scene.worker("second", ttl=TTL)
    scene.result(task)
    assert [line["name"] for line in scene.witness.lines(word="applied")] == ["charge 17"]


def hold_at(scene: Scene, tool: str, place: str) -> tuple[str, str]:
    """Lay the hold for this place; the call and where it is held."""
    name, where = {
        "not yet made": (f"charge {tool}", "before"),
        "applied, not answered": (f"charge {tool}", "after"),
        "not yet recorded": (f"receipt of {tool}", "before"),
    }[place]
    scene.witness.hold(name, where)
    return name, where


def a_person_settles(scene: Scene, task: str, *, applied: bool) -> None:
    """The task is in review, its doubt is listed, and what a person says lets it end."""
    scene.until_state(task, "review")
    listed = scene.command("effects", "--unknown", "--json").json["items"]
    assert [each["task"] for each in listed] == [task]
    key = listed[0]["key"]
    words = ("--applied", "receipt-9") if applied else ("--not-applied", "--reason", "I looked")
    assert scene.command("settle", key, *words).code == 0
    receipts = scene.result(task)
    assert (receipts[1] == "receipt-9") == applied
    settled = scene.events(task, "effect.settled")
    assert [body_of(event)["applied"] for event in settled] == [applied]
