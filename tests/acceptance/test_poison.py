"""A task that kills its worker: it is given up, its neighbours live on."""

from __future__ import annotations

import json
import time

import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import PATIENCE_S, Scene, kinds


@pytest.mark.faults
@pytest.mark.parametrize(("how", "seen"), [("exit", False), ("segv", True)])
def test_a_task_that_kills_its_worker_is_given_up_and_its_neighbours_are_not_blamed(
    scene: Scene, how: str, seen: bool
) -> None:
    """case R28, case R86: whether its deaths are seen by a supervisor, or its leases run out"""
    poison = scene.submit("kills_its_worker", how=how)
    neighbours = [scene.submit("takes_its_time", seconds=2.0) for _ in range(3)]
    lives = supervise(scene, [poison, *neighbours], seen)
    ends = {"lease.expired", "lease.released"} & set(kinds(scene.log(poison)))
    assert ends == {"lease.released" if seen else "lease.expired"}
    assert scene.task(poison).reason == "abandoned"
    assert "max_resumes 3" in json.loads(scene.task(poison).error or "{}")["message"]
    for task in neighbours:
        assert scene.result(task)
        assert scene.task(task).failures == 0
    # Four lives are the poison's budget of three and the one that is over it.
    assert len(scene.events(poison, "lease.granted")) == 4
    assert scene.witness.came("poison") == 4
    assert 4 <= lives <= 6
    # From the third bad end on it was alone: nobody was granted beside its last lease.
    last = scene.events(poison, "lease.granted")[-1]
    beside = [
        grant.at_ms
        for task in neighbours
        for grant in scene.events(task, "lease.granted")
        if body_of(grant)["worker"] == body_of(last)["worker"] and grant.at_ms <= last.at_ms
    ]
    held = [
        event.at_ms
        for task in neighbours
        for event in scene.log(task)
        if event.holder == 0 and event.seq > 1
    ]
    assert all(any(began < ended <= last.at_ms for ended in held) for began in beside)


def supervise(scene: Scene, tasks: list[str], seen: bool) -> int:
    """Have a worker started again whenever it dies; how many lives it took."""
    end = time.monotonic() + PATIENCE_S
    worker = scene.worker("life-1", ttl="1s", supervisor=seen)
    while not all(scene.task(task).ended for task in tasks):
        assert time.monotonic() < end, "".join(scene.told(task) for task in tasks)
        if worker.code is not None:
            assert not seen
            worker = scene.worker(f"life-{len(scene.workers) + 1}", ttl="1s", supervisor=seen)
        time.sleep(0.05)
    return sum(len(worker.said("worker.started")) for worker in scene.workers)
