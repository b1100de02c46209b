"""Runs of the drain test on the reference target, and on broken ones, as fixtures."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from draintest.command_target import CommandMaker
from draintest.history import Record
from draintest.run import Run
from draintest.scenarios import Scenario
from draintest.verdict import Verdict, judge
from tests.draintest.broken import TARGETS

HERE = Path(__file__).parent
REFERENCE = HERE / "reference.toml"
LANES = 8
TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Harness deadlines are generous: a busy machine makes these tests slow, not red."""
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@dataclass(frozen=True)
class Judged:
    """A run that is over."""

    records: list[Record]
    verdict: Verdict

    def check(self, number: str) -> str:
        return next(c.verdict for c in self.verdict.checks if c.check == number)

    @property
    def failed(self) -> set[str]:
        return {c.check for c in self.verdict.checks if c.verdict == "fail"}


class BrokenMaker:
    """Makes the broken target whose name follows ` of ` in a scenario's name."""

    not_claimed: frozenset[str] = frozenset()

    def __init__(self, folder: Path) -> None:
        self.makers = {name: CommandMaker(broken_toml(folder, name), {}) for name in TARGETS}
        reference = CommandMaker(REFERENCE, {})
        self.name, self.limits, self.offers = "broken", reference.limits, reference.offers

    def make(self, folder: Path, lane: int) -> Any:
        return self.makers[folder.name.partition(" of ")[2]].make(folder, lane)

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


def broken_toml(folder: Path, name: str) -> Path:
    """A file for a broken target: the reference's, with another program in it."""
    text = REFERENCE.read_text()
    assert text.count('{here}/reference.py"') == 2
    path = folder / f"{name.replace(' ', '-')}.toml"
    path.write_text(text.replace('{here}/reference.py"', f'{HERE}/broken.py", "{name}"'))
    return path


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Judged]:
    """Plays scenarios against a target, and judges: `play(scenarios, maker=..., lanes=...)`."""
    folders = (tmp_path / f"evidence-{number}" for number in itertools.count(1))

    def run(scenarios: list[Scenario], maker: Any = None, lanes: int = LANES) -> Judged:
        maker = maker or CommandMaker(REFERENCE, {})
        header = {"limited": True, "target": maker.name}
        records = Run(maker, next(folders), lanes, lambda *_: None, header).play(scenarios)
        return Judged(records, judge(records))

    return run
