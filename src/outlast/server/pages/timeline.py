"""The ownership timeline of a task: a bar for each epoch, in shares of the whole time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...view.words import printable
from .logs import Span

BARS_MAX = 40
BAR_PX, GAP_PX = 20, 6
# An epoch of a moment is still to be seen.
NARROWEST = 0.6
WIDE = 40.0


class Bar(msgspec.Struct, frozen=True):
    """A bar and its label; `left`, `width` in percent, `top` in pixels.

    `edge`: where the label is fastened, in percent; `before`: it ends there.
    """

    span: Span
    left: float
    width: float
    top: int
    label: str
    edge: float
    before: bool


class Timeline(msgspec.Struct, frozen=True):
    """`left_out`: earlier epochs that are in the table only."""

    bars: Sequence[Bar]
    left_out: int
    from_ms: int
    until_ms: int

    @property
    def height(self) -> int:
        return len(self.bars) * (BAR_PX + GAP_PX)


def timeline(spans: Sequence[Span], now_ms: int) -> Timeline | None:
    """None for a task that never had an owner."""
    shown = spans[-BARS_MAX:]
    if not shown:
        return None
    from_ms = shown[0].from_ms
    until_ms = max(now_ms if span.until_ms is None else span.until_ms for span in shown)
    whole_ms = max(1, until_ms - from_ms)
    bars = [_bar(span, row, from_ms, until_ms, whole_ms) for row, span in enumerate(shown)]
    return Timeline(bars, len(spans) - len(shown), from_ms, until_ms)


def _bar(span: Span, row: int, from_ms: int, until_ms: int, whole_ms: int) -> Bar:
    ends_ms = until_ms if span.until_ms is None else span.until_ms
    left = round(min(100 * (span.from_ms - from_ms) / whole_ms, 100 - NARROWEST), 2)
    share = max(100 * (ends_ms - span.from_ms) / whole_ms, NARROWEST)
    width = round(min(share, 100 - left), 2)
    edge, before = _place(left, width)
    return Bar(span, left, width, row * (BAR_PX + GAP_PX), _label(span), edge, before)


def _place(left: float, width: float) -> tuple[float, bool]:
    """Where a label goes: into a wide bar, else beside it, on the side that has more room."""
    if width >= WIDE:
        return left, False
    right = round(left + width, 2)
    return (right, False) if 100 - right >= left else (left, True)


def _label(span: Span) -> str:
    epoch = span.epoch
    build = epoch["build"] or "no build"
    how = epoch["ended"] or "holds it"
    return printable(f"{epoch['epoch']} · {epoch['host']}/{epoch['pid']} · {build} · {how}", 90)
