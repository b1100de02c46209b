"""The scene of one test: a store, a witness, workers as users start them, and their log."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from outlast.core.clock import Env
from outlast.core.errors import Unavailable
from outlast.core.lifecycle import body_of
from outlast.core.model import Effect, Event, Task
from outlast.store.open import open_store, sqlite_path
from outlast.store.sqlite import lock_holders
from outlast.store.verbs import CancelAnswer, EffectQuery, NewTask, Order, Store
from tests.acceptance.witness import Witness
from tests.support.processes import Processes, Running, state_of
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
APP = "tests.acceptance.agents:app"
# Deadlines of the harness are for a machine that is shared; what the product promises is judged
# from the times in the log.
# Where a mechanism was taken out and a test must fail, waiting long for it is a waste.
PATIENCE_S = float(os.environ.get("OUTLAST_TEST_PATIENCE_S", "90"))
POLL_MS = 200
Value = TypeVar("Value")


@dataclass
class Ran:
    """A command that has ended."""

    code: int
    output: str

    @property
    def json(self) -> Any:
        """What it printed as JSON, after whatever it said to people."""
        return json.loads(self.output[min(self._starts()) :])

    def _starts(self) -> list[int]:
        return [at for at in (self.output.find("{"), self.output.find("[")) if at >= 0]


class Worker:
    """A command `outlast worker`, and what it has said of itself.

    It is two processes, the supervisor and the one that does the work. Harm is done to both, as
    the loss of a machine does it; `pid` is the second, of which everybody is told.
    """

    def __init__(self, running: Running, build: str) -> None:
        self.running = running
        self.build = build

    @property
    def pid(self) -> int:
        return int(self.said("worker.started")[-1]["pid"])

    @property
    def id(self) -> str:
        return str(self.said("worker.started")[-1]["worker"])

    @property
    def code(self) -> int | None:
        return self.running.code

    def said(self, event: str) -> list[dict[str, Any]]:
        """What it told of this kind so far."""
        lines = [line for line in self.running.output.splitlines() if line.startswith('{"event"')]
        return [told for told in map(_read, lines) if told and told["event"] == event]

    def until_said(self, event: str) -> dict[str, Any]:
        until(
            lambda: self.said(event) or self.code is not None,
            f"worker {self.build} to say {event}",
            timeout_s=PATIENCE_S,
            detail=lambda: self.running.output,
        )
        assert self.said(event), f"{self.build} ended with {self.code}:\n{self.running.output}"
        return self.said(event)[0]

    def send(self, number: signal.Signals) -> None:
        self.running.send(number)

    def kill(self) -> None:
        self.running.send_group(signal.SIGKILL)
        assert self.running.wait(PATIENCE_S) == -signal.SIGKILL

    def freeze(self, file: Path | None = None) -> None:
        """Stop it in its tracks.

        `file`: a SQLite file; a process that stands still inside a write would hold it, and with
        it everybody (which has tests of its own), so it is then thawed and stopped again.
        """
        while True:
            self.running.send_group(signal.SIGSTOP)
            self.running.wait_for_state("T", PATIENCE_S)
            until(lambda: state_of(self.pid) == "T", "the worker to stop", timeout_s=PATIENCE_S)
            if file is None or self.pid not in lock_holders(file):
                return
            self.thaw()

    def thaw(self) -> None:
        self.running.send_group(signal.SIGCONT)

    def wait(self) -> int:
        """Its exit code."""
        return self.running.wait(PATIENCE_S)


class Scene:
    """Everything of one test. `db`: for workers and commands; `store`: the test's own eyes."""

    def __init__(self, db: str, processes: Processes, witness: Witness) -> None:
        self.db = db
        self.processes = processes
        self.witness = witness
        self.workers: list[Worker] = []
        self.env = Env()
        self._store: Store | None = None
        self._builds = (f"w{number}" for number in itertools.count(1))

    @property
    def is_sqlite(self) -> bool:
        return self.db.startswith("sqlite:")

    @property
    def file(self) -> Path | None:
        return sqlite_path(self.db) if self.is_sqlite else None

    # -- those who act ----------------------------------------------------------------------------

    def worker(
        self,
        build: str = "",
        *,
        ttl: str = "6s",
        grace: str = "30s",
        slots: int = 10,
        poll: str = f"{POLL_MS}ms",
        db: str = "",
        wait: bool = True,
        supervisor: bool = True,
        **environment: str,
    ) -> Worker:
        """Start `outlast worker`, and wait until the store knows it."""
        build = build or next(self._builds)
        flags = ["--ttl", ttl, "--grace", grace, "--poll", poll, "--slots", str(slots)]
        flags += [] if supervisor else ["--no-supervisor"]
        running = self.processes.outlast(
            *("worker", APP, "--db", db or self.db, "-o", "jsonl", "--build", build, *flags),
            name=f"worker-{build}",
            folder=ROOT,
            environment={"WITNESS": self.witness.url, **environment},
        )
        self.workers.append(Worker(running, build))
        if wait:
            self.workers[-1].until_said("worker.started")
        return self.workers[-1]

    def command(self, *words: str, **environment: str) -> Ran:
        """Run `outlast WORDS --db ...` to its end."""
        running = self.start_command(*words, **environment)
        return Ran(running.wait(PATIENCE_S), running.output)

    def start_command(self, *words: str, **environment: str) -> Running:
        return self.processes.outlast(
            *words, "--db", self.db, name=words[0], folder=ROOT, environment=environment
        )

    def submit(self, agent: str, **arguments: Any) -> str:
        """Submit a task; its id."""
        text = json.dumps(arguments)
        task = NewTask(id=self.env.new_id(), agent=agent, input=text, by="test")
        return self.ask(lambda store: store.submit([task]))[0].task.id

    def cancel(self, task_id: str, *, force: bool = False) -> CancelAnswer:
        order = Order("the test", "no longer wanted")
        return self.ask(lambda store: store.cancel(task_id, order, force=force))

    # -- what is seen -----------------------------------------------------------------------------

    def ask(self, request: Callable[[Store], Value]) -> Value:
        """What the store says; asked again while the database is away."""
        last: list[Unavailable] = []

        def answer() -> list[Value] | None:
            try:
                return [request(self._open())]
            except Unavailable as error:
                last[:] = [error]
                self.close()
                return None

        return until(answer, "the store", timeout_s=PATIENCE_S, detail=lambda: str(last))[0]

    def task(self, task_id: str) -> Task:
        return self.ask(lambda store: store.get(task_id))

    def log(self, task_id: str) -> list[Event]:
        return self.ask(lambda store: store.read(task_id))

    def events(self, task_id: str, kind: str, **wanted: Any) -> list[Event]:
        """The events of a kind whose bodies hold this, oldest first."""
        return [
            event
            for event in self.log(task_id)
            if event.kind == kind and wanted.items() <= body_of(event).items()
        ]

    def until_event(self, task_id: str, kind: str, **wanted: Any) -> Event:
        """Wait for the first event of that kind that holds this."""
        return until(
            lambda: self.events(task_id, kind, **wanted),
            f"{kind} {wanted or ''} on the log of {task_id}",
            timeout_s=PATIENCE_S,
            detail=lambda: self.told(task_id),
        )[0]

    def until_state(self, task_id: str, *states: str) -> Task:
        """Wait until the task is in one of these states."""

        def there() -> Task | None:
            task = self.task(task_id)
            return task if task.state in states else None

        return until(
            there, f"task {task_id} to be {states}", timeout_s=PATIENCE_S,
            detail=lambda: self.told(task_id),
        )  # fmt: skip

    def result(self, task_id: str) -> Any:
        """What the agent returned, once it has."""
        task = self.until_state(task_id, "succeeded", "failed", "cancelled")
        assert task.state == "succeeded", self.told(task_id)
        return json.loads(task.result or "null")

    def owner(self, task_id: str) -> Worker:
        """The worker to which the task was given last."""
        build = body_of(self.events(task_id, "lease.granted")[-1])["build"]
        return next(worker for worker in self.workers if worker.build == build)

    def effects(self, task_id: str) -> list[Effect]:
        return self.ask(lambda store: store.find_effects(EffectQuery(task_id=task_id)))

    def refused(self, task_id: str) -> int:
        """How many writes the fence has turned away."""
        seen = self.ask(lambda store: store.observations(task_id))
        return sum(each.count for each in seen if each.kind == "refused")

    def now_ms(self) -> int:
        """The database's clock."""
        return self.ask(lambda store: store.now_ms())

    def told(self, task_id: str) -> str:
        """The log as text, and what the workers said: for a test that fails."""
        lines = [
            f"{e.seq:3} {e.at_ms} {e.holder} {e.kind} {e.body[:200]}" for e in self.log(task_id)
        ]
        outputs = [f"--- {w.build} ({w.code}):\n{w.running.output[-2000:]}" for w in self.workers]
        return "\n".join(["", *lines, *outputs])

    def end(self) -> None:
        """Kill every worker, frozen ones too, so that what is judged stands still."""
        for worker in self.workers:
            worker.running.end()
        self.close()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _open(self) -> Store:
        if self._store is None:
            self._store = open_store(self.db, env=self.env)
        return self._store


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


def _read(line: str) -> dict[str, Any] | None:
    try:
        told: dict[str, Any] = json.loads(line)
    except ValueError:  # not yet complete
        return None
    return told
