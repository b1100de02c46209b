"""Tasks as a list: which are wanted, what is known of each, and what a deploy would do to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..core import limits
from ..core.durations import duration_ms
from ..core.model import FINAL, Effect
from ..store.verbs import EffectQuery, Held, Query, Store
from . import gate
from .shapes import Shape, error_line, task_shape
from .words import age, printable, rfc3339

OPEN = ("running", "review", "waiting", "ready")
STATES = (*OPEN, *sorted(FINAL))


class Wanted(msgspec.Struct, frozen=True):
    """Which tasks to list."""

    states: tuple[str, ...]
    queue: str | None
    agent: str | None
    labels: dict[str, str]
    text: str | None
    since: str | None
    limit: int


class Seen(msgspec.Struct, frozen=True):
    """The tasks at one moment. `more`: there are others that the limit left out."""

    rows: Sequence[Held]
    effects: Sequence[Effect]
    now_ms: int
    more: bool


def look(store: Store, wanted: Wanted) -> Seen:
    """The tasks that are wanted: open ones first, so that old ones are not crowded out."""
    since_ms = None
    if wanted.since is not None:
        since_ms = store.now_ms() - duration_ms(wanted.since, "--since")
    rows: list[Held] = []
    for states in _groups(wanted.states):
        room = wanted.limit + 1 - len(rows)
        if room > 0:
            query = Query(
                states=states,
                queue=wanted.queue,
                agent=wanted.agent,
                labels=wanted.labels,
                text=wanted.text,
                since_ms=since_ms,
                limit=room,
            )
            rows += store.find(query)
    shown = rows[: wanted.limit]
    return Seen(
        shown,
        _effects(store, shown),
        shown[0].now_ms if shown else store.now_ms(),
        len(rows) > wanted.limit,
    )


def _groups(states: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What has an owner, what is open, what has ended: asked for in this order."""
    groups = (("running",), OPEN[1:], tuple(FINAL))
    wanted = (tuple(state for state in states if state in group) for group in groups)
    return [group for group in wanted if group]


def _effects(store: Store, rows: Sequence[Held]) -> list[Effect]:
    """All in one question: a list costs the same, however many tasks have acted."""
    acted = [held.task.id for held in rows if held.effects]
    if not acted:
        return []
    return store.find_effects(EffectQuery(task_ids=acted, limit=limits.LISTED_EFFECTS))


def shapes(seen: Seen) -> Iterator[Shape]:
    """A shape for each row, with what a deploy would do to it."""
    by_task: dict[str, list[Effect]] = {}
    for effect in seen.effects:
        by_task.setdefault(effect.task_id, []).append(effect)
    for held, fate in zip(seen.rows, fates(seen), strict=True):
        shape = task_shape(held, by_task.get(held.task.id, []), gate.marks_of(held))
        shape["if_deployed"] = {
            "blocks": fate.blocks,
            "said": fate.said,
            "at_most_s": None if fate.at_most_ms is None else fate.at_most_ms / 1000,
        }
        yield shape


def fates(seen: Seen) -> list[gate.Fate]:
    in_flight = gate.flights(seen.effects)
    return [gate.fate(held, in_flight.get(held.task.id, [])) for held in seen.rows]


def state_text(held: Held) -> str:
    """The stored state, then what is derived: `running, stale`."""
    return ", ".join([held.task.state, *gate.marks_of(held)])


def owner_text(held: Held) -> str:
    """Who has it: host/pid, build and epoch."""
    if held.lease is None:
        return "-"
    build = printable(held.worker.build, 20) if held.worker and held.worker.build else "no build"
    return f"{gate.owner(held)} {build} e{held.task.epoch}"


def why_text(held: Held) -> str:
    """What a task without an owner is there for."""
    task = held.task
    if task.state == "ready":
        later = (task.due_ms or 0) - held.now_ms
        return f"due in {age(later)}" if later > 0 else f"next lease: {task.reason}"
    if task.state == "waiting":
        until = f" until {rfc3339(task.due_ms)}" if task.due_ms is not None else ""
        return f"for {task.waiting_for}{until}" if task.waiting_for else f"asleep{until}"
    if task.state == "failed":
        return f"{task.reason}: {error_line(task.error)}"
    return "" if task.state in ("running", "succeeded") else task.reason


def effect_counts(held: Held) -> str:
    """Done / in flight / unknown."""
    counts = held.effects
    in_flight = counts.get("intended", 0) if held.lease else 0
    unknown = counts.get("unknown", 0) + (0 if held.lease else counts.get("intended", 0))
    return f"{counts.get('applied', 0)}/{in_flight}/{unknown}"
