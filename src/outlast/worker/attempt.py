"""One lease, one run of an agent: from the grant to the outcome.

    grant ─► recall ─► live ─► end everything ─► conclude
             (replay)    │                          │
                         └─ orders to stop ─────────┘  one offer says how it ended

The attempt is the only one who writes for its lease, with its own pen. Orders come from other
threads through its `Holding`; agent code hears them as `AttemptEnded` at its next call, or as a
cancelled coroutine.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core import chain, limits
from ..core.errors import (
    AttemptEnded,
    BrokenChain,
    NotSerializable,
    ReplayMismatch,
    Unavailable,
)
from ..core.model import IN_DOUBT, Answer, Event, Turned, Written
from ..core.replay import Call, Kind, Memory
from ..store.verbs import EffectQuery
from . import tracing
from .app import BadInput
from .context import Context, PlainContext
from .current import current_context
from .holding import Holding
from .outcome import (
    Doubt,
    Late,
    Outcome,
    Raised,
    Returned,
    Review,
    Stopped,
    cancelled,
    decided,
    drafts_of,
    is_final,
    released,
)
from .reply import Reply, Value
from .stop import Cause, Stop
from .threads import Threads
from .workplace import Workplace
from .writer import Draft, Pen, draft

if TYPE_CHECKING:
    from .waits import Waiting

# How often a branch lets its siblings run before the first new act of a life: what they still
# answer from the log then counts as replayed.
YIELDS = 3


class Attempt:
    """Runs the agent of one grant. `intents`: effects that were begun and have no outcome yet."""

    def __init__(self, holding: Holding, workplace: Workplace) -> None:
        self.holding = holding
        self.workplace = workplace
        self.hear = workplace.ear.hear
        self.task = holding.grant.task
        self.spec = holding.spec
        self.epoch = holding.grant.lease.epoch
        self.pen = Pen(holding.grant, workplace.worker_id)
        self.memory = Memory()
        self.threads = Threads(workplace.loop)
        self.tasks: set[asyncio.Task[Any]] = set()
        self.parked: set[asyncio.Task[Any]] = set()
        self.open_calls = 0
        self.waits: set[Waiting] = set()
        self.signals_taken: set[str] = set()
        self.intents: dict[str, Doubt] = {}
        self.review: Review | None = None
        self.has_restored = False  # whether the agent has looked at the state of its checkpoint
        self._pauses: set[asyncio.Future[None]] = set()
        self._stirrable: set[asyncio.Future[None]] = set()
        self._replay_told = self.epoch == 1
        self._told = False  # whether the order to stop was raised into the agent
        self.late: list[Late] = []
        self._unanswered: set[Reply[Any]] = set()
        self._acknowledging: asyncio.Task[Stop] | None = None
        self._concluding = False
        self._agent: asyncio.Task[Outcome] | None = None
        holding.attempt = self
        holding.deliver = lambda: self._post(self.obey)

    async def run(self) -> None:
        """Live it to its end, and write down how it ended."""
        tell, facts = self.workplace.tell, self.facts()
        if self.holding.stop is not None:
            await self._give_back_unstarted()
            return
        began = {**facts, "reason": self.holding.grant.reason}
        tell("attempt.started", began)
        with tracing.attempt(began):
            outcome = self._decided(await self._live())
        await self._end_everything(outcome)
        self._concluding = True
        await self._conclude(self._decided(outcome))
        tell("attempt.ended", {**facts, "outcome": _word(self._decided(outcome))})

    def _decided(self, outcome: Outcome) -> Outcome:
        return decided(outcome, self.holding.stop, told=self._told)

    def facts(self) -> dict[str, Any]:
        return {"task": self.task.id, "agent": self.task.agent, "epoch": self.epoch}

    @property
    def replaying(self) -> bool:
        """Whether the agent is still on a way that the log has seen it go."""
        return not self._replay_told and bool(self.memory.unused())

    # -- recall -----------------------------------------------------------------------------------

    async def _recall(self) -> None:
        """Read what the lives before this one have recorded, from the last checkpoint on.

        Nothing is done on the word of a log that somebody has edited.
        """
        if self.epoch == 1:
            return
        checkpoint = await self.ask(lambda store: store.last(self.task.id, "checkpoint"))
        # With the event before it, whose digest that of the checkpoint is made with.
        after, before = (checkpoint.seq - 2, None) if checkpoint else (0, chain.ZEROS)
        while after < self.holding.grant.event.seq:
            self.check(drain=False)
            events = await self.ask(lambda store, at=after: store.read(self.task.id, after=at))
            if not events:
                break
            after = events[-1].seq
            if before is None:
                before, events = events[0].digest, events[1:]
            before = self._verified(before, events)
            self.memory.learn(events)
        query = EffectQuery(task_id=self.task.id, states=sorted(IN_DOUBT), limit=1_000)
        self.memory.learn_ledger(await self.ask(lambda store: store.find_effects(query)))
        for key, (name, tool) in self.memory.open_effects.items():
            self.intents[key] = Doubt(key, name, tool)

    def _verified(self, before: str, events: Sequence[Event]) -> str:
        """The last digest of a page in which each follows from the one before; else a review."""
        try:
            for event in events:
                before = chain.follow(before, event)
        except BrokenChain as broken:
            raise self.hand_to_a_person(Review("replay_mismatch", broken)) from broken
        return before

    async def ask(self, call: Any) -> Any:
        """`call(store)` on the writer's thread, again until the store can be reached."""
        while True:
            try:
                return await self.hear(self.workplace.writer.ask(call))
            except Unavailable:
                await self.workplace.timers.sleep(limits.RESEND_MAX_MS)

    # -- live -------------------------------------------------------------------------------------

    async def _live(self) -> Outcome:
        context = contextvars.copy_context()
        context.run(current_context.set, Context(self))
        self.holding.acting = True
        timer = None
        if self.spec.timeout_ms is not None:
            timer = self.workplace.timers.after(self.spec.timeout_ms, self._time_out)
        self._agent = self.workplace.loop.create_task(self._call_agent(), context=context)
        await asyncio.wait({self._agent})
        if timer is not None:
            timer.cancel()
        return self._agent.result()

    async def _call_agent(self) -> Outcome:
        """The agent's own words, as a value: nothing that it raises may reach the event loop."""
        try:
            await self._recall()
            arguments = self.spec.bind(self.task.input)
            return Returned(self.spec.result_text(await self._call_function(arguments)))
        except BadInput as error:
            return Raised(error, "bad_input")
        except AttemptEnded as error:
            return self._stopped(error)
        except asyncio.CancelledError as error:
            return self._stopped(error)
        except BaseException as error:
            return Raised(error)

    async def _call_function(self, arguments: dict[str, Any]) -> Any:
        context = current_context.get()
        assert context is not None
        if self.spec.is_async:
            return await self.spec.function(context, **arguments)
        self._park()
        plain = PlainContext(context, self.workplace.loop)
        return await self.threads.call(self.spec.function, plain, **arguments)

    def _stopped(self, error: BaseException) -> Outcome:
        # Without an order it is the agent's own doing: it cancelled itself.
        stop = self.holding.stop
        return Stopped(stop) if stop is not None else Raised(error)

    def _park(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self.parked.add(task)

    # -- what agent code does ---------------------------------------------------------------------

    def numbered(self, kind: Kind, name: str, arguments: str = "", key: str = "") -> Call:
        """The next call of that name, and what the log has for it."""
        self.check_restored(name)
        return self.memory.call(kind, name, arguments, key)

    def check_restored(self, name: str) -> None:
        """Whether the agent knows of its checkpoint, before it does anything after that.

        From its top on it would do again, under new names, what was done before.
        """
        if self.memory.state is not None and not self.has_restored:
            why = "comes before the agent has looked at ctx.restored, where its checkpoint is"
            raise self.mismatch(name, why)

    def mismatch(self, key: str, why: str) -> BaseException:
        """Hand the task to a person: what the agent asks is not what it asked before."""
        return self.hand_to_a_person(Review("replay_mismatch", ReplayMismatch(key, why)))

    def hand_to_a_person(self, review: Review) -> BaseException:
        """End the attempt with a review; the first reason counts, doubts of branches add up."""
        before = self.review
        if before is None:
            self.review = review
        elif before.why == review.why == "effect_unknown":
            self.review = before.with_keys(review.keys)
        self.holding.order(Stop(Cause.REVIEW, str(review.error)))
        stop = self.holding.stop
        assert stop is not None
        return stop.as_error()

    def check(self, *, drain: bool = True) -> None:
        """Raise what stands against going on. `drain`: whether a hand-over counts."""
        if not self.holding.trusted():
            self.holding.order(Stop(Cause.TRUST, "the lease can no longer be trusted"))
        stop = self.holding.stop
        if stop is not None and (drain or stop.cause is not Cause.DRAIN):
            self._told = True
            raise stop.as_error()

    async def write(self, *drafts: Draft) -> Written:
        """Append events; they are on the log when this returns. Raises AttemptEnded."""
        told = await self.first_act()
        asked = self.track(self.workplace.writer.append(self.pen, *told, *drafts))
        answer = await self.hear(asked)
        return self.accepted(answer, told)

    def track(self, asked: Reply[Value]) -> Reply[Value]:
        """Remember what was sent: how the attempt ended is said when all of it is answered."""
        self._unanswered.add(asked)
        asked.add_done_callback(self._unanswered.discard)
        return asked

    async def first_act(self) -> tuple[Draft, ...]:
        """What must be on the log before the first new act of a life: that replay has ended."""
        for _ in range(0 if self._replay_told else YIELDS):
            await asyncio.sleep(0)
        if self._replay_told:
            return ()
        self._replay_told = True
        return (self._replay_finished(),)

    def accepted(self, answer: Answer | None, told: tuple[Draft, ...] = ()) -> Written:
        """The answer, if it is a yes; else the attempt must stop, and AttemptEnded is raised."""
        if isinstance(answer, Written):
            self.holding.progress_ms = self.holding.clock.monotonic_ms()
            return answer
        self.untell(told)
        if answer is not None and answer.why == "invalid":
            raise NotSerializable("an event", answer.detail)
        if answer is not None and answer.why == "cancel_asked":
            self.holding.order(Stop(Cause.CANCEL, answer.detail))
        else:
            self.holding.order(Stop(Cause.LOST, answer.detail if answer else "nothing was written"))
        stop = self.holding.stop
        assert stop is not None
        raise stop.as_error()

    def untell(self, told: tuple[Draft, ...]) -> None:
        """What `first_act` gave was not written after all."""
        self._replay_told = self._replay_told and not told

    async def pause(self, ms: int, *, till_stirred: bool = False) -> None:
        """Wait in place; an order to stop ends it. `till_stirred`: so does the end of a branch."""
        self.check()
        # A future, no task: tasks count as something of the attempt that runs.
        woken = self.workplace.loop.create_future()
        pauses = self._stirrable if till_stirred else self._pauses
        pauses.add(woken)
        timer = self.workplace.timers.after(ms, lambda: _wake(woken))
        try:
            await woken
        finally:
            timer.cancel()
            pauses.discard(woken)
        self.check()

    def task_ended(self, task: asyncio.Task[Any]) -> None:
        """A task of the attempt has ended: a wait may be the last that runs now."""
        self.tasks.discard(task)
        for each in list(self._stirrable):
            _wake(each)

    def _replay_finished(self) -> Draft:
        memory = self.memory
        body = {
            "through": memory.through,
            "answered": memory.answered,
            "unused": memory.unused(),
            "changed": memory.changed,
            "suppressed": memory.suppressed,
        }
        return draft("replay.finished", body)

    # -- orders -----------------------------------------------------------------------------------

    def _time_out(self) -> None:
        self.holding.order(
            Stop(Cause.TIMED_OUT, f"the attempt took longer than {self.spec.timeout_ms} ms")
        )

    def obey(self) -> None:
        """On the event loop: make the running code notice the order."""
        stop = self.holding.stop
        for each in [*self._pauses, *self._stirrable]:
            _wake(each)
        if stop is None or not stop.at_once or self._concluding:
            return
        if stop.cause is Cause.CANCEL and self._acknowledging is None and not self.pen.closed:
            self._acknowledging = self.workplace.loop.create_task(self._acknowledge(stop))
        if self._agent is not None and not self._agent.done():
            self._told = True
            self._agent.cancel()

    async def _acknowledge(self, stop: Stop) -> Stop:
        """Say on the log that the request was heard, while the agent still ends; the request."""
        stop = await self._with_asker(stop)
        body = {"by": stop.by, "why": stop.why, "asked_ms": stop.asked_ms}
        await self._offer([draft("cancel.acknowledged", body)])
        return stop

    async def _with_asker(self, stop: Stop) -> Stop:
        """Who asked, and when: a refused write does not say it."""
        if stop.asked_ms is not None:
            return stop
        task = await self.ask(lambda store: store.get(self.task.id))
        return Stop(Cause.CANCEL, task.cancel_why or stop.why, task.cancel_by, task.cancel_ms)

    def _post(self, call: Any) -> None:
        try:
            # Not in the context of whoever orders: what it starts is not the agent's.
            self.workplace.loop.call_soon_threadsafe(call, context=contextvars.Context())
        except RuntimeError:  # the loop has been closed: the process is on its way out
            return

    # -- the end ----------------------------------------------------------------------------------

    async def _end_everything(self, outcome: Outcome) -> None:
        """Nothing of the attempt may run when its lease is given to another.

        A task that has ended is given to nobody, so what is left of it is waited for only briefly.
        The watch ends the worker if this takes longer than `kill_after`.
        """
        kill_after_ms = self.spec.kill_after_ms
        ended = asyncio.ensure_future(self._nothing_runs())
        if is_final(outcome, self.task, self.spec.retry):
            briefly = asyncio.ensure_future(self.workplace.timers.sleep(kill_after_ms))
            await asyncio.wait({ended, briefly}, return_when=asyncio.FIRST_COMPLETED)
            briefly.cancel()
            if not ended.done():
                self.workplace.tell("attempt.left_running", self.facts())
        else:
            self.holding.end_by_ms = self.holding.clock.monotonic_ms() + kill_after_ms
            await ended
        self.holding.acting = False

    async def _nothing_runs(self) -> None:
        """Cancel what is left, what that starts in its turn included, and see it end."""
        while self.tasks or self.threads.running:
            left = set(self.tasks)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
            await self.threads.wait()

    async def _conclude(self, outcome: Outcome) -> None:
        """Write the outcome, in one offer with what was learned too late to be written before."""
        if isinstance(outcome, Stopped) and self._acknowledging is not None:
            outcome = Stopped(await self._acknowledging)
        for asked in list(self._unanswered):
            with contextlib.suppress(Exception):  # its own caller has it, or is gone
                await self.hear(asked)
        answer = await self._offer_outcome(self._drafts(outcome))
        if isinstance(answer, Turned) and answer.why == "cancel_asked":
            stop = await self._with_asker(Stop(Cause.CANCEL, answer.detail))
            drafts = cancelled(stop, list(self.intents.values()), acknowledged=False)
            answer = await self._offer_outcome(drafts)
        if isinstance(answer, Turned):
            self.workplace.tell("attempt.refused", {**self.facts(), "why": answer.detail})
            await self._observe_late()

    def _drafts(self, outcome: Outcome) -> list[Draft]:
        return drafts_of(
            outcome,
            self.task,
            self.spec.retry,
            self.workplace.env.random,
            self.workplace.store_clock.now_ms(),
            list(self.intents.values()),
            self.review,
        )

    async def _offer_outcome(self, drafts: list[Draft]) -> Answer | None:
        if self.pen.lost is not None:
            return Turned("lost", self.pen.lost)
        if not drafts or self.pen.let_go:
            return None
        late = [each.draft for each in self.late if each.draft is not None]
        return await self._offer([*late, *drafts])

    async def _observe_late(self) -> None:
        """Keep what this zombie knows: an effect of it that has reached the world."""
        for late in self.late:
            await self.observe(late.key, late.result)

    async def observe(self, key: str, result: Any) -> None:
        """Tell the store, outside the log, that an effect of a lost lease was applied."""
        await self.ask(
            lambda store: store.observe(
                self.task.id, self.epoch, self.workplace.worker_id, key, applied=True, result=result
            )
        )

    async def _offer(self, drafts: list[Draft]) -> Answer:
        """Write how it ended; sent again until it is answered, however long the store is away."""
        releases = all(each.kind == "lease.released" for each in drafts)
        told = () if releases else await self.first_act()
        answer = await self.hear(self.workplace.writer.append(self.pen, *told, *drafts))
        if isinstance(answer, Turned):
            self.untell(told)
        return answer

    async def _give_back_unstarted(self) -> None:
        """A claim that was never begun goes back without a trace in the counts."""
        await self._offer_outcome(released("unstarted"))
        self.workplace.tell("attempt.unstarted", self.facts())


def _wake(paused: asyncio.Future[None]) -> None:
    if not paused.done():
        paused.set_result(None)


def _word(outcome: Outcome) -> str:
    match outcome:
        case Returned():
            return "succeeded"
        case Raised(_, reason):
            return reason
        case Stopped(stop):
            return stop.cause.name.lower()
