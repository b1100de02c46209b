"""The timeline of a scenario: a lane a worker, bars for leases, marks for effects and harm."""

from __future__ import annotations

from html import escape

from ..checks.case import Case
from ..history import Record, View

LEFT, RIGHT, LANE, TOP = 96, 960, 30, 22
MARKS = {
    "world.applied": "●",
    "world.came": "○",
    "world.repeated": "◇",
    "world.refused": "◇",
    "fault.landed": "⚡",
    "fault.ended": "▸",
}


class _Scale:
    def __init__(self, from_ms: float, to_ms: float) -> None:
        self.from_ms = from_ms
        self.per_ms = (RIGHT - LEFT) / max(1.0, to_ms - from_ms)

    def x(self, t_ms: float) -> float:
        return round(min(RIGHT, max(LEFT, LEFT + (t_ms - self.from_ms) * self.per_ms)), 1)


def timeline(view: View) -> str:
    """SVG text; "" for a scenario without workers."""
    started = view.of("worker.started")
    if not started:
        return ""
    scale = _Scale(view.records[0]["t_ms"], view.records[-1]["t_ms"])
    lanes = {record["pid"]: number for number, record in enumerate(started)}
    height = TOP + LANE * len(lanes) + 18
    drawn = [_lane(record, lanes[record["pid"]], scale) for record in started]
    drawn += _leases(Case("", view, view), lanes, scale)
    drawn += [_mark(record, lanes, scale) for record in view.of(*MARKS)]
    seconds = (view.records[-1]["t_ms"] - view.records[0]["t_ms"]) / 1000
    axis = (
        f'<text class="quiet" x="{LEFT}" y="{height - 4}">0 s</text>'
        f'<text class="quiet" x="{RIGHT}" y="{height - 4}" text-anchor="end">{seconds:.1f} s</text>'
    )
    label = f"{len(lanes)} workers over {seconds:.1f} seconds"
    return (
        f'<div class="timeline"><svg viewBox="0 0 {RIGHT + 16} {height}" role="img" '
        f'aria-label="{label}">{"".join(drawn)}{axis}</svg></div>'
    )


def _lane(started: Record, number: int, scale: _Scale) -> str:
    y = TOP + LANE * number
    text = f"{started['worker']} · {started['pid']}"
    return (
        f'<text x="0" y="{y + 4}">{escape(text)}</text><line class="lane" '
        f'x1="{scale.x(started["t_ms"])}" x2="{RIGHT}" y1="{y}" y2="{y}"/>'
    )


def _leases(case: Case, lanes: dict[int, int], scale: _Scale) -> list[str]:
    bars = []
    end_ms = case.view.records[-1]["wall_ms"]
    for task in case.tasks:
        for lease in case.leases(task):
            if lease.pid not in lanes:
                continue
            from_x = scale.x(case.ours_ms(lease.granted["at_ms"]))
            to_x = scale.x(case.ours_ms(lease.ended["at_ms"] if lease.ended else end_ms))
            y = TOP + LANE * lanes[lease.pid] - 8
            said = f"epoch {lease.epoch} of {task}, ended: {lease.how or 'not'}"
            bars.append(
                f'<rect class="lease {"odd" if lease.epoch % 2 else ""}" x="{from_x}" y="{y}" '
                f'width="{max(2.0, to_x - from_x):.1f}" height="16"><title>{escape(said)}</title>'
                f'</rect><text x="{from_x + 3}" y="{y - 1}">{lease.epoch}</text>'
            )
    return bars


def _mark(record: Record, lanes: dict[int, int], scale: _Scale) -> str:
    lane = lanes.get(record.get("pid") or 0)
    if lane is None:
        return ""
    harm = record["what"].startswith("fault")
    said = f"{record['what']} {record.get('act') or record.get('fault')} (line {record['n']})"
    kind = ' class="harm"' if harm else ""
    x, y = scale.x(record.get("struck_ms") or record["t_ms"]), TOP + LANE * lane + 4
    mark = MARKS[record["what"]]
    title = f"<title>{escape(said)}</title>"
    return f'<text{kind} x="{x}" y="{y}" text-anchor="middle">{mark}{title}</text>'
