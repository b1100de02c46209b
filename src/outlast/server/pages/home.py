"""The home page: is it safe to deploy, and all tasks as `outlast ps` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from ...core import limits
from ...core.durations import duration_ms
from ...core.errors import BadSetting
from ...core.text import pairs
from ...store.verbs import Counts, EffectQuery, Held, Query, Store
from ...view import gate
from ...view.tasks import OPEN, STATES
from ..asked import Asked
from .fleet import Fleet
from .page import Facts, Page

ROWS = 50
# Listed in this order, so that what has ended does not crowd out what is open.
GROUPS = (("running",), ("review", "waiting", "ready"), ("succeeded", "failed", "cancelled"))
FILTERS = ("queue", "agent", "label", "text", "since")


class Row(msgspec.Struct, frozen=True):
    """A task and what a deploy now would do to it."""

    held: Held
    fate: gate.Fate


class Chip(msgspec.Struct, frozen=True):
    """A link to the tasks of some states. `count`: None where the store keeps no count."""

    name: str
    href: str
    chosen: bool
    count: int | None


def look(fleet: Fleet, store: Store, asked: Asked) -> Facts:
    """Raises BadSetting for a filter that cannot be."""
    states = _states(asked)
    found, more = _found(store, asked, states)
    counts = fleet.counts.of(store)
    answer, _ = fleet.judged.of(store)
    return {
        "answer": answer,
        "rows": [Row(held, _fate(store, held)) for held in found],
        "chips": _chips(asked, states, counts),
        "filters": {name: ", ".join(asked.all(name)) for name in FILTERS},
        "states": asked.all("state"),
        "filtered": any(asked.one(name) for name in FILTERS),
        "first": asked.one("after") is None,
        "newest": _link(asked.but(after=None, group=None)),
        "more": more,
        "unknown": sum(counts.unknown.values()),
        "now_ms": found[0].now_ms if found else store.now_ms(),
    }


def _states(asked: Asked) -> tuple[str, ...]:
    words = [word for value in asked.all("state") for word in value.split(",")]
    for word in words:
        if word not in (*STATES, "all"):
            raise BadSetting(f"state: {word!r:.40} is none of {', '.join(STATES)}, all")
    if not words:
        return OPEN
    return STATES if "all" in words else tuple(state for state in STATES if state in words)


def _found(store: Store, asked: Asked, states: Sequence[str]) -> tuple[list[Held], str | None]:
    """A page of tasks, and the address of the next one: its group and the last id of this one."""
    first, after = asked.number("group", 0), asked.one("after")
    found: list[Held] = []
    for number, group in enumerate(GROUPS):
        wanted = tuple(state for state in group if state in states)
        if number < first or not wanted:
            continue
        room = ROWS + 1 - len(found)
        found += store.find(_query(store, asked, wanted, after if number == first else None, room))
        if len(found) > ROWS:
            last = found[ROWS - 1]
            return found[:ROWS], _link(asked.but(after=last.task.id, group=_group(last)))
    return found, None


def _query(
    store: Store, asked: Asked, states: tuple[str, ...], after: str | None, limit: int
) -> Query:
    since, labels = asked.one("since"), _labels(asked)
    return Query(
        states=states,
        queue=asked.one("queue"),
        agent=asked.one("agent"),
        labels=labels,
        text=asked.one("text"),
        since_ms=None if since is None else store.now_ms() - duration_ms(since, "since"),
        after=after,
        limit=limit,
    )


def _labels(asked: Asked) -> dict[str, str]:
    words = (part.strip() for value in asked.all("label") for part in value.split(","))
    return pairs(words, "label")


def _group(held: Held) -> int:
    return next(number for number, group in enumerate(GROUPS) if held.task.state in group)


def _fate(store: Store, held: Held) -> gate.Fate:
    if held.lease is None or not held.effects.get("intended"):
        return gate.fate(held, [])
    query = EffectQuery(task_id=held.task.id, states=("intended",), limit=limits.LIST_ROWS)
    return gate.fate(held, store.find_effects(query))


def _chips(asked: Asked, states: Sequence[str], counts: Counts) -> list[Chip]:
    tasks: Mapping[str, Mapping[str, int]] = counts.tasks
    queue = asked.one("queue")
    by_state = {
        state: sum(n.get(state, 0) for name, n in tasks.items() if queue in (None, name))
        for state in OPEN
    }
    rest = asked.but(state=None, after=None, group=None)
    # The store counts by queue and state: of anything finer there is no count to show.
    counted = not any(asked.one(name) for name in FILTERS if name != "queue")
    total = sum(by_state.values()) if counted else None
    chips = [Chip("open", _link(rest), tuple(states) == OPEN, total)]
    for state in STATES:
        count = by_state.get(state) if counted else None
        href = _link((*rest, ("state", state)))
        chips.append(Chip(state, href, tuple(states) == (state,), count))
    return [*chips, Chip("all", _link((*rest, ("state", "all"))), tuple(states) == STATES, None)]


def _link(words: Sequence[tuple[str, str]]) -> str:
    return f"/?{urlencode(words)}" if words else "/"


HOME = Page("home", "/", look, knows=("state", *FILTERS, "after", "group"))
