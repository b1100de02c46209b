"""Outlast and its peers under the same scenarios, in one run on one machine: the table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .evidence import environment
from .target import CannotSay
from .verdict import UNSUPPORTED, CheckVerdict, Verdict

# What each column asks, by the check that answers it.
COLUMNS = {
    "C8": "nothing lost",
    "C6": "a key acts once",
    "C5": "recorded steps not redone",
    "C7": "doubts shown",
    "C4": "zombies fenced",
    "C11": "drain hands over",
    "C10": "cancel obeyed",
    "C12": "poison given up",
}
LEGEND = (
    "**pass**: seen, and nothing against it. **fail (n)**: a promise was broken, in n findings. "
    "*not claimed (n)*: the system does not promise it, and n findings say what comes of that. "
    "—: it does not show what would be needed to judge."
)
# What every system can be put through.
FAULTS = ("kill", "term", "stop", "cancel", "time")


@dataclass(frozen=True)
class Compared:
    """One system: what is judged, how it was configured, what came of it; `why`: it could not."""

    system: str
    version: dict[str, Any]
    configured: str
    verdict: Verdict | None
    why: str = ""


def compare(
    systems: Sequence[str], play: Callable[[str], Compared], tell: Callable[[str], None]
) -> list[Compared]:
    """One after the other, each alone."""
    found = []
    for system in systems:
        try:
            found.append(play(system))
        except CannotSay as error:
            found.append(Compared(system, {}, "", None, str(error)))
        tell(f"{system}: {found[-1].verdict.verdict if found[-1].verdict else found[-1].why}")
    return found


def table(compared: Sequence[Compared], seed: int) -> str:
    """The table in Markdown, with what stands behind each word below it."""
    head = ["system", *COLUMNS.values(), "acts done twice, keyless", "faults landed"]
    lines = [_row(head), _row(["---"] * len(head))]
    lines += [_row(_cells(each)) for each in compared]
    words = [
        "",
        f"Seed {seed}; {os.cpu_count()} cores. " + LEGEND,
        "",
    ]
    notes = [
        f"* {each.system}: {_versions(each)}. {each.configured or each.why}" for each in compared
    ]
    return "\n".join([*lines, *words, *notes, ""])


def write(folder: Path, compared: Sequence[Compared], seed: int, command: list[str]) -> Path:
    """The table, and all of it as JSON."""
    facts = {"seed": seed, "systems": [each.system for each in compared]}
    plain = {
        "environment": environment({}, command, facts),
        "systems": [
            {
                "system": each.system,
                "version": each.version,
                "configured": each.configured,
                "why": each.why,
                "verdict": each.verdict.plain() if each.verdict else None,
            }
            for each in compared
        ],
    }
    (folder / "comparison.json").write_text(json.dumps(plain, indent=1) + "\n")
    path = folder / "comparison.md"
    path.write_text(table(compared, seed))
    return path


def _cells(each: Compared) -> list[str]:
    if each.verdict is None:
        return [each.system, *["not run"] * (len(COLUMNS) + 2)]
    checks = {check.check: check for check in each.verdict.checks}
    keyless = [c for c in each.verdict.classes if c.provider == "keyless"]
    twice = sum(c.duplicates for c in keyless)
    acts = sum(c.effects for c in keyless)
    landed = each.verdict.figures.get("faults", 0)
    words = [_word(checks[number]) for number in COLUMNS]
    return [each.system, *words, f"{twice} of {acts}", str(landed)]


def _word(check: CheckVerdict) -> str:
    count = len(check.findings)
    if check.verdict == UNSUPPORTED:
        return f"*not claimed ({count})*" if "(not claimed)" in check.promise else "—"
    if not check.seen and not count:
        return "—"
    if check.verdict == "pass":
        return "**pass**"
    return f"{check.verdict} ({count})"


def _versions(each: Compared) -> str:
    return ", ".join(f"{name} {value}" for name, value in each.version.items()) or "not known"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
