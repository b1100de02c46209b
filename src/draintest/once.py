"""One whole run, from a target's name to its evidence: for the command and the pytest plugin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from . import evidence
from .history import View
from .makers import maker
from .plan import KINDS, Wanted, make
from .run import Maker, Progress, Run
from .scenarios import Scenario
from .verdict import Verdict
from .waiting import breaking_off


def run_once(
    target: str,
    folder: Path,
    *,
    db: str = "",
    profile: str = "quick",
    faults: Sequence[str] = KINDS,
    only: Sequence[str] = (),
    seed: int = 1,
    lanes: int = 6,
    limits: dict[str, int] | None = None,
    servers: int = 0,
) -> Verdict:
    """Play what is wanted, in silence. Raises ValueError or OSError for a target that is none."""
    wanted = Wanted(profile, tuple(faults), seed, tuple(only))
    made = maker(target, db, limits or {}, servers)
    return play(made, make(wanted), folder, lanes, wanted, ["pytest"], lambda *_: None)


def play(
    made: Maker,
    scenarios: list[Scenario],
    folder: Path,
    lanes: int,
    wanted: Wanted,
    command: list[str],
    progress: Progress,
) -> Verdict:
    """Play scenarios, judge, and write the evidence. Raises BrokenOff.

    `command`: what repeats it.
    """
    facts = {"name": made.name, "seed": wanted.seed, "profile": wanted.profile}
    header = {**facts, "limited": wanted.limited, "target": made.name}
    with breaking_off():
        records = Run(made, folder, lanes, progress, header).play(scenarios)
    told = View(records).first("target.version")
    version = told["version"] if told else {}
    return evidence.write(folder, records, evidence.environment(version, command, facts))
