"""The judge of a race: what the log, the rows and the acknowledgements say, and nothing else."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from outlast.core import ledger, lifecycle
from outlast.core.model import Event
from tests.store import truth
from tests.store.databases import Row


class Rows:
    """Bare reads of a database that nobody writes to any more."""

    def __init__(self, url: str) -> None:
        self.url = url

    def rows(self, statement: str, *values: Any) -> list[Row]:
        if self.url.startswith("sqlite:"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:"))) as file:
                file.row_factory = sqlite3.Row
                return [dict(row) for row in file.execute(statement, values)]
        options = "-c search_path=outlast"
        with psycopg.connect(self.url, row_factory=dict_row, options=options) as connection:
            return connection.execute(statement.replace("?", "%s").encode(), values).fetchall()


@dataclass
class Verdict:
    """What was found; `violations` by kind of promise, each with one example."""

    events: int = 0
    grants: int = 0
    acknowledged: int = 0
    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def find(self, kind: str, example: object, times: int = 1) -> None:
        self.violations[kind] += times
        self.examples.setdefault(kind, str(example)[:600])

    def holds(self, kind: str, check: Callable[..., None], *what: Any) -> None:
        """Run one of the checks that raise; what they raise is a violation."""
        try:
            check(*what)
        except Exception as error:
            self.find(kind, f"{type(error).__name__}: {error}")


def judge(url: str, notes: Iterable[Path] = ()) -> Verdict:
    """Hold the log against itself, the rows against the log, and both against what was promised."""
    rows, verdict = Rows(url), Verdict()
    logs = truth.read_logs(rows)  # type: ignore[arg-type]
    tasks = {row["id"]: row for row in rows.rows("select * from tasks")}
    leases = {row["task_id"]: row for row in rows.rows("select * from leases")}
    elsewhere = {row["key"]: row["task_id"] for row in rows.rows("select * from effects")}
    for task_id, events in logs.items():
        verdict.events += len(events)
        _judge_log(verdict, events)
        taken_over = {key for key, owner in elsewhere.items() if owner != task_id}
        verdict.holds("final is final", _check_end, events, taken_over)
        _judge_rows(verdict, tasks[task_id], leases.get(task_id), events)
    _judge_keys(verdict, logs)
    _judge_acknowledged(verdict, logs, notes)
    told = _told(verdict, logs)
    if len(told) == len(logs):
        ledger_rows = rows.rows("select * from effects")
        verdict.holds("the ledger is the fold of the logs", truth.check_effects, ledger_rows, told)
        verdict.holds("counters say what the log says", truth.check_counters, rows, told)
    return verdict


Logs = Mapping[str, Sequence[Event]]


def _told(verdict: Verdict, logs: Logs) -> dict[str, truth.Told]:
    """What each log amounts to, of those that amount to anything."""
    told = {}
    for task_id, events in logs.items():
        counts: Counter[tuple[str, str]] = Counter()
        try:
            for name, labels, times in truth.tell(events):
                counts[name, labels] += times
            folded = lifecycle.fold(events), ledger.fold_effects(events)
            told[task_id] = truth.Told(*folded, counts)
        except Exception as error:
            verdict.find("a log can be folded", f"{type(error).__name__}: {error}")
    return told


def _judge_log(verdict: Verdict, events: Sequence[Event]) -> None:
    verdict.holds("the chain verifies, without a gap", truth.check_chain, events)
    verdict.holds("an owner's event stands under its own grant", truth.check_fence, events)
    epoch, owned = 0, False
    for event in events:
        body = lifecycle.body_of(event)
        signed = body.get("signed")
        if event.kind == "lease.granted":
            verdict.grants += 1
            if body["epoch"] != epoch + 1:
                verdict.find("epochs rise by one", event)
            epoch, owned = body["epoch"], True
        elif signed is not None and (signed != epoch or not owned):
            verdict.find("no line of an old epoch", event)
        if event.holder == 0:
            owned = False


def _check_end(events: Sequence[Event], taken_over: set[str]) -> None:
    """As for every store; but the doubt of a shared key may be another task's by now."""
    own = [e for e in events if not _intends(e) & taken_over]
    truth.check_end(own)


def _intends(event: Event) -> set[str]:
    return {lifecycle.body_of(event)["key"]} if event.kind == "effect.intended" else set()


def _judge_rows(verdict: Verdict, task: Row, lease: Row | None, events: Sequence[Event]) -> None:
    verdict.holds("a lease if and only if running", truth.check_lease, task, lease, events)

    def fold() -> None:
        truth.check_row(task, lifecycle.fold(events))

    verdict.holds("the row is the fold of the log", fold)


def _judge_keys(verdict: Verdict, logs: Logs) -> None:
    applied: Counter[str] = Counter()
    for events in logs.values():
        for event in events:
            if event.kind == "effect.applied":
                applied[lifecycle.body_of(event)["key"]] += 1
    for key, times in applied.items():
        if times > 1:
            verdict.find("a key is applied once", f"{key}: {times} times")


def _judge_acknowledged(verdict: Verdict, logs: Logs, notes: Iterable[Path]) -> None:
    there = {(e.task_id, e.seq): e.digest for events in logs.values() for e in events}
    for path in notes:
        for line in path.read_text().splitlines():
            task_id, seq, digest = line.split()
            verdict.acknowledged += 1
            if there.get((task_id, int(seq))) != digest:
                verdict.find("what was acknowledged is there", line)
