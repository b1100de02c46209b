"""A soak: one run after the other with new seeds, until the time is up or one does not pass."""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .verdict import PASS, Verdict

KEPT = ("verdict.json", "env.json")


@dataclass
class Soak:
    """What came of it. `figures`: of all runs together; `last`: the verdict that ended it."""

    runs: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    last: Verdict | None = None


def soak(
    hours: float,
    seed: int,
    folder: Path,
    play: Callable[[int, Path], Verdict],
    tell: Callable[[str], None],
) -> Soak:
    """`play(seed, folder)`: one run. Of a run that passes only its verdict is kept, for space."""
    until_s = time.monotonic() + hours * 3600
    done = Soak()
    for number in itertools.count():
        place = folder / f"run-{number + 1:05}"
        done.last = play(seed + number, place)
        done.runs += 1
        done.figures.update(done.last.figures)
        tell(f"run {done.runs}, seed {seed + number}: {done.last.verdict}")
        if done.last.verdict != PASS:
            break
        _forget(place)
        if time.monotonic() >= until_s:
            break
    return done


def _forget(place: Path) -> None:
    for path in place.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in KEPT:
            path.unlink()
