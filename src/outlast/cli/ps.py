"""`outlast ps`: who owns what, and what a deploy now would do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..core import limits
from ..core.errors import BadSetting
from ..core.text import pairs
from ..store.verbs import Held
from ..view.tasks import (
    STATES,
    Seen,
    Wanted,
    effect_counts,
    fates,
    look,
    owner_text,
    shapes,
    state_text,
    why_text,
)
from .options import Session, common
from .output import age, printable, rfc3339


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
    session.output.items(shapes(seen), lambda: table(session, seen), name="id")
    session.output.note(footer(seen))
    return 0


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
            owner_text(held),
            *_times(held),
            str(held.task.handoffs + held.task.expiries),
            printable((held.lease and held.lease.doing) or why_text(held), 40),
            effect_counts(held),
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


def _times(held: Held) -> tuple[str, str]:
    lease, now = held.lease, held.now_ms
    if lease is None:
        return "-", "-"
    left_ms = lease.expires_ms - now
    ends = f"{age(left_ms)} left" if left_ms >= 0 else f"lapsed {age(-left_ms)} ago"
    return age(now - lease.granted_ms), f"{age(now - lease.beat_ms)}, {ends}"


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
