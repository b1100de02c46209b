"""The drain test as people use it: on the command line, in pytest, from `outlast`, with a file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from draintest.command_target import CommandMaker
from draintest.verdict import Verdict
from tests.draintest.conftest import REFERENCE, broken_toml

RUN_S = 550


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "draintest", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S)


def test_the_fixture_gives_a_verdict_and_keeps_the_evidence(
    drain_test: Callable[..., Verdict], tmp_path: Path
) -> None:
    verdict = drain_test(str(REFERENCE), only=("kill-charge-applied",))
    assert verdict.verdict == "pass", str(verdict)
    assert (tmp_path / "drain-test" / "report.html").exists()


def test_a_run_that_fails_says_how_to_repeat_it_and_ends_with_1(tmp_path: Path) -> None:
    target = broken_toml(tmp_path, "key from the attempt")
    ran = run("run", target, "--only", "kill-charge-applied", "--seed", "7", "--json",
              "--evidence", tmp_path / "out")  # fmt: skip
    assert ran.returncode == 1
    told = json.loads(ran.stdout)
    assert [c["check"] for c in told["checks"] if c["verdict"] == "fail"] == ["C6"]
    again = ran.stderr.splitlines()[-1]
    assert "again: draintest run" in again
    assert "--seed 7" in again
    assert "--only kill-charge-applied" in again
    assert "1/1  kill-charge-applied: kill landed" in ran.stderr


def test_the_scenarios_are_every_point_times_every_fault() -> None:
    listed = run("list", "--profile", "full").stdout
    names = {line.split()[0] for line in listed.splitlines()}
    points = {
        f"{fault}-{act}-{point}"
        for fault in ("kill", "term", "stop")
        for act in ("plan", "charge", "email", "ticket")
        for point in ("before", "applied", "answered")
    }
    assert points <= names
    assert len(points) == 36


def test_the_same_seed_gives_the_same_scenarios() -> None:
    one, same, other = (run("list", "--profile", "full", "--seed", n).stdout for n in "112")
    assert one == same
    assert len(one.splitlines()) == len(other.splitlines())


def test_outlast_starts_it_for_the_store_at_hand(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("outlast"), "drain-test", "--only", "calm"]
    command += ["--evidence", tmp_path / "out", "--db", f"sqlite:{tmp_path / 'mine.db'}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "PASS  1 scenarios" in ran.stdout
    assert not (tmp_path / "mine.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "no-such.toml"], "no target"),
        (["run", "outlast", "--faults", "plague"], "unknown faults ['plague']"),
        (["run", "outlast", "--only", "nothing"], "no scenario is left"),
    ],
)
def test_a_wrong_wish_is_a_line_and_no_run(words: list[str], said: str) -> None:
    ran = run(*words)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_evidence_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("kept")
    ran = run("run", REFERENCE, "--evidence", tmp_path)
    assert (ran.returncode, "never written over" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[target]\n", "needs a name"),
        ("[target]\nname = 'x'\n", "lacks worker, submit, tasks"),
        (
            "[target]\nname = 'x'\noffers = ['luck']\n[commands]\nworker=[]\nsubmit=[]\ntasks=[]",
            "luck",
        ),
    ],
)
def test_a_file_that_is_no_target_says_why(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        CommandMaker(path, {})


@pytest.mark.faults
@pytest.mark.parametrize("db", [[], ["--db", "embedded"]], ids=["sqlite", "postgres"])
def test_outlast_passes_the_quick_test(db: list[str], tmp_path: Path) -> None:
    ran = run("run", "outlast", *db, "--evidence", tmp_path / "out", "--json")
    told = json.loads(ran.stdout)
    against = [s for s in told["scenarios"] if s["verdict"] != "pass"]
    assert (ran.returncode, against) == (0, [])
    assert told["figures"]["faults_missed"] == 0
    assert {c["verdict"] for c in told["checks"]} == {"pass"}


AGENT = """
import time, outlast
app = outlast.App()
@app.agent(retries=2)
async def poem(ctx: outlast.Context, lines: int) -> int:
    for number in range(lines):
        await ctx.step(f"line {number}", time.sleep, 0.1)
    return lines
"""


@pytest.mark.faults
def test_an_agent_of_the_users_own_is_the_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    words = ["--agent", "mine:app", "--agent-input", '{"lines": 60}', "--agent-seconds", "4"]
    ran = run("run", "outlast", *words, "--evidence", "out", "--json")
    told = json.loads(ran.stdout)
    assert (ran.returncode, told["figures"]["faults"]) == (0, 9), str(told["scenarios"])
    ran = run("run", "outlast", "--agent", "nobodys:app")
    assert (ran.returncode, "cannot be loaded" in ran.stderr) == (2, True)
