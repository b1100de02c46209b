"""A worker process: slots, threads, signals, and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..core import limits
from ..core.clock import Env
from ..core.errors import BadSetting, Unavailable
from ..core.model import Grant
from ..core.model import Worker as WorkerRow
from ..store.open import open_store
from ..store.verbs import AgentLimits, Store
from .app import App
from .attempt import Attempt
from .current import current_context
from .drain import EXIT_LOST, EXIT_UNAVAILABLE, Drain, Phase
from .heartbeat import Heart
from .holding import Holding, Holdings
from .lookout import Lookout
from .loop import Loop
from .outcome import released
from .parent import Parent
from .reply import Ear
from .signals import Signals
from .stop import Cause, Stop
from .store_clock import StoreClock
from .thaw import WakefulSelector
from .threads import FollowedPool
from .timers import Timers
from .watch import LOOK_MS, Watch
from .workplace import OnEvent, Workplace
from .writer import Writer


def run(
    app: App,
    *,
    db: str,
    queues: Sequence[str] = ("default",),
    slots: int = 10,
    ttl_ms: int = limits.TTL_MS,
    grace_ms: int = limits.GRACE_MS,
    poll_ms: int = limits.POLL_MS,
    build: str = "",
    env: Env | None = None,
    on_event: OnEvent | None = None,
    worker_id: str | None = None,
    parent: Parent | None = None,
) -> int:
    """Run a worker in this process until it is told to stop; the exit code.

    0: everything was handed over. 75: the grace ended first. 70: it ended itself after losing its
    leases. 69: the store could not be reached. SIGTERM and SIGINT drain, a second one ends at once.
    `on_event(kind, facts)`: called on some thread of the worker for each thing worth telling.
    `worker_id`, `parent`: as its supervisor names it, and that supervisor.
    Raises BadSetting, SchemaMismatch.
    """
    env = env or Env()

    def opened() -> Store:
        return open_store(db, env=env, create=db.startswith("sqlite:"), ttl_ms=ttl_ms)

    worker = Worker(
        app,
        opened,
        env,
        queues=queues,
        slots=slots,
        ttl_ms=ttl_ms,
        grace_ms=grace_ms,
        poll_ms=poll_ms,
        build=build,
        on_event=on_event,
        worker_id=worker_id,
        parent=parent,
    )
    return worker.run()


class Worker:
    """One worker: its parts, and what they tell each other.

    `run` drives each part on a thread of its own; a test may call their ticks by hand instead.
    `leave(code)`: ends the process when nothing else will.
    """

    def __init__(
        self,
        app: App,
        open_store: Callable[[], Store],
        env: Env,
        *,
        queues: Sequence[str] = ("default",),
        slots: int = 10,
        ttl_ms: int = limits.TTL_MS,
        grace_ms: int = limits.GRACE_MS,
        poll_ms: int = limits.POLL_MS,
        build: str = "",
        on_event: OnEvent | None = None,
        leave: Callable[[int], None] = os._exit,
        worker_id: str | None = None,
        parent: Parent | None = None,
    ) -> None:
        _check(app, queues, slots, ttl_ms, grace_ms, poll_ms)
        self.app, self.env, self.id = app, env, worker_id or env.new_id()
        self._parent = parent
        self.row = WorkerRow(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            build=build,
            queues=msgspec.json.encode(list(queues)).decode(),
            agents=msgspec.json.encode(sorted(app.agents)).decode(),
            slots=slots,
            ttl_ms=ttl_ms,
            grace_ms=grace_ms,
            state="active",
            started_ms=0,
            beat_ms=0,
        )
        self.drain = Drain(grace_ms)
        self.holdings = Holdings()
        selector = WakefulSelector(env.clock, self._look_first)
        self.loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop(selector)
        self.loop.set_task_factory(_task_of_attempt)
        self.loop.set_default_executor(FollowedPool(thread_name_prefix="outlast-pool"))
        self._open_store, self._on_event, self._leave_process = open_store, on_event, leave
        self._cut_off = 0
        self._left = asyncio.Event()
        self._leaving = False
        self._lock = threading.RLock()
        self._loops: list[Loop] = []
        self._running: set[asyncio.Task[None]] = set()
        self._make_parts(queues, poll_ms)

    def _make_parts(self, queues: Sequence[str], poll_ms: int) -> None:
        clock = self.env.clock
        self.store_clock = StoreClock(clock)
        self.timers = Timers(clock)
        self.timers.post = self._post
        self.writer = Writer(self._open_store, self.store_clock)
        self.watch = Watch(
            self.holdings,
            self.timers,
            clock,
            post=self._post,
            end=self._end_for,
            look_at_drain=self._look_at_drain,
        )
        self.heart = Heart(
            self.id,
            self.holdings,
            self._open_store,
            clock,
            self.store_clock,
            ttl_ms=self.row.ttl_ms,
            on_drain=self.order_drain,
            on_unknown=lambda store: self._enlist(store),
            blocked_ms=self.watch.take_blocked_ms,
            tell_failure=lambda error: self.tell("heartbeat.failed", {"why": str(error)}),
        )
        agents = {
            name: AgentLimits(spec.max_resumes, spec.max_expiries)
            for name, spec in self.app.agents.items()
        }
        self.lookout = Lookout(
            self.row,
            agents,
            tuple(queues),
            self.holdings,
            self._open_store,
            self.env,
            self.store_clock,
            poll_ms=poll_ms,
            may_claim=self._may_claim,
            hold=self._hold,
            start=lambda holdings: self._post(lambda: self._start(holdings)),
            tell=self.tell,
        )
        self.workplace = Workplace(
            self.id,
            self.env,
            self.loop,
            Ear(self.loop),
            self.writer,
            self.timers,
            self.store_clock,
            self.tell,
            poll_ms,
        )

    # -- from start to end ------------------------------------------------------------------------

    def run(self) -> int:
        """Enlist, work until the drain has ended, retire; the exit code."""
        try:
            return self._work() if self._is_enlisted() else EXIT_UNAVAILABLE
        finally:
            self.loop.close()

    def _work(self) -> int:
        with Signals(self._hear_signal, self._parent, self._orphaned):
            self._start_threads()
            self.loop.run_until_complete(self._left.wait())
            return self._part()

    def _is_enlisted(self) -> bool:
        try:
            self.enlist()
        except Unavailable as error:
            self.tell("worker.unavailable", {"why": str(error)})
            return False
        return True

    def enlist(self) -> None:
        """Make this worker known. Raises Unavailable, SchemaMismatch."""
        store = self._open_store()
        try:
            self._enlist(store)
            self.store_clock.tell(store.now_ms())
        finally:
            store.close()
        facts = {"worker": self.id, "host": self.row.host, "pid": self.row.pid}
        self.tell("worker.started", {**facts, "build": self.row.build})

    def _enlist(self, store: Store) -> None:
        if not self.drain.asked:
            store.enlist(self.row)

    def _start_threads(self) -> None:
        parts: list[tuple[str, Any]] = [
            ("writer", self.writer),
            ("heartbeat", self.heart),
            ("watch", self.watch),
            ("lookout", self.lookout),
        ]
        for name, part in parts:
            close = getattr(part, "close", lambda: None)
            hints = part if part is self.lookout else None
            loop = Loop(name, part.tick, on_trouble=self._trouble, on_end=close, hints=hints)
            self._loops.append(loop)
        self._writer_loop, self._heart_loop, self._watch_loop, self._lookout_loop = self._loops
        self.writer.wake = self._writer_loop.wake
        self.timers.wake = self._watch_loop.wake
        for each in self._loops:
            each.start()

    def _part(self) -> int:
        """Everything is handed over: stop the threads, tell the store, leave."""
        deadline_ms = limits.LAST_WORDS_MS // 2
        self._watch_loop.stop(deadline_ms)
        self._lookout_loop.stop(deadline_ms)
        self._heart_loop.stop(deadline_ms)
        self._retire(deadline_ms)
        self._writer_loop.stop(deadline_ms)
        return self.exit_code()

    @property
    def has_left(self) -> bool:
        """Whether there is nothing more to hand over."""
        return self._left.is_set()

    def exit_code(self) -> int:
        """What to exit with; told to whoever watches."""
        left_behind = [holding.task_id for holding in self.holdings.all()]
        code = self.drain.exit_code(cut_off=self._cut_off, left_behind=len(left_behind))
        self.tell(
            "worker.ended", {"code": code, "cut_off": self._cut_off, "left_behind": left_behind}
        )
        return code

    def _retire(self, wait_ms: int) -> None:
        retired = self.writer.ask(lambda store: store.retire(self.id))
        try:
            retired.result(wait_ms / 1_000)
        except (Unavailable, TimeoutError) as error:
            self.tell("worker.not_retired", {"why": str(error) or "the store did not answer"})

    # -- tasks ------------------------------------------------------------------------------------

    def _may_claim(self) -> bool:
        """Not while leaving, nor while no heartbeat comes through: it would be lost again."""
        return not self.drain.asked and self.heart.silent_ms < self.row.ttl_ms

    def _hold(self, grant: Grant, trusted_until_ms: int) -> Holding:
        holding = Holding(
            grant, self.app.agents[grant.task.agent], self.env.clock, trusted_until_ms
        )
        self.holdings.add(holding)
        return holding

    def _start(self, holdings: Sequence[Holding]) -> None:
        for holding in holdings:
            attempt = Attempt(holding, self.workplace)
            task = self.loop.create_task(self._run(attempt))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, attempt: Attempt) -> None:
        holding = attempt.holding
        try:
            await attempt.run()
        except Exception as error:
            # A fault of ours: the lease is left to expire, the other attempts go on.
            self._trouble(f"attempt {holding.task_id}", error)
        finally:
            stop = holding.stop
            self._cut_off += stop is not None and stop.cause is Cause.DEADLINE
            self.holdings.drop(holding)
            self._wake_those_who_count()

    def _wake_those_who_count(self) -> None:
        if self._loops:
            self._lookout_loop.wake()
            if self.drain.asked:
                self._watch_loop.wake()

    # -- leaving ----------------------------------------------------------------------------------

    def order_drain(self, by: str) -> None:
        """Hand everything over and leave; from any thread."""
        with self._lock:
            if self.drain.asked:
                return
            self.drain = self.drain.ordered(by, self.env.clock.monotonic_ms())
        self.tell("drain.asked", {"by": by, "held": len(self.holdings.all())})
        self.writer.ask(lambda store: store.retire(self.id, "draining"))
        if self._loops:
            self._watch_loop.wake()

    def _hear_signal(self, number: int) -> None:
        """SIGTERM or SIGINT: the first drains, the second leaves at once."""
        name = signal.Signals(number).name
        if not self.drain.asked:
            self.order_drain(name)
            return
        self.hurry(name)

    def _orphaned(self) -> None:
        """Nobody would see this process die, nor stop it, any more."""
        self.order_drain("the supervisor has died")

    def hurry(self, by: str) -> None:
        """Leave at once; from any thread."""
        with self._lock:
            self.drain = self.drain.hurried(by, self.env.clock.monotonic_ms())
        if self._loops:
            self._watch_loop.wake()

    def _look_at_drain(self) -> int:
        """On the watch's thread: do what the phase asks for; ms until the next may begin."""
        self._look_at_heart()
        now_ms, held = self.env.clock.monotonic_ms(), self.holdings.all()
        drain = self.drain
        match drain.phase(now_ms, len(held)):
            case Phase.WORKING:
                return LOOK_MS
            case Phase.HANDING_OVER:
                self._order_all(Stop(Cause.DRAIN, _by(drain)))
                return max(1, min(LOOK_MS, drain.cut_ms - now_ms))
            case Phase.CUTTING_OFF:
                self._order_all(Stop(Cause.DEADLINE, "the grace has ended"))
                return max(1, min(LOOK_MS, drain.speak_ms - now_ms))
            case Phase.LEAVING:
                return self._leave(held, now_ms)

    def _look_at_heart(self) -> None:
        """Renewals that fail while all else gets through: no lease here is worth anything."""
        ttl_ms = self.row.ttl_ms
        reached = self.lookout.reached_ms >= 2 * ttl_ms and self.lookout.silent_ms < ttl_ms // 2
        if reached and self.heart.refused_alone(self.writer.written_ms):
            self._end_with(EXIT_LOST, "no heartbeat was answered, though the store can be reached")

    def _look_first(self) -> None:
        """On the event loop, first of all after a pause: stop what can be trusted no more."""
        for holding in self.holdings.all():
            if holding.acting and holding.attempt is not None and not holding.trusted():
                holding.order(Stop(Cause.TRUST, "the process has been stopped for too long"))
                holding.attempt.obey()

    def _order_all(self, stop: Stop) -> None:
        for holding in self.holdings.all():
            holding.order(stop)

    def _end_for(self, holding: Holding) -> None:
        """An attempt that must stop does not: its code ends only with the process."""
        said = f"task {holding.task_id} did not stop within {holding.spec.kill_after_ms} ms"
        self._end_with(EXIT_LOST, said)

    def _end_with(self, code: int, why: str) -> None:
        with self._lock:
            if self.drain.code is not None:
                return
            self.drain = self.drain.ending_with(code, why, self.env.clock.monotonic_ms())
        self.tell("worker.unfit", {"why": why, "code": code})
        self.writer.ask(lambda store: store.retire(self.id, "draining"))

    def _leave(self, held: Sequence[Holding], now_ms: int) -> int:
        if not self._leaving:
            self._leaving = True
            if held:
                self._last_words(held)
            else:
                self._post(self._left.set)
        # The event loop may be blocked for ever: then this thread ends the process.
        if held or now_ms >= self.drain.leave_ms:
            self._leave_process(self.exit_code())
        return max(1, min(LOOK_MS, self.drain.leave_ms - now_ms))

    def _last_words(self, held: Sequence[Holding]) -> None:
        """Give back over their heads what has not ended: this process ends in a moment."""
        asked = []
        for holding in held:
            attempt, stop = holding.attempt, holding.stop
            # One that was lost is not ours to give; one that was cancelled must not come back.
            if attempt is None or stop is None or stop.cause not in (Cause.DRAIN, Cause.DEADLINE):
                continue
            if holding.acting:
                self._cut_off += 1
                doubts = list(attempt.intents.values())
                asked.append(
                    (holding, self.writer.append(attempt.pen, *released("deadline", doubts)))
                )
        for holding, answer in asked:
            left_ms = self.drain.leave_ms - self.env.clock.monotonic_ms()
            try:
                answer.result(max(0, left_ms) / 1_000)
                self.holdings.drop(holding)
            except Exception:  # not answered in time, or refused: its lease is left to expire
                continue

    # -- telling ----------------------------------------------------------------------------------

    def tell(self, kind: str, facts: dict[str, Any]) -> None:
        if self._on_event is not None:
            # Whoever watches may break (a closed pipe); no attempt may break with it.
            with contextlib.suppress(Exception):
                self._on_event(kind, facts)

    def _trouble(self, where: str, error: Exception) -> None:
        self.tell("trouble", {"where": where, "error": type(error).__name__, "why": str(error)})

    def _post(self, call: Callable[[], Any]) -> None:
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop has been closed: this worker has left
            return


