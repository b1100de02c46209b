"""A curve: figures at growing sizes, its table, and where it bends. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

BEND = 1.5
# Of all other figures less is better.
MORE_IS_BETTER = frozenset({"tasks_a_second", "claims_a_second", "hot_percent"})


@dataclass(frozen=True)
class Point:
    """`at`: the size, or words. `plans`: what the server did for a figure, by its name."""

    at: int | str
    figures: Mapping[str, float]
    plans: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """`by`: what grows. `said`: how it was measured. `left_out`: sizes for which no time was left.

    `grows`: False where the points are no sizes, so that neighbours are not compared.
    """

    by: str
    said: str
    points: Sequence[Point]
    left_out: Sequence[int] = ()
    grows: bool = True

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "by": self.by,
            "said": self.said,
            "points": [{"at": each.at, **each.figures} for each in self.points],
            "left_out": list(self.left_out),
            "bends": bends(self.points) if self.grows else [],
        }


def bends(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Where a figure is worse than at the size before by more than half, and both plans."""
    return [
        {
            "figure": name,
            "from": before.at,
            "to": after.at,
            "ratio": round(ratio, 2),
            "plans": [each.plans[name] for each in (before, after) if name in each.plans],
        }
        for before, after in pairwise(points)
        for name in after.figures
        if (ratio := worse(name, before.figures.get(name, 0), after.figures[name])) > BEND
    ]


def worse(name: str, before: float, after: float) -> float:
    """How many times worse; 0 where there is nothing to compare with."""
    if before <= 0 or after <= 0:
        return 0.0
    return before / after if name in MORE_IS_BETTER else after / before


def between(points: Sequence[Point], figure: str, small: int, large: int) -> float | None:
    """A figure at one size over that at another; None where one was not measured."""
    seen = {each.at: each.figures[figure] for each in points if figure in each.figures}
    if not seen.get(small) or large not in seen:
        return None
    return round(seen[large] / seen[small], 2)


def table(title: str, told: Mapping[str, Any]) -> str:
    """A curve, as `told`, in Markdown."""
    points = told["points"]
    names = list(dict.fromkeys(name for point in points for name in point if name != "at"))
    lines = [
        row([told["by"], *(name.replace("_", " ") for name in names)]),
        row(["---:", *("---:" for _ in names)]),
        *(row([shown(point["at"]), *(shown(point.get(n, "")) for n in names)]) for point in points),
    ]
    if told["left_out"]:
        lines += ["", f"Left out, for want of time: {', '.join(map(shown, told['left_out']))}."]
    return "\n".join([f"### {title}", "", told["said"], "", *lines, ""])


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def shown(value: float | str) -> str:
    """Three figures that mean something, and commas between thousands."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
