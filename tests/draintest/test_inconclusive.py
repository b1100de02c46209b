"""Nothing is concluded from harm that did not land, or mattered to nobody: each case of it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from draintest import faults, harm_to_database, program, scenarios
from draintest.command_target import CommandMaker
from draintest.processes import Launch, Process
from draintest.run import Run
from draintest.scenarios import Scenario
from draintest.stage import Stage
from draintest.target import OFFERS, Limits, Target
from draintest.verdict import judge
from tests.draintest.conftest import HERE, REFERENCE, Judged

Act = Callable[[Stage], None]


def dead(stage: Stage) -> None:
    stage.submit(program.core())
    victim = stage.worker()
    stage.until_rest()
    victim.end()
    stage.harm(faults.KILL, victim)


def idle(stage: Stage) -> None:
    stage.submit(program.core())
    victim = stage.worker()
    stage.until_rest()
    stage.harm(faults.KILL, victim)


def nowhere(stage: Stage) -> None:
    stage.limits = type(stage.limits)(ttl_ms=100, grace_ms=100)
    scenarios.at_point(program.core(), "no such act", "before", faults.KILL)(stage)


def fenced(stage: Stage) -> None:
    stage.submit([program.effect("pay", "fenced")])
    stage.worker()
    stage.until_rest()


def clock(stage: Stage) -> None:
    stage.submit(program.core())
    stage.clock_stepped(stage.worker(), {"FAKETIME": "+600"})


def no_child(stage: Stage) -> None:
    stage.witness.hold(stage.name, "charge", "before")
    stage.submit(program.core())
    worker = stage.worker()
    stage.harm_child(stage.until_held("charge", "before"), worker)


class Untouched:
    """A disk that is said to be full, and a server whose clock is said to be stepped."""

    def fill(self) -> dict[str, Any]:
        return {"free_blocks": 0}

    def step_clock(self, by_s: int) -> dict[str, Any]:
        return {"shift_ms": 0}

    def with_clock(self, library: str) -> None:
        """Nothing is done."""

    def without_clock(self) -> None:
        """Nothing is undone."""


def roomy_disk(stage: Stage) -> None:
    stage.disk = Untouched()
    harm_to_database.disk_full(stage)


def steady_clock(stage: Stage) -> None:
    stage.server = Untouched()
    harm_to_database.clock(60, "no library")(stage)


@dataclass(frozen=True)
class Case:
    """`change`: a line of Python put into the target; `why`: what the verdict must say."""

    why: str
    act: Act = scenarios.calm
    harm: str = ""
    change: str = "pass"


CASES = {
    "a worker that is already dead": Case("already dead (exit code -9)", dead, faults.KILL),
    "nothing was in flight": Case("no task was in flight when w1 was harmed", idle, faults.KILL),
    "harm that was promised and never done": Case("never done: stop", harm=faults.STOP),
    "a point that is never reached": Case("no call of no such act came", nowhere, faults.KILL),
    "a clock that was not stepped": Case("its clock reads", clock, "clock"),
    "a child that is none": Case("is no child of worker w1", no_child, faults.CHILD),
    "a disk that refuses nothing": Case("stored though the disk is full", roomy_disk, "disk"),
    "a database whose clock goes on": Case(
        "it reads 0 ms beside ours", steady_clock, "database-clock"
    ),
    "a worker that does not start": Case(
        "did not start (exit code 3)", change="Worker.run = lambda self: sys.exit(3)"
    ),
    "a target that sends no effect": Case(
        "no effect reached the world", change="Worker.effect = lambda *words: 'done, believe me'"
    ),
    "a keyed provider that is given no key": Case(
        "charge was to be keyed, and came without", change="Worker.key = lambda *words: None"
    ),
    "a fenced provider that is given no epoch": Case(
        "came without an epoch",
        fenced,
        change="t = reference.tell; reference.tell = lambda said: t({**said, 'epoch': None})",
    ),
    "a target that cannot be asked": Case("CannotSay", change="Store.submit = None"),
}


class ChangedMaker:
    """Makes the reference with the change of the case that the scenario is named after."""

    not_claimed: frozenset[str] = frozenset()

    def __init__(self, folder: Path) -> None:
        self.makers = {
            name: with_program(folder, number, case.change)
            for number, (name, case) in enumerate(CASES.items())
        }
        self.name, self.limits, self.offers = "changed", Limits(), frozenset(OFFERS)

    def make(self, folder: Path, lane: int) -> Target:
        return self.makers[folder.name].make(folder, lane)

    server = None

    def disk(self, folder: Path, workplace: Any) -> None:
        return None

    def schema(self, folder: Path) -> None:
        return None

    def open(self, workplace: Any) -> None:
        """Nothing is shared."""

    def close(self) -> None:
        for maker in self.makers.values():
            maker.close()


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All cases, played side by side."""
    folder = tmp_path_factory.mktemp("inconclusive")
    wanted = [
        Scenario(name, case.act, (case.harm,) if case.harm else ()) for name, case in CASES.items()
    ]
    run = Run(ChangedMaker(folder), folder / "evidence", 8, lambda *_: None, {"limited": True})
    records = run.play(wanted)
    return Judged(records, judge(records))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_concluded_from(name: str, judged: Judged) -> None:
    scenario = next(s for s in judged.verdict.scenarios if s.scenario == name)
    assert scenario.verdict == "inconclusive"
    assert CASES[name].why in scenario.why


