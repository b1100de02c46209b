"""The evidence of a demo: one HTML file without network, and the log beside it for `verify`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec

from ..core.lifecycle import Body, body_of
from ..core.model import Event
from .judge import Check, Seen, Worker

WIDTH = 1_000
LANE = 34
LEFT = 140
Scale = Callable[[int], float]
MARKS = {"step.done": "step", "effect.applied": "effect"}


def write_report(folder: Path, seen: Seen, checks: Sequence[Check], *, took_s: float) -> Path:
    """Write report.html and evidence.json into the folder; the path of the report."""
    head = {
        "head": {"task": seen.task.id, "seq": seen.task.head_seq, "digest": seen.task.head_digest}
    }
    evidence = {"checks": [vars(check) for check in checks], "letters": list(seen.letters), **head}
    (folder / "evidence.json").write_bytes(msgspec.json.format(msgspec.json.encode(evidence)))
    path = folder / "report.html"
    path.write_text(_page(seen, checks, took_s), encoding="utf-8")
    return path


def _page(seen: Seen, checks: Sequence[Check], took_s: float) -> str:
    template = (files("outlast.demo") / "report.html").read_text("utf-8")
    passed = all(check.holds for check in checks)
    parts = {
        "verdict": "PASS" if passed else "FAIL",
        "verdict_class": "pass" if passed else "fail",
        "sentence": _sentence(seen, passed),
        "took": f"{took_s:.0f} s",
        "checks": "\n".join(_check_row(check) for check in checks),
        "timeline": _timeline(seen),
        "workers": "\n".join(_worker_row(worker) for worker in seen.workers),
        "events": "\n".join(_event_row(event) for event in seen.events),
        "task": escape(seen.task.id),
        "head": escape(seen.task.head_digest),
    }
    for name, text in parts.items():
        template = template.replace("{{" + name + "}}", text)
    return template


def _sentence(seen: Seen, passed: bool) -> str:
    if not passed:
        return "Something was lost, done twice, or written by a worker that had lost its lease."
    return (
        f"{len(seen.workers)} workers, three of them killed, drained and frozen in the middle of "
        f"their work; {len(seen.letters)} e-mails, each sent once."
    )


def _check_row(check: Check) -> str:
    word = "holds" if check.holds else "BROKEN"
    return (
        f'<tr class="{"pass" if check.holds else "fail"}"><td class="word">{word}</td>'
        f"<td>{escape(check.what)}</td><td>{escape(check.seen)}</td></tr>"
    )


def _worker_row(worker: Worker) -> str:
    code = "ended with the demo" if worker.exit_code is None else str(worker.exit_code)
    return (
        f"<tr><td>{worker.letter}</td><td>{worker.pid}</td>"
        f"<td>{worker.harm or 'left alone'}</td><td>{code}</td></tr>"
    )


def _event_row(event: Event) -> str:
    return (
        f"<tr><td>{event.seq}</td><td>{event.holder}</td><td>{escape(event.kind)}</td>"
        f"<td><code>{escape(_short(event.body))}</code></td><td><code>{event.digest[:12]}…</code></td></tr>"
    )


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[:most] + "…"


# -- the timeline: a lane an epoch -----------------------------------------------------------------


def _timeline(seen: Seen) -> str:
    start, end = seen.events[0].at_ms, max(seen.events[-1].at_ms, seen.events[0].at_ms + 1)

    def x(at_ms: int) -> float:
        return LEFT + (WIDTH - LEFT - 90) * (at_ms - start) / (end - start)

    spans = _spans(seen.events)
    lanes = [_lane(n, span, x, end) for n, span in enumerate(spans)]
    marks = [_mark(event, spans, x) for event in seen.events if event.kind in MARKS]
    height = LANE * len(spans) + 24
    ticks = [
        f'<text class="tick" x="{x(ms):.0f}" y="{height - 6}">{(ms - start) // 1000} s</text>'
        for ms in range(start, end, 2_000)
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Who owned the task when">'
        + "".join(lanes + marks + ticks)
        + "</svg>"
    )


def _spans(events: Sequence[Event]) -> list[tuple[Event, Event | None]]:
    """(grant, what ended it) of every lease."""
    spans: list[tuple[Event, Event | None]] = []
    for event in events:
        if event.kind == "lease.granted":
            spans.append((event, None))
        elif event.holder == 0 and spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], event)
    return spans


def _lane(number: int, span: tuple[Event, Event | None], x: Scale, end: int) -> str:
    grant, ended = span
    body: Body = body_of(grant)
    left = x(grant.at_ms)
    right = x(ended.at_ms if ended else end)
    top = LANE * number + 6
    why = {
        "lease.expired": "expired",
        "lease.released": "handed over",
        "task.succeeded": "succeeded",
    }
    said = why.get(ended.kind, ended.kind) if ended else "held"
    label = f"worker {body['build']} · epoch {body['epoch']}"
    return (
        f'<text class="lane" x="0" y="{top + 14}">{escape(label)}</text>'
        f'<rect class="lease" x="{left:.1f}" y="{top}" width="{max(right - left, 2):.1f}" '
        'height="20" rx="4">'
        f"<title>{escape(label)}: {escape(said)}</title></rect>"
        f'<text class="why" x="{right + 8:.1f}" y="{top + 14}">'
        f"{escape(said)}</text>"
    )


def _mark(event: Event, spans: list[tuple[Event, Event | None]], x: Scale) -> str:
    lane = next(
        (n for n, (grant, _) in enumerate(spans) if body_of(grant)["epoch"] == event.holder), 0
    )
    body = body_of(event)
    name = body.get("name") or body.get("key") or ""
    place = f'cx="{x(event.at_ms):.1f}" cy="{LANE * lane + 16}" r="5"'
    return (
        f'<circle class="{MARKS[event.kind]}" {place}>'
        f"<title>{escape(event.kind)} {escape(str(name))}</title></circle>"
    )
