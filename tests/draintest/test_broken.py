"""Each planted fault is caught by the checks that its entry names, and by no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from draintest import plan
from draintest.checks.table import TABLE
from draintest.scenarios import Scenario
from draintest.verdict import Verdict, judge
from tests.draintest.broken import TARGETS
from tests.draintest.conftest import BrokenMaker, Judged

Play = Callable[..., Judged]
HALVES = [list(TARGETS)[0::2], list(TARGETS)[1::2]]
# A few scenarios of each kind; all of them are played by `make faults`.
SLOW = "but the machine was that slow meanwhile"
SOME = ("calm", "kill-charge", "term-email", "stop-ticket", "cancel-running", "drain-slow")


@pytest.mark.parametrize("names", HALVES, ids=["one half", "the other half"])
def test_every_planted_fault_is_caught_by_its_checks_and_by_no_other(
    names: list[str], play: Play, tmp_path: Path
) -> None:
    judged = play([s for name in names for s in telling(name)], BrokenMaker(tmp_path))
    found = {name: verdict_on(name, judged) for name in names}
    told = {n: [s.why for s in v.scenarios if s.verdict != "pass"] for n, v in found.items()}
    caught = {name: caught_by(verdict, TARGETS[name].caught_by) for name, verdict in found.items()}
    assert caught == {name: set(TARGETS[name].caught_by) for name in names}, told
    assert 0 not in {v.exit_code for v in found.values()}


def test_every_check_has_a_broken_target_that_fails_it() -> None:
    assert {each for broken in TARGETS.values() for each in broken.caught_by} == {
        entry.number for entry in TABLE
    }


def test_a_correct_target_passes(play: Play) -> None:
    judged = play([s for s in plan.make(plan.Wanted()) if s.name.startswith(SOME)])
    assert [s for s in judged.verdict.scenarios if s.verdict != "pass"] == []
    assert judged.failed == set()


@pytest.mark.faults
def test_a_correct_target_passes_everything(play: Play) -> None:
    few = ("chance-1", "chance-2", "chance-3")
    wanted = plan.make(plan.Wanted(profile="full"))
    judged = play([s for s in wanted if s.name in few or not s.name.startswith("chance-")])
    assert [s for s in judged.verdict.scenarios if s.verdict != "pass"] == []
    assert {c.check for c in judged.verdict.checks if c.verdict != "pass"} == set()
    assert judged.verdict.figures["faults_missed"] == 0


def caught_by(verdict: Verdict, named: tuple[str, ...]) -> set[str]:
    """The checks that fail, and those of the named that found it on a machine too slow to tell."""
    slow = {
        f.check for c in verdict.checks for f in c.findings if f.said.endswith(SLOW) and f.lines
    }
    return {c.check for c in verdict.checks if c.verdict == "fail"} | (slow & set(named))


def telling(name: str) -> list[Scenario]:
    """The scenarios in which a fault shows, each with the target's name."""
    wanted = plan.Wanted(only=TARGETS[name].seen_in)
    return [replace(s, name=f"{s.name} of {name}") for s in plan.make(wanted)]


def verdict_on(name: str, judged: Judged) -> Verdict:
    """The verdict on one of the targets that a run has played side by side."""
    return judge(
        [
            record
            for record in judged.records
            if "scenario" not in record or record["scenario"].partition(" of ")[2] == name
        ]
    )
