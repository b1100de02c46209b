"""`outlast ps -w`: a screen that is drawn anew, or, into a pipe, a line for each change."""

from __future__ import annotations

import sys
import time
from typing import Any

from ..core.errors import Unavailable
from ..view.tasks import Seen, Wanted, look, shapes, state_text
from .options import Session
from .output import columns, json_line
from .ps import footer, table

EVERY_S = 1.0


def watch(session: Session, wanted: Wanted) -> int:
    if session.output.terminal:
        return _watch_screen(session, wanted)
    told: dict[str, Any] = {}
    while True:
        try:
            seen = session.ask(lambda store: look(store, wanted))
            _print_changes(session, seen, told)
        except Unavailable as away:
            session.output.warn(f"outlast: {away}")
        if _time_is_up(session):
            return 0
        time.sleep(EVERY_S)


def _print_changes(session: Session, seen: Seen, told: dict[str, Any]) -> None:
    """A line for each task whose owner or state is another than when it was last told."""
    cells = table(session, seen) if session.output.for_people else []
    for number, (held, shape) in enumerate(zip(seen.rows, shapes(seen), strict=True)):
        now = (state_text(held), held.task.epoch, shape["effects"])
        if told.get(held.task.id) == now:
            continue
        if cells:
            session.output.line("  ".join(cells[number + 1]))
        else:
            name_only = session.output.form == "name"
            session.output.line(held.task.id if name_only else json_line(shape))
        told[held.task.id] = now
    sys.stdout.flush()


def _watch_screen(session: Session, wanted: Wanted) -> int:
    from rich.live import Live
    from rich.text import Text

    shown = ""
    with Live(auto_refresh=False, screen=True) as screen:
        while not _time_is_up(session):
            try:
                seen = session.ask(lambda store: look(store, wanted))
                shown = "\n".join([*columns(table(session, seen)), "", footer(seen)])
                told = shown
            except Unavailable:
                # What is shown stays, and says that it is old: no clock here makes it look live.
                told = f"LAST KNOWN, the store cannot be reached now\n\n{shown}"
            screen.update(Text.from_ansi(told, no_wrap=True, overflow="crop"), refresh=True)
            time.sleep(EVERY_S)
    return 0


def _time_is_up(session: Session) -> bool:
    left_ms = session.left_ms(session.timeout_ms)
    return left_ms is not None and left_ms <= 0