def _task_of_attempt(
    loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
) -> asyncio.Task[Any]:
    """Makes tasks, and notes which attempt each belongs to: none may outlive its lease."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    found = context.get(current_context) if context is not None else current_context.get()
    if found is not None:
        attempt = found._attempt
        attempt.tasks.add(task)
        task.add_done_callback(attempt.task_ended)
    return task


def _by(drain: Drain) -> str:
    return drain.order.by if drain.order is not None else ""


def _check(
    app: App, queues: Sequence[str], slots: int, ttl_ms: int, grace_ms: int, poll_ms: int
) -> None:
    if not app.agents:
        raise BadSetting("this app has no agents: decorate a function with @app.agent")
    if isinstance(queues, str) or not queues:
        raise BadSetting(f"queues cannot be {queues!r}: it is a list of one name or more")
    if slots < 1:
        raise BadSetting(f"slots cannot be {slots}: a worker needs one or more")
    if not limits.TTL_MIN_MS <= ttl_ms <= limits.TTL_MAX_MS:
        raise BadSetting(
            f"ttl cannot be {ttl_ms} ms: a lease shorter than {limits.TTL_MIN_MS} ms is lost for "
            f"nothing when a heartbeat is late; the longest is {limits.TTL_MAX_MS} ms"
        )
    if grace_ms < 0 or poll_ms < 1:
        raise BadSetting(f"grace ({grace_ms} ms) and poll ({poll_ms} ms) must be positive")
