"""Drawing: facts and a template make a page. All that others wrote is escaped, and on one line."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import msgspec

from ...view import gate, tasks
from ...view.shapes import json_value
from ...view.words import age, printable, rfc3339
from ..access import Identity
from . import effects, orders
from .page import Facts

TEMPLATES = Path(__file__).parent.parent / "templates"
BLOCK_CHARACTERS = 4_000
# A mark beside each word, so that none is told by its colour alone.
MARKS = {
    "running": "▸",
    "ready": "○",
    "waiting": "◷",
    "review": "!",
    "succeeded": "✓",
    "failed": "✕",
    "cancelled": "⊘",
    "stale": "?",
    "cancelling": "⊘",
    "draining": "↓",
    "active": "▸",
    "retired": "·",
    "silent": "?",
    "applied": "✓",
    "intended": "▸",
    "unknown": "?",
    "not_applied": "–",
    "ok": "✓",
    "warn": "!",
    "broken": "✕",
}


class Place(msgspec.Struct, frozen=True):
    """Which store this is, as far as may be shown, and which version of us serves it."""

    store: str = ""
    version: str = ""
    host: str = msgspec.field(default_factory=socket.gethostname)


class Drawing:
    """Draws pages, and the fragments of them that are sent again when they change."""

    def __init__(self, place: Place) -> None:
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            line=line,
            block=block,
            short=short,
            time=rfc3339,
            age=age,
            path=lambda text: quote(text, safe=""),
            json=json_value,
            state_marks=gate.marks_of,
            outcome=effects.outcome,
            observed_applied=effects.observed_applied,
            settle_address=orders.settle_address,
            effect_counts=effect_counts,
            why=tasks.why_text,
            owner=gate.owner,
        )
        self._templates.globals.update(place=place, marks=MARKS)

    def page(self, name: str, facts: Facts, *, who: Identity | None, **more: Any) -> str:
        return self._draw(f"{name}.html", facts | more, who, name)

    def fragment(self, name: str, facts: Facts, who: Identity) -> str:
        return self._draw(f"live/{name}.html", facts, who, name)

    def gone(self, said: str) -> str:
        return self._draw("live/gone.html", {"said": said}, None, "")

    def _draw(self, template: str, facts: Facts, who: Identity | None, name: str) -> str:
        now_ms = facts.get("now_ms")
        common = {"now_ms": now_ms, "page": name, "who": who, "may": _may(who)}
        return self._templates.get_template(template).render(facts | common)


def _may(who: Identity | None) -> Any:
    return (lambda verb: False) if who is None else who.may


def line(text: object, most: int = 80) -> str:
    """On one line, without what would turn or hide it."""
    return printable("" if text is None else str(text), most)


def short(task_id: str) -> str:
    """Its beginning, which is its time and enough for commands, and what tells a batch apart."""
    return task_id if len(task_id) <= 18 else f"{task_id[:13]}…{task_id[-4:]}"


def block(text: object, most: int = BLOCK_CHARACTERS) -> str:
    """On its own lines, cut where it is long; JSON is laid out."""
    kept = "" if text is None else str(text)
    if len(kept) <= most:
        try:
            kept = msgspec.json.format(kept, indent=2)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            pass
    cut = kept if len(kept) <= most else f"{kept[:most]}\n… ({len(kept):,} characters)"
    return "".join(c if c.isprintable() or c == "\n" else " " for c in cut)


def effect_counts(held: Any) -> dict[str, int]:
    """How many are done, in flight, unknown: as `outlast ps` counts them."""
    done, in_flight, unknown = map(int, tasks.effect_counts(held).split("/"))
    return {"done": done, "in_flight": in_flight, "unknown": unknown}
