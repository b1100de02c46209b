"""`outlast log`: the events of one task, and those to come."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from ..core import limits
from ..core.durations import duration_ms
from ..core.model import Event
from ..store.verbs import Store
from ..view.shapes import event_shape
from .options import Session, common, patience
from .output import json_line, printable, rfc3339

HEADER = ("SEQ", "AT", "KIND", "HOLDER", "BODY")


@click.command("log")
@click.argument("task")
@click.option("-f", "--follow", is_flag=True, help="Go on until the task has ended.")
@click.option("--since", metavar="TIME", help="Only events of the last TIME.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events after this number.")
@click.option("--limit", type=click.IntRange(1), help="At most so many, the first of them.")
@common
def log(
    session: Session, task: str, follow: bool, since: str | None, after: int, limit: int | None
) -> int:
    """Print the log of TASK, oldest first.

    With -f each event is printed as it is written, JSON as one line each, until the task has ended
    or --timeout is over (exit code 124).
    """
    found = session.ask(lambda store: store.get(task))
    since_ms = 0
    if since is not None:
        since_ms = session.ask(lambda store: store.now_ms()) - duration_ms(since, "--since")
    events = _following(session, found.id, after) if follow else read(session, found.id, after)
    wanted = _first(limit, (event for event in events if event.at_ms >= since_ms))
    if follow or session.output.form == "jsonl":
        return _stream(session, wanted)
    shown = list(wanted)
    session.output.items(map(event_shape, shown), lambda: [HEADER, *map(_row, shown)], name="seq")
    return 0


def read(session: Session, task_id: str, after: int = 0) -> Iterator[Event]:
    """A task's events in pages, so that a long log needs no long list."""

    def page_of(store: Store) -> list[Event]:
        return store.read(task_id, after=after, limit=limits.READ_BATCH)

    while True:
        page = session.ask(page_of)
        yield from page
        if len(page) < limits.READ_BATCH:
            return
        after = page[-1].seq


def _following(session: Session, task_id: str, after: int) -> Iterator[Event]:
    """Events as they come; ends with the last event of a task that has ended."""
    with patience(session, session.timeout_ms) as pause:
        while True:
            # Asked before the log is read: an event written in between is read all the same.
            ended = session.ask(lambda store: store.get(task_id)).ended
            for event in read(session, task_id, after):
                after = event.seq
                yield event
            if ended:
                return
            pause(f"task {task_id} has not ended in time; it goes on")


def _first(limit: int | None, events: Iterator[Event]) -> Iterator[Event]:
    for number, event in enumerate(events, 1):
        yield event
        if number == limit:
            return


def _stream(session: Session, events: Iterator[Event]) -> int:
    output = session.output
    for event in events:
        if output.for_people:
            output.line("  ".join(_row(event)))
        else:
            output.line(str(event.seq) if output.form == "name" else json_line(event_shape(event)))
        sys.stdout.flush()
    return 0


def _row(event: Event) -> list[str]:
    return [
        str(event.seq),
        rfc3339(event.at_ms) or "-",
        event.kind,
        str(event.holder),
        printable(event.body, 100),
    ]