def test_a_run_of_which_nothing_can_be_concluded_is_no_pass_and_no_failure(judged: Judged) -> None:
    assert (judged.verdict.verdict, judged.verdict.exit_code) == ("inconclusive", 2)
    assert judged.failed == set()


def test_a_check_with_nothing_to_look_at_and_one_that_is_not_offered(tmp_path: Path) -> None:
    path = tmp_path / "silent.toml"
    offers = next(line for line in REFERENCE.read_text().splitlines() if line.startswith("offers"))
    text = REFERENCE.read_text().replace(offers, 'offers = ["drain", "cancel"]')
    path.write_text(text.replace("{here}", str(HERE)))
    run = Run(CommandMaker(path, {}), tmp_path / "out", 1, lambda *_: None, {"limited": True})
    verdict = judge(run.play([Scenario("calm", scenarios.calm)]))
    kinds = {c.check: c.verdict for c in verdict.checks}
    assert {n for n, v in kinds.items() if v == "unsupported"} == {
        "C1", "C2", "C3", "C4", "C6", "C7", "C9", "C12", "C13", "C14",
    }  # fmt: skip
    assert (kinds["C8"], kinds["C10"], kinds["C11"]) == ("pass", "inconclusive", "inconclusive")


@pytest.mark.parametrize(
    ("fault", "proof"), [(faults.KILL, "exit_code"), (faults.STOP, "states"), (faults.TERM, "del")]
)
def test_a_fault_that_lands_brings_its_proof(fault: str, proof: str, tmp_path: Path) -> None:
    process = Process("sleeper", Launch(["sleep", "60"]), tmp_path / "out")
    try:
        told = faults.strike(fault, process, [])
        assert any(name.startswith(proof) for name in told)
    finally:
        process.end()
    with pytest.raises(faults.Missed, match="already dead"):
        faults.strike(fault, process, [])
    assert process.code in (-signal.SIGKILL, -signal.SIGTERM)


def with_program(folder: Path, number: int, change: str) -> CommandMaker:
    """The reference with a line of Python put into it before it runs."""
    script = folder / f"changed{number}.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(HERE)!r})\nimport reference\n"
        f"from reference import Store, Worker\n{change}\nreference.main(Store, Worker)\n"
    )
    path = folder / f"changed{number}.toml"
    path.write_text(REFERENCE.read_text().replace("{here}/reference.py", str(script)))
    return CommandMaker(path, {})
