"""How values are put into words: one line of text, a time, an age."""

from __future__ import annotations

from datetime import UTC, datetime

from ..core.durations import short_age as age

__all__ = ["age", "printable", "rfc3339", "seconds"]


def printable(text: str, most: int = 80) -> str:
    """What an agent or a user wrote, on one line: no control characters reach the terminal."""
    shown = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return shown if len(text) <= most else shown[: most - 1] + "…"


def rfc3339(ms: int | None) -> str | None:
    """`2026-11-30T21:49:08.123Z`; None stays None."""
    if ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
