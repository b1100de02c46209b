"""`outlast ps`: who owns what, and what a deploy now would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
import msgspec

from ..core import limits
from ..core.durations import duration_ms
from ..core.errors import BadSetting
from ..core.model import FINAL, Effect
from ..store.verbs import EffectQuery, Held, Query, Store
from . import gate
from .options import Session, common, pairs
from .output import Shape, age, printable, rfc3339
from .shapes import error_line, task_shape

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


@click.command("ps")
@click.option("-w", "--watch", is_flag=True, help="Go on showing what changes.")
@click.option("--state", "states", multiple=True, metavar="STATE", help=f"{', '.join(STATES)}.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--agent", metavar="NAME", help="Only this agent.")
@click.option("--text", metavar="TEXT", help="Only tasks whose id, key or input hold this.")
@click.option("-l", "labels", multiple=True, metavar="K=V", help="Only tasks with this label.")
@click.option("--since", metavar="TIME", help="Only tasks submitted in the last TIME.")
@click.option("--limit", type=int, default=limits.LIST_ROWS, show_default=True)
@common
def ps(
    session: Session,
    watch: bool,
    states: tuple[str, ...],
    queue: str | None,
    agent: str | None,
    text: str | None,
    labels: tuple[str, ...],
    since: str | None,
    limit: int,
) -> int:
    """List tasks: those that are open first, then the newest of those that have ended.

    States are those the store has; what is derived (stale, cancelling, draining) stands beside.
    """
    wanted = Wanted(_states(states), queue, agent, pairs(labels, "-l"), text, since, _limit(limit))
    if watch:
        from .watching import watch as go_on

        return go_on(session, wanted)
    seen = session.ask(lambda store: look(store, wanted))
    session.output.items(shapes(session, seen), lambda: table(session, seen), name="id")
    session.output.note(footer(seen))
    return 0


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
    return [
        effect
        for held in rows
        if held.effects
        for effect in store.find_effects(EffectQuery(task_id=held.task.id, limit=limits.READ_BATCH))
    ]


def shapes(session: Session, seen: Seen) -> Iterator[Shape]:
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


HEADER = (
    "TASK",
    "AGENT",
    "STATE",
    "OWNER",
    "HELD FOR",
    "HEARTBEAT",
    "RESUMED",
    "DOING NOW",
    "EFFECTS",
    "IF I DEPLOY NOW",
)
WIDER = ("QUEUE", "KEY", "LABELS", "FAILURES", "AGE", "PROGRESS")


def table(session: Session, seen: Seen) -> list[list[str]]:
    """The rows of `ps`, header first."""
    output = session.output
    short = short_ids([held.task.id for held in seen.rows], output.terminal and not output.wide)
    rows = [[*HEADER, *(WIDER if output.wide else ())]]
    for held, fate in zip(seen.rows, fates(seen), strict=True):
        row = [
            short[held.task.id],
            printable(held.task.agent, 32),
            output.state(state_text(held)),
            _owner(held),
            *_times(held),
            str(held.task.handoffs + held.task.expiries),
            printable((held.lease and held.lease.doing) or _why(held), 40),
            _effect_counts(held),
            output.coloured(fate.said, "yellow" if fate.blocks else None),
        ]
        rows.append(row + _wider(held) if output.wide else row)
    return rows


def short_ids(ids: Sequence[str], shorten: bool) -> dict[str, str]:
    """Beginnings that tell these ids apart; whole ids where a program may read them."""
    length = 13
    while shorten and len({task_id[:length] for task_id in ids}) < len(ids):
        length += 1
    return {task_id: task_id[:length] if shorten else task_id for task_id in ids}


def state_text(held: Held) -> str:
    """The stored state, then what is derived: `running, stale`."""
    return ", ".join([held.task.state, *gate.marks_of(held)])


def _owner(held: Held) -> str:
    if held.lease is None:
        return "-"
    build = printable(held.worker.build, 20) if held.worker and held.worker.build else "no build"
    return f"{gate.owner(held)} {build} e{held.task.epoch}"


def _times(held: Held) -> tuple[str, str]:
    lease, now = held.lease, held.now_ms
    if lease is None:
        return "-", "-"
    left_ms = lease.expires_ms - now
    ends = f"{age(left_ms)} left" if left_ms >= 0 else f"lapsed {age(-left_ms)} ago"
    return age(now - lease.granted_ms), f"{age(now - lease.beat_ms)}, {ends}"


def _why(held: Held) -> str:
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


def _effect_counts(held: Held) -> str:
    """Done / in flight / unknown."""
    counts = held.effects
    in_flight = counts.get("intended", 0) if held.lease else 0
    unknown = counts.get("unknown", 0) + (0 if held.lease else counts.get("intended", 0))
    return f"{counts.get('applied', 0)}/{in_flight}/{unknown}"


def _wider(held: Held) -> list[str]:
    task, lease = held.task, held.lease
    return [
        printable(task.queue, 24),
        printable(task.key or "-", 32),
        printable(task.labels, 40),
        str(task.failures),
        age(held.now_ms - task.created_ms),
        age(held.now_ms - lease.progress_ms) if lease else "-",
    ]


def footer(seen: Seen) -> str:
    as_of = f"as of {rfc3339(seen.now_ms)}"
    if not seen.rows:
        return f"No tasks ({as_of})"
    counts: dict[str, int] = {}
    for held in seen.rows:
        counts[held.task.state] = counts.get(held.task.state, 0) + 1
    said = ", ".join(f"{count} {state}" for state, count in counts.items())
    return f"{said} ({as_of})" + ("; there are more: --limit" if seen.more else "")


def _states(states: tuple[str, ...]) -> tuple[str, ...]:
    words = [word for given in states for word in given.split(",")]
    for word in words:
        if word not in STATES:
            raise BadSetting(
                f"--state: {word!r:.40} is none of {', '.join(STATES)}; nothing was listed"
            )
    return tuple(state for state in STATES if state in words) if words else STATES


def _limit(limit: int) -> int:
    if not 1 <= limit <= 100_000:
        raise BadSetting(f"--limit: {limit} is not from 1 to 100000; nothing was listed")
    return limit
