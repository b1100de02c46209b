"""Results as Markdown: a table for each group of measures, a row for each system. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .results import GROUPS, Figure, Measure, Value, best, figure, ratio

OURS = "Outlast"
# The limit that stands above a measure, by the database.
LIMITS = {
    "PostgreSQL": {
        "steps, one task": "PostgreSQL, 1 client",
        "steps, 50 tasks": "PostgreSQL, 32 clients",
    },
    "SQLite": {"steps, one task": "SQLite, one writer"},
}
Found = Mapping[str, Any]


def tables(found: Found) -> str:
    """`found`: the comparison of a run."""
    return "\n".join(line for title in GROUPS for line in _group(title, found))


def _group(title: str, found: Found) -> Iterator[str]:
    measures = [each for each in GROUPS[title] if each.name in found["figures"]]
    if not measures:
        return
    yield f"### {title}"
    yield ""
    yield _row(["", *(head(each) for each in measures)])
    yield _row(["---", *("---:" for _ in measures)])
    if title == "Durable steps":
        for database in LIMITS:
            cells = [_limit(found, database, each) for each in measures]
            yield _row([f"raw limit, {database}", *cells])
    for name in found["systems"]:
        cells = [cell(each, values(found, each, name)) for each in measures]
        yield _row([f"**{name}**" if name.startswith(OURS) else name, *cells])
    for says, among in rivals(found).items():
        yield _row(
            [f"*{OURS} against {says}*", *(_against(found, each, among) for each in measures)]
        )
    yield ""


def head(measure: Measure) -> str:
    return f"{measure.says}, {measure.unit}" if measure.unit else measure.says


def cell(measure: Measure, given: Sequence[Value]) -> str:
    """The median, and with several rounds how far they lie apart."""
    seen = figure(given)
    if not isinstance(seen, Figure):
        return seen or "not measured"
    text = shown(seen.median)
    return f"{text} ±{seen.spread / 2:.0%}" if len(given) > 1 else text


def shown(value: float) -> str:
    """Three figures that mean something, and commas between thousands."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2 if abs(value) < 1 else 1
    return f"{value:.{digits}f}" if abs(value) >= 0.01 else f"{value:.1g}"


def rivals(found: Found) -> dict[str, list[str]]:
    """Whom ours is held against: those who promise the same, and those who keep no steps."""
    others = {name: about for name, about in found["systems"].items() if not name.startswith(OURS)}
    keep = [name for name, about in others.items() if "steps" not in about["cannot"]]
    queues = [name for name in others if name not in keep]
    named = {"the best that keeps steps": keep, "the best plain queue": queues}
    return {says: names for says, names in named.items() if names}


def _against(found: Found, measure: Measure, among: Sequence[str]) -> str:
    name = best(found["figures"][measure.name], measure.better, among)
    if name is None:
        return ""
    times = ratio(values(found, measure, OURS), values(found, measure, name), measure.better)
    return "" if times is None else f"{shown(times)} × ({name})"


def _limit(found: Found, database: str, measure: Measure) -> str:
    given = found["limits"].get(LIMITS[database].get(measure.name, ""))
    return cell(measure, given) if given else ""


def values(found: Found, measure: Measure, name: str) -> list[Value]:
    given: list[Value] = found["figures"][measure.name].get(name, [])
    return given


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(each.replace("|", "\\|").replace("\n", " ") for each in cells) + " |"


def settings(found: Found) -> str:
    """What each system was told, and its version."""
    lines = [_row(["system", "version", "store", "settings"]), _row(["---"] * 4)]
    for name, about in found["systems"].items():
        versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
        lines.append(_row([name, versions, about["store"], about["settings"]]))
    return "\n".join(lines)
