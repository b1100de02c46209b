"""A worker dies at one commit, another goes on: what every such life must come to."""

from __future__ import annotations

import itertools
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from outlast.store.open import open_store
from outlast.store.verbs import Store
from tests.faults.bank import BankClient
from tests.faults.course import Course
from tests.faults.crew import PROJECT
from tests.support.processes import Processes, Running
from tests.support.waiting import until

TTL_MS = 600
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
    """A database, a bank, and the lives that are led there one after the other.

    `workers_url`: how workers reach the database, if it is not `url` (a pooler, a wire).
    `careless`: their tools do not honour the idempotency key.
    """

    def __init__(
        self,
        url: str,
        processes: Processes,
        folder: Path,
        *,
        workers_url: str = "",
        careless: bool = False,
    ) -> None:
        self.url, self._processes, self._folder = url, processes, folder
        self._workers_url = workers_url or url
        self._careless = {"ERRANDS_CARELESS": "1"} if careless else {}
        self.store: Store = open_store(url)
        address = folder / "bank"
        opened = processes.python("-m", "tests.faults.bank", address, name="bank", folder=PROJECT)
        opened.wait_for_line("open", timeout_s=30)
        self.bank = BankClient(address.read_text())

    def live(self, moment: str = "", point: Point | None = None) -> Life:
        """One life of both errands: a worker dies there, another goes on; all is checked."""
        return One(self, moment, point).live()

    def worker(self, go: Path, *words: str, ttl_ms: int = TTL_MS) -> Running:
        """A worker that waits for the file `go`, and dies where `words` say."""
        environment = {"ERRANDS_BANK": self.bank.address, "ERRANDS_TTL_MS": str(ttl_ms)}
        environment |= self._careless
        command = ("-m", "tests.faults.mortal", self._workers_url, go, *words)
        return self._processes.python(
            *command, name="mortal", folder=PROJECT, environment=environment
        )

    def close(self) -> None:
        self.store.close()

    def new_path(self) -> Path:
        return self._folder / f"go-{next(_numbers)}"


class One:
    """One life: the course of both errands, after which whoever lives is told to leave."""

    def __init__(self, country: Country, moment: str, point: Point | None) -> None:
        self.country, self.point = country, point
        words = (moment, point.kind, str(point.nth)) if point else ()
        self.first_go, self.second_go = country.new_path(), country.new_path()
        self.first = country.worker(self.first_go, *words)
        self.second = country.worker(self.second_go)
        self.asked_to_leave = False

    def live(self) -> Life:
        self.course = Course(self.country.store, self.country.bank)
        self.first_go.touch()
        until(self._has_ended, f"a life with a death at {self.point}", timeout_s=LIFE_S,
              detail=self._so_far)  # fmt: skip
        if not self.second_go.exists():
            self.second.end()
        self.course.check(self.country.url)
        return Life(commits_of(self.first), self.first.code == -signal.SIGKILL)

    def _has_ended(self) -> bool:
        if self.first.code is not None and not self.asked_to_leave:
            self.second_go.touch()
        return self.course.go_on() and self._have_left()

    def _have_left(self) -> bool:
        both = ((self.first, self.first_go), (self.second, self.second_go))
        living = [worker for worker, go in both if go.exists() and worker.code is None]
        if living and not self.asked_to_leave:
            self.asked_to_leave = True
            for worker in living:
                worker.send(signal.SIGTERM)
        return not living

    def _so_far(self) -> str:
        return f"{self.course.said()}\n{self.first.output}\n---\n{self.second.output}"


def commits_of(worker: Running) -> list[Point]:
    """The commits that it named, in order."""
    lines = [line.split() for line in worker.output.splitlines() if line.startswith("commit ")]
    return [Point(kind, int(nth)) for _, kind, nth in lines]


def points_of(commits: list[Point]) -> list[Point]:
    """Where to die: at each commit with an event, and at the first of those that only beat."""
    return [each for each in commits if "." in each.kind or each.nth <= BEATS]
