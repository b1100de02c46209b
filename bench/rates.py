"""What a system gets done in a second, and what it costs: steps, tasks that do nothing, submits."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .marks import rate
from .processes import cpu_s
from .stores import Postgres
from .subject import Failed, Subject, tasks, wait_for
from .systems.adapter import TICK

# So long a measure may take; what it has seen by then counts.
LIMIT_S = 20.0
LOOK_S = 0.02
Figures = dict[str, float | str]


@dataclass(frozen=True)
class Sizes:
    sequence: int = 1_000
    tasks: int = 50
    steps: int = 100
    noops: int = 2_000
    singly: int = 1_000
    batch: int = 10_000


QUICK = Sizes(sequence=300, steps=20, noops=500, singly=200, batch=1_000)


def sequence(subject: Subject, sizes: Sizes) -> Figures:
    """One task, one step after the other."""
    subject.fill(1, steps=sizes.sequence)
    with subject.worker(1):
        wait_for(subject, "reached", 1, LIMIT_S)
    return {"steps, one task": rate(subject.marks.all())}


def many(subject: Subject, sizes: Sizes) -> Figures:
    """Fifty tasks at once in one worker; with what its process and its store's have used."""
    subject.fill(sizes.tasks, steps=sizes.steps)
    with subject.worker(sizes.tasks) as worker:
        if not wait_for(subject, "began", 1, LIMIT_S):
            raise Failed("no task began")
        before = _used(subject, worker.pid)
        wait_for(subject, "reached", sizes.tasks, LIMIT_S)
        after = _used(subject, worker.pid)
        marks = subject.marks.all()
    steps = TICK * sum(1 for mark in marks if mark.word == "step")
    if not steps:
        raise Failed(f"no step in {LIMIT_S:.0f} s")
    each = {name: (after[name] - before[name]) / steps for name in before}
    return {"steps, 50 tasks": rate(marks), **each}


def noops(subject: Subject, sizes: Sizes) -> Figures:
    """Tasks that do nothing, submitted beforehand: from the first start to the last one's end."""
    subject.fill(sizes.noops)
    with subject.worker(sizes.tasks):
        wait_for(subject, "reached", sizes.noops, LIMIT_S)
        left = _left(subject)
        ended_ns = time.monotonic_ns()
    began = [mark.at_ns for mark in subject.marks.of("began")]
    if not began:
        raise Failed("no task began")
    return {"no-op tasks": (sizes.noops - left) / (ended_ns - min(began)) * 1e9}


def singly(subject: Subject, sizes: Sizes) -> Figures:
    return {"enqueue, single": subject.ask("singly", tasks(sizes.singly), LIMIT_S)}


def batch(subject: Subject, sizes: Sizes) -> Figures:
    return {"enqueue, batch": subject.ask("batched", tasks(sizes.batch))}


def _left(subject: Subject) -> int:
    """How many have not ended; not asked before the functions have, and not for ever."""
    deadline = time.monotonic() + LIMIT_S / 2
    while (left := int(subject.ask("left"))) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    return left


def _used(subject: Subject, worker: int) -> dict[str, float]:
    used = {
        "CPU a step, worker": cpu_s([worker]) * 1000,
        "CPU a step, store": cpu_s(subject.store.pids()) * 1000,
    }
    if isinstance(subject.store, Postgres):
        used["statements a step"] = subject.store.statements(subject.url)[0]
        used["WAL a step"] = subject.store.wal_position()
    return used
