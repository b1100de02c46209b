"""A worker dies at one commit, another goes on: what every such life must come to."""

from __future__ import annotations

import itertools
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from outlast.core.clock import Env
from outlast.core.model import FINAL, Signal
from outlast.store.open import open_store
from outlast.store.verbs import NewTask, Order, Store
from tests.faults.bank import BankClient
from tests.faults.crew import PROJECT
from tests.faults.errands import AMOUNTS, RESULT
from tests.faults.judge import judge
from tests.support.processes import Processes, Running
from tests.support.waiting import until

ORDER = Order("ann", "that is enough")
LIFE_S = 40.0
# Commits without an event come with the clock; two of a kind are enough to die at.
BEATS = 2
_numbers = itertools.count(1)


class Point(NamedTuple):
    """A commit to die at: the n-th that wrote these events, or ran these statements."""

    kind: str
    nth: int


@dataclass(frozen=True)
class Life:
    """How it went: the commits of the first worker, whether it was killed, how long it all took."""

    commits: list[Point]
    killed: bool


class Country:
    """A database, a bank, and the lives that are led there one after the other."""

    def __init__(self, url: str, processes: Processes, folder: Path) -> None:
        self.url, self._processes, self._folder = url, processes, folder
        self.store: Store = open_store(url)
        address = folder / "bank"
        opened = processes.python("-m", "tests.faults.bank", address, name="bank", folder=PROJECT)
        opened.wait_for_line("open", timeout_s=30)
        self.bank = BankClient(address.read_text())

    def live(self, moment: str = "", point: Point | None = None) -> Life:
        """One life of both errands: a worker dies there, another goes on; all is checked."""
        return One(self, moment, point).live()

    def worker(self, go: Path, *words: str) -> Running:
        environment = {"ERRANDS_BANK": self.bank.address}
        command = ("-m", "tests.faults.mortal", self.url, go, *words)
        return self._processes.python(
            *command, name="mortal", folder=PROJECT, environment=environment
        )

    def new_path(self) -> Path:
        return self._folder / f"go-{next(_numbers)}"


class One:
    """One life: the errand, then the one to be cancelled, then the worker is told to leave."""

    def __init__(self, country: Country, moment: str, point: Point | None) -> None:
        self.country, self.store, self.point = country, country.store, point
        words = (moment, point.kind, str(point.nth)) if point else ()
        self.first_go, self.second_go = country.new_path(), country.new_path()
        self.first = country.worker(self.first_go, *words)
        self.second = country.worker(self.second_go)
        self.signalled = False
        self.asked_to_leave = False
        self.dawdler = ""

    def live(self) -> Life:
        self.errand = self._submit("errand")
        self.first_go.touch()
        until(self._has_ended, f"a life with a death at {self.point}", timeout_s=LIFE_S,
              detail=self._so_far)  # fmt: skip
        if not self.second_go.exists():
            self.second.end()
        self._check()
        return Life(commits_of(self.first), self.first.code == -signal.SIGKILL)

    def _submit(self, agent: str) -> str:
        [submitted] = self.store.submit([NewTask(id=Env().new_id(), agent=agent, input="{}")])
        return submitted.task.id

    # What goes on meanwhile, whoever lives.

    def _has_ended(self) -> bool:
        if self.first.code is not None and not self.asked_to_leave:
            self.second_go.touch()
        self._approve()
        if self._state(self.errand) not in FINAL:
            return False
        self.dawdler = self.dawdler or self._submit("dawdle")
        self._cancel()
        return self._state(self.dawdler) in FINAL and self._have_left()

    def _state(self, task_id: str) -> str:
        return self.store.get(task_id).state

    def _approve(self) -> None:
        if not self.signalled and self.store.get(self.errand).waiting_for == "approval":
            sent = Signal(f"yes-{self.errand}", self.errand, "approval", "true", "ann", 0)
            self.signalled = self.store.signal(self.errand, sent)

    def _cancel(self) -> None:
        task = self.store.get(self.dawdler)
        begun = any(event.kind == "step.done" for event in self.store.read(task.id))
        if begun and task.state == "running" and task.cancel_ms is None:
            self.store.cancel(task.id, ORDER)

    def _have_left(self) -> bool:
        living = [w for w, go in ((self.first, self.first_go), (self.second, self.second_go))
                  if go.exists() and w.code is None]  # fmt: skip
        if living and not self.asked_to_leave:
            self.asked_to_leave = True
            for worker in living:
                worker.send(signal.SIGTERM)
        return not living

    # What it must come to.

    def _check(self) -> None:
        errand, dawdler = self.store.get(self.errand), self.store.get(self.dawdler)
        assert errand.state == "succeeded", errand
        assert msgspec.json.decode(errand.result or "") == RESULT
        assert dawdler.state == "cancelled", dawdler
        record = self.country.bank.record()
        moved = {key: amount for key, amount in record["moved"].items() if self.errand in key}
        assert sorted(moved.values()) == sorted(AMOUNTS.values()), moved
        for key in moved:
            assert record["asked"][key] <= 2, f"{key} was asked for {record['asked'][key]} times"
        verdict = judge(self.country.url)
        assert not verdict.violations, verdict.examples

    def _so_far(self) -> str:
        tasks = [self.store.get(each) for each in (self.errand, self.dawdler) if each]
        logs = [[event.kind for event in self.store.read(task.id)] for task in tasks]
        return f"{tasks}\n{logs}\n{self.first.output}\n---\n{self.second.output}"


def commits_of(worker: Running) -> list[Point]:
    """The commits that it named, in order."""
    lines = [line.split() for line in worker.output.splitlines() if line.startswith("commit ")]
    return [Point(kind, int(nth)) for _, kind, nth in lines]


def points_of(commits: list[Point]) -> list[Point]:
    """Where to die: at each commit with an event, and at the first of those that only beat."""
    return [each for each in commits if "." in each.kind or each.nth <= BEATS]
