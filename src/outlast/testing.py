"""Agents in tests: run one to its end, crash it after event n, move the clock. No server, no sleep.

    from outlast.testing import run

    def test_the_mail_is_sent_once_whenever_the_worker_dies():
        for n in range(1, 12):
            ran = run(greet, {"name": "Ann"}, crash_after=n)
            assert ran.result == "sent" and len(outbox) == 1

`Harness` is the same with a hand on each part: several workers of this process on one SQLite file,
driven tick by tick on this thread, with a clock that stands still until it is moved: a sleep of
three days passes at once. As a pytest fixture: `pytest_plugins = ["outlast.testing"]` gives
`outlast_harness`, a function that makes one for an app and clears it away.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from .core import limits
from .core.clock import Env, HandClock
from .core.codec import Codec
from .core.durations import Duration, duration_ms
from .core.errors import TaskCancelled, TaskFailed, Unavailable
from .core.model import Effect, Event, Grant, Offer, Signal, Task, Written
from .store.open import open_store
from .store.verbs import EffectQuery, NewTask, Order, Query, Store
from .worker.app import AgentSpec, App, agent_spec
from .worker.worker import Worker

PASSES = 20
REAL_WAIT_S = 0.001
REAL_LIMIT_S = 20.0
MOVES_MAX = 10_000
TESTER = Order("test", "a test wants it")

# What a crashed worker leaves must not be cleaned up by Python: no `finally` of it may run.
_graves: list[Any] = []


@dataclass(frozen=True)
class Ran:
    """What became of a task: its row, its log, its effects."""

    task: Task
    events: list[Event]
    effects: list[Effect]

    @property
    def result(self) -> Any:
        """What the agent returned, as plain JSON values. Raises TaskFailed, TaskCancelled."""
        if self.task.state == "cancelled":
            raise TaskCancelled(self.task.id, self.task.cancel_by, self.task.cancel_why)
        if self.task.state != "succeeded":
            raise TaskFailed(self.task.id, self.task.reason, self.task.error)
        return msgspec.json.decode(self.task.result or "null")

    @property
    def kinds(self) -> list[str]:
        """The kinds of its events, in order."""
        return [event.kind for event in self.events]

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """The bodies of its events of one kind."""
        return [msgspec.json.decode(e.body) for e in self.events if e.kind == kind]


def run(
    agent: Callable[..., Any] | AgentSpec,
    arguments: Mapping[str, Any] | None = None,
    *,
    crash_after: int | None = None,
) -> Ran:
    """Run an agent to its end, or till a person must decide, on a store of its own.

    `crash_after`: its worker dies as soon as event number n is on the log, and another goes on.
    Raises TimeoutError if it does not come to an end.
    """
    spec = spec_of(agent)
    app = App()
    app.agents[spec.name] = spec
    with Harness(app) as harness:
        task_id = harness.submit(spec.name, arguments)
        return harness.run(task_id, crash_after=crash_after)


def spec_of(agent: Callable[..., Any] | AgentSpec) -> AgentSpec:
    """The agent that a function is, as decorated; with the defaults if it is not."""
    if isinstance(agent, AgentSpec):
        return agent
    found = getattr(agent, "__outlast__", None)
    return found if isinstance(found, AgentSpec) else agent_spec(agent)


class Harness:
    """A store on a file, workers of this process, and a clock that is moved by hand.

    `db`: another database, whose clock `clock` moves. `worker_options`: of every worker made here,
    as those of `outlast.worker.worker.Worker`.
    """

    def __init__(
        self,
        app: App,
        folder: Path | str | None = None,
        *,
        db: str | None = None,
        clock: HandClock | None = None,
        **worker_options: Any,
    ) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if db is None and folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="outlast-")
            folder = self._folder.name
        self.app = app
        self.db = db or f"sqlite:{Path(folder or '.') / 'outlast.db'}"
        self.clock = clock or HandClock()
        self.env = Env(self.clock, Random(7))
        # What stands between a worker and its store: a test may lose answers there.
        self.through: Callable[[Store], Store] = lambda store: store
        self.store = open_store(self.db, env=self.env, create=self.db.startswith("sqlite:"))
        self.workers: list[HandWorker] = []
        self._worker_options = worker_options

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker where it stands, and clear the store away."""
        for worker in self.workers:
            worker.bury()
        self.store.close()
        if self._folder is not None:
            self._folder.cleanup()

    # -- what a client does -----------------------------------------------------------------------

    def submit(self, agent: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Submit a task; its id. `options`: fields of `NewTask`."""
        text = self.app.spec(agent).input_text(arguments or {})
        new = NewTask(id=self.env.new_id(), agent=agent, input=text, by="test", **options)
        return self.store.submit([new])[0].task.id

    def signal(self, task_id: str, name: str, payload: Any = None) -> None:
        text = Codec().write(payload, "the payload")
        self.clock.move(1)  # so that what is sent later is later
        self.store.signal(task_id, Signal(self.env.new_id(), task_id, name, text, "test", 0))

    def cancel(self, task_id: str, reason: str = "a test wants it") -> str:
        return self.store.cancel(task_id, Order("test", reason)).state

    def ran(self, task_id: str) -> Ran:
        """What has become of a task by now."""
        events = self.store.read(task_id, limit=limits.READ_BATCH)
        effects = self.store.find_effects(EffectQuery(task_id=task_id, limit=1_000))
        return Ran(self.store.get(task_id), events, effects)

    # -- workers ----------------------------------------------------------------------------------

    def worker(self, **options: Any) -> HandWorker:
        """Another worker. `crash_after`: it dies once event n of any task is on its log."""
        worker = HandWorker(self, **{**self._worker_options, **options})
        self.workers.append(worker)
        return worker

    @property
    def living(self) -> list[HandWorker]:
        return [worker for worker in self.workers if worker.alive]

    # -- time -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that needs no move of the clock."""
        deadline = time.monotonic() + REAL_LIMIT_S
        quiet = 0
        while quiet < 3:
            busy = [worker.turn() for worker in self.living]
            quiet = 0 if any(busy) else quiet + 1
            if time.monotonic() > deadline:
                raise TimeoutError(f"the agents did not come to rest in {REAL_LIMIT_S:g} s")

    def move(self, duration: Duration) -> None:
        """Move the clock, in steps that leave every heartbeat its time; then let all happen."""
        left_ms = duration_ms(duration, "a move of the clock")
        while True:
            self.settle()
            if left_ms <= 0:
                return
            step_ms = min(left_ms, self._step_ms())
            self.clock.move(step_ms)
            left_ms -= step_ms

    def jump(self, duration: Duration) -> None:
        """Move the clock at one go, as if all of us had been frozen."""
        self.clock.move(duration_ms(duration, "a jump of the clock"))

    def run(self, task_id: str, *, crash_after: int | None = None) -> Ran:
        """Workers until the task has ended, or is in review; the clock moves as it must."""
        if not self.living or crash_after is not None:
            self.worker(crash_after=crash_after)
        for _ in range(MOVES_MAX):
            self.settle()
            if self.store.get(task_id).ended or self.store.get(task_id).state == "review":
                return self.ran(task_id)
            if not self.living:
                self.worker()
            else:
                self._move_on(task_id)
        raise TimeoutError(f"task {task_id} has not ended: {self.store.get(task_id).state}")

    def _move_on(self, task_id: str) -> None:
        """To the next moment at which something is due; none: the agent waits for the world."""
        due_ms = self._next_due_ms()
        if due_ms is not None:
            self.clock.move(max(1, min(due_ms - self.clock.now_ms, self._step_ms())))
        elif self.store.get(task_id).state == "waiting":
            raise TimeoutError(f"task {task_id} waits for a signal that nobody sends")
        else:
            time.sleep(REAL_WAIT_S)

    def _next_due_ms(self) -> int | None:
        now_ms = self.clock.now_ms
        look = self.store.look(["default"], sorted(self.app.agents))
        moments = [look.next_due_ms] if look.next_due_ms is not None else []
        moments += [m for worker in self.living if (m := worker.next_timer_ms) is not None]
        held_here = {h.task_id for worker in self.living for h in worker.worker.holdings.all()}
        for held in self.store.find(Query(states=("running",))):
            if held.lease is not None and held.task.id not in held_here:
                moments.append(held.lease.expires_ms + 1)
        return min((m for m in moments if m > now_ms), default=now_ms + 1 if moments else None)

    def _step_ms(self) -> int:
        """How far the clock may move with a heartbeat in between where leases are held."""
        ttls = [h.ttl_ms for worker in self.living for h in worker.worker.holdings.all()]
        return min(ttls, default=10 * limits.DURATION_MAX_MS) // limits.BEATS_PER_TTL


class HandWorker:
    """A worker whose parts are ticked by hand. `alive`: it has neither left nor crashed.

    `exit_code`: of a worker that has left. `told`: what it said, as (kind, facts).
    """

    def __init__(self, harness: Harness, *, crash_after: int | None = None, **options: Any) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.exit_code: int | None = None
        self.crashed = False
        self._crash_after = crash_after
        self._harness = harness
        self.worker = Worker(
            harness.app,
            self._open,
            harness.env,
            on_event=lambda kind, facts: self.told.append((kind, facts)),
            leave=self._leave,
            **options,
        )
        self.worker.enlist()

    @property
    def alive(self) -> bool:
        return self.exit_code is None and not self.crashed

    @property
    def next_timer_ms(self) -> int | None:
        return self.worker.timers.next_ms

    def order_drain(self, by: str = "test") -> None:
        """As SIGTERM would."""
        self.worker.order_drain(by)

    def hurry(self, by: str = "test") -> None:
        """As a second SIGTERM would."""
        self.worker.hurry(by)

    def crash(self) -> None:
        """Die here: nothing more of it is written, and none of its code runs on."""
        self.crashed = True
        self.worker.writer.cut = True
        _graves.append(self.worker)

    def turn(self) -> bool:
        """Let each part tick, and the event loop run what it can; whether there was anything."""
        worker = self.worker
        for part in (worker.writer, worker.watch, worker.heart, worker.lookout):
            if self.alive:
                _tick(part)
        if not self.alive:
            return False
        worker.loop.run_until_complete(_passes())
        if worker.has_left and self.exit_code is None:
            self.exit_code = worker.exit_code()
            worker.writer.ask(lambda store: store.retire(worker.id))
            _tick(worker.writer)
            return False
        return self._busy()

    def bury(self) -> None:
        """Close what can be closed without running code of the agents."""
        worker = self.worker
        for part in (worker.writer, worker.heart, worker.lookout):
            part.close()
        if not self.crashed and not worker.holdings.all():
            worker.loop.close()
        else:
            _graves.append(worker)

    def _busy(self) -> bool:
        loop: Any = self.worker.loop
        attempts = [h.attempt for h in self.worker.holdings.all() if h.attempt is not None]
        if any(attempt.threads.busy for attempt in attempts):
            time.sleep(REAL_WAIT_S)
            return True
        if any(not timer.cancelled() for timer in loop._scheduled):
            # The agent sleeps by asyncio itself: in real time.
            loop.run_until_complete(asyncio.sleep(REAL_WAIT_S))
            return True
        return bool(loop._ready) or not self.worker.writer.idle

    def _open(self) -> Store:
        store = self._harness.through(open_store(self._harness.db, env=self._harness.env))
        if self._crash_after is None:
            return store
        return Mortal(store, self._crash_after, self.crash)  # type: ignore[return-value]

    def _leave(self, code: int) -> None:
        """Where a process would end: from here on nothing of it runs."""
        self.exit_code = code
        self.worker.writer.cut = True
        _graves.append(self.worker)


class Mortal:
    """A store whose worker dies once event `after` of a task is on the log."""

    def __init__(self, store: Store, after: int, die: Callable[[], None]) -> None:
        self._store = store
        self._after = after
        self._die = die

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, claim: Any) -> list[Grant]:
        grants = self._store.claim(claim)
        if any(grant.event.seq >= self._after for grant in grants):
            self._end()
        return grants

    def append(self, offers: list[Offer]) -> Any:
        return self._watched(offers, lambda: self._store.append(offers))

    def begin(self, offer: Offer) -> Any:
        return self._watched([offer], lambda: self._store.begin(offer))

    def transact(self, work: Callable[[Any], Offer]) -> Any:
        answer = self._store.transact(work)
        if isinstance(answer, Written) and answer.seq >= self._after:
            self._end()
        return answer

    def _watched(self, offers: list[Offer], act: Callable[[], Any]) -> Any:
        if any(offer.entries[0].event.seq > self._after for offer in offers):
            self._end()
        answer = act()
        if any(offer.last.seq >= self._after for offer in offers):
            self._end()
        return answer

    def _end(self) -> None:
        self._die()
        raise Unavailable("this worker", "it has been ended by a test")


async def _passes() -> None:
    for _ in range(PASSES):
        await asyncio.sleep(0)


def _tick(part: Any) -> None:
    try:
        part.tick()
    except Unavailable:
        return


if "pytest" in sys.modules:
    import pytest

    @pytest.fixture
    def outlast_harness(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
        """A function that makes a `Harness` for an app, cleared away after the test."""
        made: list[Harness] = []

        def make(app: App, **options: Any) -> Harness:
            folder = tmp_path / f"store-{len(made)}"
            folder.mkdir()
            made.append(Harness(app, folder, **options))
            return made[-1]

        yield make
        for harness in made:
            harness.close()
