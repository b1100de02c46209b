"""The pages of a result: tables between the marks of docs/benchmarks.md, charts beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .chart import Bar, chart
from .results import MEASURES, Figure, Measure, Value, figure
from .stage import ROOT
from .table import LIMITS, OURS, cell, settings, tables, values

DOCS = ROOT / "docs"
PAGE = DOCS / "benchmarks.md"
# A measure, the name of its file, what stands above its bars.
CHARTS = {
    "steps, one task": ("steps-one-task", "Durable steps a second, one task"),
    "steps, 50 tasks": ("steps-50-tasks", "Durable steps a second, 50 tasks in one worker"),
    "no-op tasks": ("no-op-tasks", "Tasks a second that do nothing, one worker"),
    "pick-up, median": ("pick-up", "Milliseconds until an idle worker begins, median"),
    "resumed after SIGTERM": ("after-sigterm", "Seconds from SIGTERM to the heir's next step"),
}
BETTER = {"more": "more is better", "less": "less is better"}


def write(found: Mapping[str, Any], docs: Path = DOCS) -> None:
    """Put a run's results into the documentation."""
    compared = found["comparison"]
    folder = docs / "benchmarks"
    folder.mkdir(exist_ok=True)
    shown = [name for name in CHARTS if name in compared["figures"]]
    for name in shown:
        file, title = CHARTS[name]
        (folder / f"{file}.svg").write_text(drawn(compared, MEASURES[name], title))
    images = "\n\n".join(
        f"![{title}: a bar for each system](benchmarks/{file}.svg)"
        for file, title in (CHARTS[name] for name in shown)
    )
    page = docs / PAGE.name
    text = page.read_text()
    for mark, words in {
        "machine": machine(found),
        "tables": tables(compared),
        "charts": images,
        "settings": settings(compared),
    }.items():
        text = between(text, mark, words)
    page.write_text(text)


def drawn(compared: Mapping[str, Any], measure: Measure, title: str) -> str:
    """A bar for each system; the raw limits above, where there are some."""
    bars = []
    for database, limits in LIMITS.items():
        if given := compared["limits"].get(limits.get(measure.name, "")):
            bars.append(_bar(f"raw limit, {database}", measure, given, "limit"))
    for name in compared["systems"]:
        kind = "ours" if name.startswith(OURS) else "bar"
        bars.append(_bar(name, measure, values(compared, measure, name), kind))
    return chart(f"{title} ({BETTER[measure.better]})", bars)


def _bar(label: str, measure: Measure, given: Sequence[Value], kind: str) -> Bar:
    seen = figure(given)
    return Bar(label, seen.median if isinstance(seen, Figure) else None, cell(measure, given), kind)


def machine(found: Mapping[str, Any]) -> str:
    at, compared = found["machine"], found["comparison"]
    loads = ", ".join(f"{load:.1f}" for load in compared["loads"])
    return (
        f"{at['cores']} cores ({at['processor']}), {at['memory_gib']} GiB, Linux {at['kernel']}, "
        f"Python {at['python']}; {compared['rounds']} rounds in {compared['seconds'] // 60} "
        f"minutes; load before each round and at the end: {loads}."
    )


def between(text: str, mark: str, words: str) -> str:
    """The text with these words between `<!-- mark -->` and `<!-- /mark -->`.

    Raises ValueError if the marks are not there.
    """
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.S)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for {mark}: <!-- {mark} --> and <!-- /{mark} -->")
    return pattern.sub(lambda found: f"{found[1]}{words.rstrip()}\n{found[2]}", text)
