"""Progress: what is being done and waited for, live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

WORDS = {
    "began": "making a store",
    "submitted": "task submitted",
    "worker.started": "waiting for a worker to be ready",
    "worker.ready": "waiting for a call to come",
    "fault.began": "doing harm",
    "fault.landed": "harm landed; waiting for an heir",
    "fault.missed": "the harm did not land",
    "fault.ended": "thawed; waiting for what it does",
    "healed": "waiting for every task to end",
    "progress.missed": "no progress",
    "rested": "looking at what is left",
    "cancel.asked": "waiting for the cancel to be obeyed",
}


class Plain:
    """A line as each scenario ends."""

    def __init__(self, count: int) -> None:
        self._count, self._ended = count, 0
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._notes: dict[str, list[str]] = {}

    def __call__(self, scenario: str, what: str, said: str) -> None:
        with self._lock:
            notes = self._notes.setdefault(scenario, [])
            if what in ("fault.landed", "fault.missed", "progress.missed", "scenario.missed"):
                notes.append(f"{said} {what.partition('.')[2]}".strip())
            if what == "ended":
                self._ended += 1
                seconds = time.monotonic() - self._began
                told = ", ".join(notes) or "no harm"
                text = f"{seconds:6.1f} s  {self._ended}/{self._count}  {scenario}: {told}"
                sys.stderr.write(text + "\n")
                sys.stderr.flush()

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing to put away."""


class Vivid:
    """A table of what goes on now."""

    def __init__(self, count: int) -> None:
        self._count, self._ended, self._landed = count, 0, 0
        self._now: dict[str, str] = {}
        self._lock = threading.Lock()
        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)

    def __call__(self, scenario: str, what: str, said: str) -> None:
        with self._lock:
            self._landed += what == "fault.landed"
            if what == "ended":
                self._ended += 1
                self._now.pop(scenario, None)
            elif what in WORDS:
                self._now[scenario] = f"{WORDS[what]} {said}".strip()
            self._live.update(self._table())

    def _table(self) -> Table:
        table = Table(
            title=f"{self._ended} of {self._count} scenarios · {self._landed} faults landed"
        )
        table.add_column("scenario")
        table.add_column("now")
        for scenario, said in self._now.items():
            table.add_row(scenario, said)
        return table

    def __enter__(self) -> Vivid:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)


def progress(count: int) -> Plain | Vivid:
    """Live where there is a terminal to see it."""
    return Vivid(count) if sys.stderr.isatty() else Plain(count)
