"""Bars with labels, as an SVG that needs nothing of anybody else. Pure.

It brings its own ground, so that it can be read whatever lies behind it, and goes dark with the
reader's system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LABEL, RIGHT = 720, 190, 150
ROW, BAR, TOP, BOTTOM = 26, 16, 44, 14
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 14px }
.words { font-style: italic; fill: #57606a }
.ground { fill: #ffffff; stroke: #d0d7de }
.bar { fill: #8c959f }
.ours { fill: #0969da }
.limit { fill: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .words { fill: #9198a1 }
  .ground { fill: #0d1117; stroke: #3d444d }
  .bar { fill: #656c76 }
  .ours { fill: #4493f8 }
  .limit { fill: #3d444d }
}
"""


@dataclass(frozen=True)
class Bar:
    """`value`: None where `text` says why there is none. `kind`: bar, ours, limit."""

    label: str
    value: float | None
    text: str
    kind: str = "bar"


def chart(title: str, bars: Sequence[Bar]) -> str:
    """An SVG document; the longest bar has the whole width."""
    height = TOP + len(bars) * ROW + BOTTOM
    longest = max((each.value for each in bars if each.value), default=1.0)
    rows = [_drawn(each, TOP + number * ROW, longest) for number, each in enumerate(bars)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' role="img" aria-label="{escape(_aloud(title, bars))}">',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}"'
            ' rx="6"/>',
            f'<text class="title" x="16" y="26">{escape(title)}</text>',
            *rows,
            "</svg>",
            "",
        ]
    )


def _drawn(bar: Bar, top: int, longest: float) -> str:
    middle = top + BAR // 2 + 5
    label = f'<text x="{LABEL - 10}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>'
    if bar.value is None:
        return f'{label}<text class="words" x="{LABEL}" y="{middle}">{escape(bar.text)}</text>'
    # What is there has to be seen, however short.
    length = max(2.0, bar.value / longest * (WIDTH - LABEL - RIGHT))
    return (
        f"{label}"
        f'<rect class="{bar.kind}" x="{LABEL}" y="{top}" width="{length:.1f}" height="{BAR}"/>'
        f'<text x="{LABEL + length + 8:.1f}" y="{middle}">{escape(bar.text)}</text>'
    )


def _aloud(title: str, bars: Sequence[Bar]) -> str:
    return f"{title}: " + "; ".join(f"{each.label} {each.text}" for each in bars)
