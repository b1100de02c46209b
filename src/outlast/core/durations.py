"""Lengths of time as people write them: "30s", "5m", "2h", "3d", or seconds."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from .errors import BadSetting

Duration = str | int | float | timedelta

UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
LONGEST_MS = 36_500 * UNIT_MS["d"]
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def duration_ms(value: Duration, what: str = "a duration") -> int:
    """Milliseconds in `value`: text ("90s", "1h30m"), seconds, or a timedelta.

    Raises BadSetting for anything else, for less than nothing and for more than a century.
    """
    try:
        ms = _ms(value, what)
    except OverflowError:  # 10**400, or a text with as many digits
        ms = -1
    if not 0 <= ms <= LONGEST_MS:
        raise BadSetting(f"{what} cannot be {shown(value)}: it must be between 0 and 100 years")
    return ms


def optional_ms(value: Duration | None, what: str = "a duration") -> int | None:
    """As `duration_ms`; None stays None (no limit)."""
    return None if value is None else duration_ms(value, what)


def shown(value: object) -> str:
    """A value as a message may quote it: short; 10**5000 has no text at all in Python."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"this {type(value).__name__}"


def _ms(value: Duration, what: str) -> int:
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1_000)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return round(value * 1_000)
    if isinstance(value, str):
        text = value.strip().replace(" ", "")
        if _WHOLE.fullmatch(text):
            return round(sum(float(n) * UNIT_MS[unit] for n, unit in _PART.findall(text)))
        if re.fullmatch(r"\d+(\.\d+)?", text):
            return round(float(text) * 1_000)
    raise BadSetting(
        f'{what} cannot be {shown(value)}: write "500ms", "30s", "5m", "2h", "3d", or seconds'
    )


def duration_text(ms: int) -> str:
    """A length of time as it is written in messages: "2h", "90s", "1.5s"."""
    for unit, size in reversed(UNIT_MS.items()):
        if ms >= size and ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms / 1_000:g}s"
