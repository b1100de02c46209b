"""A worker whose death is seen: nobody waits for its lease, and another takes its place."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlast.core.lifecycle import body_of
from tests.acceptance.scene import PATIENCE_S, Scene, Worker, kinds
from tests.support.leftovers import descendants
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes, state_of
from tests.support.waiting import until

AN_APP = "import outlast\napp = outlast.App()\n@app.agent\ndef idle(ctx): ...\n"
STEPS = ["plan", "write", "send"]
# No test here could wait for it: whatever goes on has not waited for a lease to run out.
TTL = "600s"
# Half a second is promised on a machine at rest; this one is shared.
SOON_MS = 3_000


def in_the_middle(scene: Scene, agent: str = "walk", **options: Any) -> tuple[str, Worker]:
    """A task whose second step is held by the witness, and its worker."""
    task = scene.submit(agent, steps=STEPS)
    scene.witness.hold("write")
    worker = scene.worker("first", ttl=TTL, **options)
    scene.witness.until_held("write")
    return task, worker


def kill_work(worker: Worker) -> None:
    """Kill the process that does the work, and nothing else."""
    os.kill(worker.pid, signal.SIGKILL)


def died(worker: Worker, count: int = 1) -> list[dict[str, Any]]:
    until(lambda: len(worker.said("worker.died")) >= count, "a death to be told",
          timeout_s=PATIENCE_S, detail=lambda: worker.running.output)  # fmt: skip
    return worker.said("worker.died")


def only_release(scene: Scene, task: str) -> dict[str, Any]:
    [released] = scene.events(task, "lease.released")
    return {**body_of(released), "at_ms": released.at_ms}


# -- the work process dies ------------------------------------------------------------------------


def test_a_killed_workers_task_goes_on_at_once_elsewhere(scene: Scene) -> None:
    task, old = in_the_middle(scene, slots=1)
    heir = scene.worker("heir", ttl=TTL, poll="30s")
    dead = (old.id, old.pid)
    old.send(signal.SIGSTOP)  # its parent, lest a replacement be quicker than the heir
    kill_work(old)
    old.thaw()
    scene.witness.let_go("write")
    assert len(scene.result(task)) == len(STEPS)

    [death] = died(old)
    assert (death["worker"], death["pid"]) == dead
    assert (death["how"], death["leases"], death["next_ms"]) == ("SIGKILL", 1, 100)
    released = only_release(scene, task)
    assert released["reason"] == "crashed"
    assert f"process {old.running.pid} on " in released["by"]
    ended = scene.task(task)
    assert (ended.resumes, ended.failures, ended.handoffs) == (1, 0, 0)
    assert "lease.expired" not in kinds(scene.log(task))
    granted = scene.events(task, "lease.granted", epoch=2)[0]
    assert body_of(granted)["reason"] == "crashed"
    assert granted.at_ms - released["at_ms"] <= SOON_MS
    known = {worker.id: worker.state for worker in scene.ask(lambda store: store.workers())}
    assert (known[dead[0]], known[heir.id]) == ("retired", "active")


def test_its_replacement_goes_on_where_there_is_no_other(scene: Scene) -> None:
    task, worker = in_the_middle(scene)
    killed_ms, dead = scene.now_ms(), worker.pid
    kill_work(worker)
    granted = scene.until_event(task, "lease.granted", epoch=2)
    assert granted.at_ms - killed_ms <= SOON_MS
    scene.witness.let_go("write")
    assert len(scene.result(task)) == len(STEPS)
    assert scene.witness.came("plan") == 1
    assert worker.code is None
    assert worker.pid == body_of(granted)["pid"] != dead
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_what_it_leaves_behind_is_killed_wherever_it_hides(sqlite_scene: Scene) -> None:
    task = sqlite_scene.submit("has_a_family")
    sqlite_scene.witness.hold("stay", times=2)
    worker = sqlite_scene.worker("first", ttl=TTL)
    sqlite_scene.witness.until_held("stay")
    family = body_of(sqlite_scene.events(task, "step.done")[0])["result"]
    assert [pid for pid in family if state_of(pid) not in "SR"] == []
    kill_work(worker)
    until(lambda: all(state_of(pid) == "-" for pid in family), "the family to be gone",
          timeout_s=1.0, detail=lambda: str([state_of(pid) for pid in family]))  # fmt: skip
    died(worker)


def test_orphans_are_reaped_while_the_worker_lives(sqlite_scene: Scene) -> None:
    """As the first process of a container must: else its process table fills up."""
    sqlite_scene.submit("leaves_orphans")
    sqlite_scene.witness.hold("stay")
    worker = sqlite_scene.worker("first", ttl=TTL)
    sqlite_scene.witness.until_held("stay")
    until(lambda: descendants(worker.running.pid) == [worker.pid], "the orphans to be gone",
          timeout_s=PATIENCE_S, detail=lambda: str(descendants(worker.running.pid)))  # fmt: skip
    assert worker.said("worker.died") == []


def test_a_stopped_worker_is_not_dead(sqlite_scene: Scene) -> None:
    task, worker = in_the_middle(sqlite_scene)
    os.kill(worker.pid, signal.SIGSTOP)
    until(lambda: state_of(worker.pid) == "T", "the worker to stop", timeout_s=PATIENCE_S)
    os.kill(worker.pid, signal.SIGCONT)
    sqlite_scene.witness.let_go("write")
    assert len(sqlite_scene.result(task)) == len(STEPS)
    assert worker.said("worker.died") == []
    assert kinds(sqlite_scene.log(task)).count("lease.granted") == 1


def test_an_agent_that_ends_its_process_ends_the_command_and_holds_nothing(scene: Scene) -> None:
    """An exit code is a decision and is passed on; a lease that was left is ended all the same."""
    task = scene.submit("kills_its_worker", how="exit")
    worker = scene.worker("first", ttl=TTL)
    assert worker.wait() == 3
    [death] = died(worker)
    assert (death["how"], death["leases"], death["next_ms"]) == ("exit code 3", 1, None)
    assert only_release(scene, task)["reason"] == "crashed"


@pytest.mark.faults
@pytest.mark.postgres
def test_a_death_while_the_store_is_away_is_recorded_when_it_is_back(
    own_scene: Scene, server: PostgresServer
) -> None:
    task, worker = in_the_middle(own_scene)
    server.stop()
    kill_work(worker)
    assert died(worker)[0]["leases"] is None
    # A replacement that finds no store is no reason to give up.
    until(lambda: "outlast: " in worker.running.output, "a replacement to complain",
          timeout_s=PATIENCE_S)  # fmt: skip
    assert worker.code is None
    server.start()
    own_scene.witness.let_go("write")
    assert len(own_scene.result(task)) == len(STEPS)
    assert only_release(own_scene, task)["reason"] == "crashed"
    assert died(worker, 2)[1]["leases"] == 1


# -- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["the command", "the worker", "the group", "a hang-up"])
def test_an_order_is_one_order_however_it_comes(sqlite_scene: Scene, to: str) -> None:
    """Ctrl-C, and systemd, tell both processes: a second order would leave at once."""
    task, worker = in_the_middle(sqlite_scene, grace="100s")
    send: dict[str, Callable[[], None]] = {
        "the command": lambda: worker.send(signal.SIGINT),
        "the worker": lambda: os.kill(worker.pid, signal.SIGINT),
        "the group": lambda: worker.running.send_group(signal.SIGINT),
        "a hang-up": lambda: worker.send(signal.SIGHUP),
    }
    send[to]()
    worker.until_said("drain.asked")
    sqlite_scene.witness.let_go("write")
    assert worker.wait() == 0
    assert only_release(sqlite_scene, task)["reason"] == "drain"


@pytest.mark.parametrize("to", ["the command", "the group"])
def test_a_second_order_leaves_at_once(sqlite_scene: Scene, to: str) -> None:
    task, worker = in_the_middle(sqlite_scene, grace="100s")
    send = worker.send if to == "the command" else worker.running.send_group
    send(signal.SIGTERM)
    worker.until_said("drain.asked")
    send(signal.SIGTERM)
    assert worker.wait() == 75
    assert only_release(sqlite_scene, task)["reason"] == "deadline"


def test_what_the_users_code_listens_to_reaches_it(processes: Processes, tmp_path: Path) -> None:
    source = AN_APP + "import faulthandler, signal\nfaulthandler.register(signal.SIGUSR1)\n"
    worker = command(processes, tmp_path, source)
    worker.until_said("worker.started")
    worker.send(signal.SIGUSR1)
    worker.running.wait_for_line("most recent call first")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_worker_killed_while_it_drains_is_not_replaced(sqlite_scene: Scene) -> None:
    task, worker = in_the_middle(sqlite_scene, grace="100s")
    worker.send(signal.SIGTERM)
    worker.until_said("drain.asked")
    kill_work(worker)
    assert worker.wait() == 128 + signal.SIGKILL
    assert only_release(sqlite_scene, task)["reason"] == "crashed"


def test_a_worker_whose_parent_is_killed_hands_over(scene: Scene) -> None:
    """Alone, nobody would see its death."""
    task, worker = in_the_middle(scene)
    alone = worker.pid
    worker.send(signal.SIGKILL)
    [asked] = until(lambda: worker.said("drain.asked"), "the worker to notice",
                    timeout_s=PATIENCE_S)  # fmt: skip
    assert asked["by"] == "the supervisor has died"
    scene.witness.let_go("write")
    until(lambda: state_of(alone) == "-", "the worker to leave", timeout_s=PATIENCE_S)
    assert only_release(scene, task)["reason"] == "drain"
    assert (scene.task(task).resumes, scene.task(task).failures) == (0, 0)


# -- starting again -------------------------------------------------------------------------------


def command(processes: Processes, folder: Path, source: str, *flags: str) -> Worker:
    """`outlast worker` of a module in a folder of its own."""
    (folder / "mine.py").write_text(source)
    words = ("worker", "mine:app", "--db", f"sqlite:{folder}/outlast.db", "-o", "jsonl", *flags)
    return Worker(processes.outlast(*words, folder=folder), "mine")


def test_one_that_dies_at_its_start_is_started_ever_more_seldom(
    processes: Processes, tmp_path: Path
) -> None:
    worker = command(processes, tmp_path, "import os, signal\nos.kill(os.getpid(), 11)\n")
    deaths = died(worker, 4)
    assert [death["next_ms"] for death in deaths[:4]] == [100, 200, 400, 800]
    assert {death["how"] for death in deaths} == {"SIGSEGV"}
    assert {death["leases"] for death in deaths} == {0}
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_an_order_during_its_start_ends_it(processes: Processes, tmp_path: Path) -> None:
    slow = "import time\nprint('importing', flush=True)\ntime.sleep(600)\n"
    worker = command(processes, tmp_path, slow)
    worker.running.wait_for_line("importing")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("source", "flags", "code"),
    [
        ("no = 1\n", (), 2),
        (AN_APP, ("--db", "sqlite:/proc/no/outlast.db"), 69),
    ],
)
def test_a_refusal_is_no_death(
    processes: Processes, tmp_path: Path, source: str, flags: tuple[str, ...], code: int
) -> None:
    worker = command(processes, tmp_path, source, *flags)
    assert worker.wait() == code
    assert worker.running.output.count("\n") == 1, worker.running.output


def test_without_a_supervisor_there_is_one_process(processes: Processes, tmp_path: Path) -> None:
    source = AN_APP
    worker = command(processes, tmp_path, source, "--no-supervisor")
    worker.until_said("worker.started")
    assert (worker.pid, descendants(worker.pid)) == (worker.running.pid, [])


def test_what_a_shell_had_started_before_is_no_workers(
    processes: Processes, tmp_path: Path
) -> None:
    """`proxy & exec outlast worker`, as the start of a container often is."""
    (tmp_path / "mine.py").write_text(AN_APP)
    outlast = Path(sys.executable).with_name("outlast")
    words = f"worker mine:app --db sqlite:{tmp_path}/outlast.db -o jsonl"
    shell = f"sleep 600 & echo $! > proxy; exec {outlast} {words}"
    worker = Worker(processes.start("sh", "-c", shell, folder=tmp_path), "mine")
    worker.until_said("worker.started")
    kill_work(worker)
    died(worker)
    until(lambda: len(worker.said("worker.started")) == 2, "a replacement", timeout_s=PATIENCE_S)
    assert state_of(int((tmp_path / "proxy").read_text())) == "S"


def test_the_first_process_of_a_container_hears_and_reaps(tmp_path: Path) -> None:
    """A namespace of pids of its own, where the command is process 1."""
    (tmp_path / "mine.py").write_text(
        AN_APP + "import os, subprocess, threading, time\n"
        "assert os.getppid() == 1\n"
        "subprocess.run(['sh', '-c', 'setsid sleep 0.1 &'])\n"
        "def look():\n"
        "    time.sleep(1)\n"
        "    here = [int(name) for name in os.listdir('/proc') if name.isdigit()]\n"
        "    print('here', here, flush=True)\n"
        "    os.kill(1, 15)\n"
        "threading.Thread(target=look).start()\n"
    )
    outlast = Path(sys.executable).with_name("outlast")
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a namespace of pids")
    db = f"sqlite:{tmp_path}/outlast.db"
    words = [outlast, "worker", "mine:app", "--db", db]
    ran = subprocess.run([*unshare, *words], cwd=tmp_path, capture_output=True, text=True,
                         timeout=60, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout.partition("here ")[2])) == 2
