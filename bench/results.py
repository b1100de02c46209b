"""What was measured, and what may be said of it: medians, spreads, ratios. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A figure, or words: why there is none, or what happened instead.
Value = float | str


@dataclass(frozen=True)
class Measure:
    """`better`: "more" or "less"."""

    name: str
    unit: str
    better: str
    says: str


# By the table that they stand in.
GROUPS: dict[str, list[Measure]] = {
    "Durable steps": [
        Measure("steps, one task", "/s", "more", "one task"),
        Measure("steps, 50 tasks", "/s", "more", "50 tasks, one worker"),
        Measure("CPU a step, worker", "ms", "less", "CPU a step, worker"),
        Measure("CPU a step, store", "ms", "less", "CPU a step, store"),
        Measure("statements a step", "", "less", "statements a step"),
        Measure("WAL a step", "B", "less", "WAL a step"),
    ],
    "Tasks": [
        Measure("no-op tasks", "/s", "more", "tasks that do nothing, one worker"),
        Measure("enqueue, single", "/s", "more", "submits, one by one"),
        Measure("enqueue, batch", "/s", "more", "submits, by the call for many"),
        Measure("pick-up, median", "ms", "less", "pick-up, median"),
        Measure("pick-up, p99", "ms", "less", "pick-up, p99"),
    ],
    "When a worker goes": [
        Measure("resumed after SIGKILL", "s", "less", "next step after SIGKILL"),
        Measure("resumed after SIGTERM", "s", "less", "heir's next step after SIGTERM"),
        Measure("replay", "s", "less", "replay of 10,000 steps"),
    ],
    "While nothing happens": [
        Measure("idle, statements", "/s", "less", "idle worker, statements"),
        Measure("idle, open transactions", "%", "less", "looks that met an open transaction"),
        Measure("idle, CPU", "ms/s", "less", "idle worker, CPU"),
        Measure("held, statements", "/min", "less", "500 held tasks, statements"),
        Measure("held, WAL", "B/min", "less", "500 held tasks, WAL"),
        Measure("held, HOT updates", "%", "more", "of their updates, HOT"),
    ],
}
MEASURES = {each.name: each for group in GROUPS.values() for each in group}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least `share` percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share / 100) - 1)]


@dataclass(frozen=True)
class Figure:
    """The median of what the rounds have given, and how far they lie apart."""

    median: float
    lowest: float
    highest: float

    @property
    def spread(self) -> float:
        """The distance of the extremes, as a share of the median."""
        return (self.highest - self.lowest) / self.median if self.median else 0.0


def figure(values: Sequence[Value]) -> Figure | str:
    """Of numbers their median; words where any round gave words, for no median hides a failure."""
    for value in values:
        if isinstance(value, str):
            return value
    numbers = [float(value) for value in values]
    if not numbers:
        return ""
    return Figure(statistics.median(numbers), min(numbers), max(numbers))


def ratio(ours: Sequence[Value], theirs: Sequence[Value], better: str) -> float | None:
    """How many times better ours is, by the median of the rounds' own ratios; None: no figure.

    Round by round, for the machine is another one in each.
    """
    pairs = [
        (float(one), float(other))
        for one, other in zip(ours, theirs, strict=False)
        if not isinstance(one, str) and not isinstance(other, str) and one > 0 and other > 0
    ]
    if not pairs or len(pairs) < max(len(ours), len(theirs)):
        return None
    each = [one / other if better == "more" else other / one for one, other in pairs]
    return statistics.median(each)


def best(figures: Mapping[str, Sequence[Value]], better: str, among: Collection[str]) -> str | None:
    """The name of the best of these; None where none has a figure."""
    known = {
        name: found.median
        for name, values in figures.items()
        if name in among and isinstance(found := figure(values), Figure)
    }
    if not known:
        return None
    return (max if better == "more" else min)(known, key=lambda name: known[name])


def merged(into: dict[str, dict[str, list[Value]]], name: str, found: dict[str, Any]) -> None:
    """Add what one turn has found, measure by measure."""
    for measure, value in found.items():
        into.setdefault(measure, {}).setdefault(name, []).append(value)
