"""What a system does while nothing happens: an idle worker, and tasks that are only held."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from .processes import cpu_s
from .rates import Figures
from .stores import Postgres
from .subject import Failed, Subject, wait_for

# What a start brings with it is over by then.
SETTLE_S = 5.0
START_S = 40.0
HELD = 500
# A server's backend tells of its updates up to ten seconds later.
SETTLE_HELD_S = 12.0


def idle(subjects: Sequence[Subject], seconds: float) -> dict[str, Figures]:
    """One idle worker of each, all at the same time: they leave the machine to each other."""
    with ExitStack() as stack:
        workers = {each: stack.enter_context(each.worker(1)) for each in subjects}
        time.sleep(SETTLE_S)
        before = {each: _seen(each, worker.pid) for each, worker in workers.items()}
        open_seen = _open_transactions(subjects, seconds)
        after = {each: _seen(each, worker.pid) for each, worker in workers.items()}
        gone = [each for each, worker in workers.items() if worker.poll() is not None]
    return {
        each.contender.name: {
            **{name: (after[each][name] - before[each][name]) / seconds for name in before[each]},
            **open_seen[each],
        }
        if each not in gone
        else dict.fromkeys(before[each], "its worker ended")
        for each in subjects
    }


def _seen(subject: Subject, worker: int) -> dict[str, float]:
    seen = {"idle, CPU": cpu_s([worker]) * 1000}
    if isinstance(subject.store, Postgres):
        seen["idle, statements"] = subject.store.statements(subject.url)[0]
    return seen


def _open_transactions(subjects: Sequence[Subject], seconds: float) -> dict[Subject, Figures]:
    """Of the looks, one a second, the percentage that met an open transaction."""
    looks = {each: 0 for each in subjects if isinstance(each.store, Postgres)}
    rounds = int(seconds)
    began = time.monotonic()
    for number in range(1, rounds + 1):
        time.sleep(max(0.0, began + number * seconds / rounds - time.monotonic()))
        for each in looks:
            looks[each] += each.store.open_transactions(each.url) > 0
    return {
        each: {"idle, open transactions": 100 * looks[each] / rounds} if each in looks else {}
        for each in subjects
    }


def held(subject: Subject, seconds: float) -> Figures:
    """Five hundred tasks in one worker, each in a step that lasts: what keeping them costs."""
    subject.fill(HELD, steps=1, ms=int((seconds + START_S + SETTLE_HELD_S) * 1000))
    with subject.worker(HELD):
        if not wait_for(subject, "step", HELD, START_S):
            raise Failed(f"held {subject.marks.count('step')} of {HELD} at once")
        time.sleep(SETTLE_HELD_S)
        before = _kept(subject)
        time.sleep(seconds)
        after = _kept(subject)
        if subject.marks.count("reached"):
            raise Failed("tasks ended while they were to be held")
    each = {name: (after[name] - before[name]) * 60 / seconds for name in after}
    updates = each.pop("updates", 0)
    hot = each.pop("hot", 0)
    return {**each, **({"held, HOT updates": 100 * hot / updates} if updates else {})}


def _kept(subject: Subject) -> dict[str, float]:
    store: Any = subject.store
    if not isinstance(store, Postgres):
        raise Failed("not on PostgreSQL")
    updates, hot = store.updates(subject.url)
    return {
        "held, statements": store.statements(subject.url)[0],
        "held, WAL": store.wal_position(),
        "updates": updates,
        "hot": hot,
    }
