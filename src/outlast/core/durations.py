"""Durations as people write them ("30s", "1h30m", seconds), and as they like to read them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from . import limits
from .errors import BadSetting

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")

if TYPE_CHECKING:
    from datetime import timedelta

    Duration = str | int | float | timedelta
else:  # who only starts a command need not load it
    Duration = str | int | float


def duration_ms(value: Duration, what: str = "duration") -> int:
    """Milliseconds of `"500ms" "30s" "5m" "2h" "3d" "1h30m"`, seconds, or a timedelta.

    Raises BadSetting, naming `what`: not a duration, below zero, or over ten years.
    """
    if isinstance(value, str):
        ms = _text_ms(value.strip())
    else:
        ms = _number_ms(getattr(value, "total_seconds", lambda: value)())
    if ms is None or not 0 <= ms <= limits.DURATION_MAX_MS:
        raise BadSetting(
            f"{what}: {shown(value)} is no duration from 0 to ten years; nothing was done. "
            'Write it like "30s", "5m", "2h" or "3d", or as a number of seconds'
        )
    return round(ms)


def optional_ms(value: Duration | None, what: str = "duration") -> int | None:
    """As `duration_ms`; None stays None: no limit."""
    return None if value is None else duration_ms(value, what)


def short_age(ms: int) -> str:
    """How long, in at most two units: `0.4s`, `12s`, `3m20s`, `2h5m`, `26h`, `3d4h`."""
    if ms < 0:
        return "-" + short_age(-ms)
    if ms < 10_000:
        return f"{ms / 1000:.1f}s"
    seconds = ms // 1000
    for size, unit, rest_size, rest_unit in (
        (172_800, "d", 3_600, "h"),
        (3_600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            whole = 86_400 if unit == "d" else size
            rest = seconds % whole // rest_size
            return f"{seconds // whole}{unit}" + (f"{rest}{rest_unit}" if rest else "")
    return f"{seconds}s"


def shown(value: object) -> str:
    """A value as an error may quote it: short, and 10**5000 has no text at all in Python."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        return f"this {type(value).__name__}"


def _text_ms(text: str) -> float | None:
    if _NUMBER.fullmatch(text):
        return float(text) * 1000
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT_MS[unit] for number, unit in parts)


def _number_ms(seconds: Any) -> float | None:
    # 10**400 has no float, and True is no number of seconds.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    if isinstance(seconds, int):
        return seconds * 1000 if abs(seconds) <= limits.DURATION_MAX_MS else None
    return seconds * 1000 if math.isfinite(seconds) else None
