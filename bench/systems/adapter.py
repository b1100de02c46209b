"""What the adapters share: what they are asked, and the marks their tasks leave. Standard library.

An adapter runs in the environment of its system, in two parts:

    python -m bench.systems.NAME URL          asked on stdin, a JSON list [call, *words] a line
    python -m bench.systems.NAME URL work SLOTS LEASE_S      a worker, until a signal ends it

Every system runs the same program, written as its documentation writes tasks: `steps` durable
steps one after the other, none for a task that does nothing. What happens is told by marks, lines
that are appended to one file: it belongs to no system, and outlives whoever is killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import importlib.metadata
import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

# So many steps of a process are told by one mark, where a step does nothing else.
TICK = 10
_steps = itertools.count(1)
PR_SET_PDEATHSIG = 1
Words = dict[str, Any]


class System:
    """One system at `url`. What it has not, it leaves out, and says why in `cannot`."""

    settings = ""
    packages: tuple[str, ...] = ()
    # By the name of a measure: why this system has no figure there.
    cannot: ClassVar[dict[str, str]] = {}
    # Unlogged tables of it that hold nothing of a task: who is there, who leads.
    may_be_lost: tuple[str, ...] = ()

    def __init__(self, url: str) -> None:
        self.url = url

    def prepare(self) -> None:
        """Make the tables, or whatever must be there before anything is submitted."""

    def prepare_for_two(self) -> None:
        """The same where two workers will be there."""
        self.prepare()

    def submit(self, words: Words) -> None:
        """Store one task; returns when it is on disk."""
        raise NotImplementedError

    def submit_many(self, tasks: Sequence[Words]) -> None:
        """Store them by the call that the system has for many."""
        raise NotImplementedError

    def fill(self, tasks: Sequence[Words]) -> None:
        """Store them before a measure begins, by the quickest way there is."""
        try:
            self.submit_many(tasks)
        except NotImplementedError:
            for words in tasks:
                self.submit(words)

    def left(self) -> int:
        """How many tasks have not ended."""
        raise NotImplementedError

    def assert_durable(self) -> None:
        """Raise where syncing is a setting of the system's own connections, and is not on."""

    def claimed_ns(self) -> int | None:
        """When the last claim was made, by the wall clock; None: the system keeps no such time."""
        return None

    def work(self, slots: int, lease_s: float) -> None:
        """Work until a signal ends it. `lease_s`: 0 for the system's own default."""
        raise NotImplementedError


# What a program says of itself


def mark(word: str, number: int = 0) -> None:
    """Append a line to the file of marks, by one write, so that no line is cut by another."""
    now = f"{time.monotonic_ns()} {time.time_ns()}"
    os.write(_marks(), f"{word} {number} {os.getpid()} {now}\n".encode())


@functools.cache
def _marks() -> int:
    return os.open(os.environ["BENCH_MARKS"], os.O_WRONLY | os.O_APPEND)


def step(number: int, ms: int) -> int:
    """What a step does: nothing, or to last."""
    _mark_step(number, ms)
    if ms:
        time.sleep(ms / 1000)
    return number


async def step_async(number: int, ms: int) -> int:
    _mark_step(number, ms)
    if ms:
        await asyncio.sleep(ms / 1000)
    return number


def _mark_step(number: int, ms: int) -> None:
    if next(_steps) % TICK == 0 or ms:
        mark("step", number)


def reached(words: Words) -> None:
    """The program is at its end; the first time it dies there, if it was asked to."""
    mark("reached", words["number"])
    if words["die"]:
        try:
            Path(words["die"]).touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


# What the harness asks


class Desk:
    """Answers the harness for one system."""

    def __init__(self, system: System) -> None:
        self._system = system

    def about(self) -> dict[str, Any]:
        versions = {name: importlib.metadata.version(name) for name in self._system.packages}
        return {
            "settings": self._system.settings,
            "cannot": self._system.cannot,
            "versions": versions,
            "may_be_lost": self._system.may_be_lost,
            "python": sys.version.partition(" ")[0],
        }

    def prepare(self) -> None:
        self._system.prepare()

    def prepare_for_two(self) -> None:
        self._system.prepare_for_two()

    def left(self) -> int:
        return self._system.left()

    def assert_durable(self) -> None:
        self._system.assert_durable()

    def claimed_ns(self) -> int | None:
        return self._system.claimed_ns()

    def fill(self, tasks: list[Words]) -> None:
        self._system.fill(tasks)

    def singly(self, tasks: list[Words], limit_s: float) -> float:
        """Tasks a second, submitted one after the other, for no longer than the limit."""
        self._system.submit(tasks[0])  # connections and caches
        began, done = time.monotonic(), 0
        for words in tasks:
            self._system.submit(words)
            done += 1
            if time.monotonic() - began > limit_s:
                break
        return done / (time.monotonic() - began)

    def batched(self, tasks: list[Words]) -> float:
        """Tasks a second, by the call for many."""
        self._system.submit_many(tasks[:1])
        began = time.monotonic()
        self._system.submit_many(tasks)
        return len(tasks) / (time.monotonic() - began)

    def trickle(self, tasks: list[Words], pause_s: float) -> list[int]:
        """Submit them with a pause before each; when each call began, by the monotonic clock."""
        chance, began = random.Random(5), []
        for words in tasks:
            # Uneven, so that no poller is always met in the same phase.
            time.sleep(pause_s * chance.uniform(0.5, 1.5))
            began.append(time.monotonic_ns())
            self._system.submit(words)
        return began


def _die_with_parent() -> None:
    """A bench that is killed must leave no worker behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(kind: type[System]) -> None:
    system = kind(sys.argv[1])
    if sys.argv[2:3] == ["work"]:
        _die_with_parent()
        system.work(int(sys.argv[3]), float(sys.argv[4]))
        return
    # Whatever a library prints must not stand among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    desk = Desk(system)
    for line in sys.stdin:
        call, *words = json.loads(line)
        try:
            told = {"answer": getattr(desk, call)(*words)}
        except NotImplementedError:
            told = {"missing": True}
        except Exception as error:
            traceback.print_exc()
            told = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(told) + "\n")
        answers.flush()
