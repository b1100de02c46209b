"""The writer: one thread and one connection for everything that attempts append.

All that waits at this moment is committed together; a lone entry is not delayed. What was sent and
not answered is sent again byte for byte, and until it is answered nothing else is sent for its
task: that is what makes a lost answer no riddle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import msgspec

from ..core import chain, limits
from ..core.chain import Quote
from ..core.errors import NotSerializable, PayloadTooLarge, Unavailable
from ..core.lifecycle import RESULTS, Body
from ..core.model import Answer, Entry, Grant, Offer, Turned, Written
from ..store.verbs import Begun, Store
from .reply import Reply
from .store_clock import StoreClock

Value = TypeVar("Value")
IDLE_MS = 3_600_000
BODY_BYTES = 4 * limits.PAYLOAD_BYTES
# Events that may share an offer: none of them is ever turned away for what others have asked.
TOGETHER = frozenset({"step.done", "step.failed", "effect.applied", "effect.failed", "note"})


class Draft(msgspec.Struct, frozen=True):
    """An event to be: its place and digest are found when it is committed.

    `lets_go`: after it this epoch may write no more.
    """

    kind: str
    text: str
    lets_go: bool = False


def draft(kind: str, body: Body, *, lets_go: bool = False) -> Draft:
    """A checked event. Raises NotSerializable, PayloadTooLarge before anything is queued."""
    try:
        encoded = msgspec.json.encode(body)
    except (TypeError, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise NotSerializable(f"the body of {kind}", str(error)) from error
    if len(encoded) > BODY_BYTES:
        raise PayloadTooLarge(f"the body of {kind}", len(encoded), BODY_BYTES)
    return Draft(kind, encoded.decode(), lets_go)


class Pen:
    """How one attempt writes. Its quote comes from the grant and from its own accepted offers only.

    Never kept by task: a second attempt of the same task in this process has a pen of its own.
    `lost`: why it writes no more. `progressed`: whether it wrote a result.
    """

    def __init__(self, grant: Grant, worker: str) -> None:
        self.task_id = grant.task.id
        self.epoch = grant.lease.epoch
        self.worker = worker
        self.lost: str | None = None
        self.let_go = False
        self.progressed = False
        self._quote = Quote.of(grant.event)

    @property
    def closed(self) -> bool:
        return self.let_go or self.lost is not None

    def offer(self, drafts: Sequence[Draft], at_ms: int) -> Offer:
        """The drafts as entries that follow what this pen wrote last."""
        quote, entries, progressed = self._quote, list[Entry](), self.progressed
        for each in drafts:
            progressed |= each.kind in RESULTS
            holder = 0 if each.lets_go else self.epoch
            text = _with_progress(each.text, progressed) if each.lets_go else each.text
            entry = chain.entry(
                quote, self.epoch, holder=holder, kind=each.kind, body=text, at_ms=at_ms
            )
            entries.append(entry)
            quote = Quote.of(entry.event)
        return Offer(tuple(entries), self.worker)

    def take(self, offer: Offer, answer: Answer) -> None:
        """Learn from the answer to an offer."""
        if isinstance(answer, Written):
            self._quote = Quote.of(offer.last)
            self.let_go = offer.last.holder == 0
            self.progressed |= any(entry.event.kind in RESULTS for entry in offer.entries)
        elif answer.why in ("lost", "commits_lost"):
            self.lost = answer.detail or answer.why


class Job:
    """Something that the writer's thread is to do; `done` is its reply."""

    def __init__(self, pen: Pen | None) -> None:
        self.pen = pen
        self.done: Reply[Any] = Reply()


class Append(Job):
    def __init__(self, pen: Pen, drafts: tuple[Draft, ...]) -> None:
        super().__init__(pen)
        self.drafts = drafts
        self.alone = not TOGETHER.issuperset([each.kind for each in drafts])


class Begin(Job):
    def __init__(self, pen: Pen, drafts: tuple[Draft, ...]) -> None:
        super().__init__(pen)
        self.drafts = drafts
        self.offer: Offer | None = None


class Transact(Job):
    """`work(connection)` returns the drafts that belong to what it did."""

    def __init__(self, pen: Pen, work: Callable[[Any], tuple[Draft, ...]]) -> None:
        super().__init__(pen)
        self.work = work
        self.offer: Offer | None = None


class Ask(Job):
    def __init__(self, call: Callable[[Store], Any]) -> None:
        super().__init__(None)
        self.call = call


class Sent(msgspec.Struct):
    """An offer on its way, with the jobs that it answers."""

    offer: Offer
    pen: Any
    jobs: list[Any]


class Writer:
    """`append`, `begin`, `transact`, `ask` queue from any thread; `tick` does the work on one."""

    def __init__(self, open_store: Callable[[], Store], clock: StoreClock) -> None:
        self._open_store = open_store
        self._store: Store | None = None
        self._clock = clock
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._unanswered: list[Sent] = []
        self._resend_ms = limits.RESEND_MS
        self.written_ms = clock.monotonic_ms()  # when an append was answered last
        self.wake: Callable[[], None] = lambda: None
        self.cut = False

    def append(self, pen: Pen, *drafts: Draft) -> Reply[Answer]:
        return self._put(Append(pen, drafts))

    def begin(self, pen: Pen, *drafts: Draft) -> Reply[Begun]:
        return self._put(Begin(pen, drafts))

    def transact(self, pen: Pen, work: Callable[[Any], tuple[Draft, ...]]) -> Reply[Answer]:
        return self._put(Transact(pen, work))

    def ask(self, call: Callable[[Store], Value]) -> Reply[Value]:
        """Run `call(store)` on this thread; may fail with Unavailable."""
        return self._put(Ask(call))

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._unanswered and self._queue.empty()

    def tick(self) -> int:
        """Send what waits, or again what was not answered; ms until there may be more to do."""
        if self.cut:
            return IDLE_MS
        self._take_queue()
        try:
            self._store = self._store or self._open_store()
            self._send([*self._unanswered, *self._gather()])
            self._do_single_jobs()
        except Unavailable:
            self._resend_ms = min(self._resend_ms * 2, limits.RESEND_MAX_MS)
            return self._resend_ms
        self._resend_ms = limits.RESEND_MS
        if self._unanswered:
            return limits.RESEND_MS
        return 0 if not self.idle else IDLE_MS

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    # -- what to send -----------------------------------------------------------------------------

    def _put(self, job: Job) -> Reply[Any]:
        self._queue.put(job)
        self.wake()
        return job.done

    def _take_queue(self) -> None:
        while True:
            try:
                self._waiting.append(self._queue.get_nowait())
            except Empty:
                return

    def _gather(self) -> list[Sent]:
        """One offer a pen, in the order in which they came; what must be alone is."""
        batch: dict[int, tuple[Sent, list[Draft]]] = {}
        # Nothing is sent for a pen while something it has sent is not answered.
        closed = {id(sent.pen) for sent in self._unanswered}
        room = limits.APPEND_BATCH - len(self._unanswered)
        left: deque[Job] = deque()
        for job in self._waiting:
            pen = job.pen
            if pen is not None and pen.closed:
                _refuse(job, pen)
                continue
            begun = batch.get(id(pen))
            if pen is None or id(pen) in closed or not _may_join(job, begun, len(batch) < room):
                closed.add(id(pen))
                left.append(job)
                continue
            assert isinstance(job, Append)
            sent, drafts = batch.setdefault(id(pen), (Sent(_NOTHING, pen, []), []))
            sent.jobs.append(job)
            drafts.extend(job.drafts)
            if job.alone:
                closed.add(id(pen))
        self._waiting = left
        at_ms = self._clock.now_ms()
        for sent, drafts in batch.values():
            sent.offer = sent.pen.offer(drafts, at_ms)
        return [sent for sent, _ in batch.values()]

    # -- sending it -------------------------------------------------------------------------------

    def _send(self, batch: list[Sent]) -> None:
        """Offer a batch; what is not answered stays in `_unanswered` as it was sent."""
        self._unanswered = batch
        if not batch:
            return
        assert self._store is not None
        try:
            answers = self._store.append([sent.offer for sent in batch])
        except Unavailable:
            raise
        except Exception as error:
            self._send_one_by_one(batch, error)
            return
        self._unanswered = []
        self.written_ms = self._clock.monotonic_ms()
        for sent, answer in zip(batch, answers, strict=True):
            self._hear(sent, answer)

    def _send_one_by_one(self, batch: list[Sent], error: Exception) -> None:
        """An offer that raises fails alone."""
        if len(batch) == 1:
            self._unanswered = []
            self._fail(batch[0], error)
            return
        again: list[Sent] = []
        rest = list(batch)
        try:
            while rest:
                self._send(rest[:1])
                again += self._unanswered
                rest.pop(0)
        finally:
            self._unanswered = again + rest

    def _hear(self, sent: Sent, answer: Answer) -> None:
        if isinstance(answer, Turned) and answer.why == "again":
            self._unanswered.append(sent)
        elif isinstance(answer, Turned) and answer.why == "invalid" and len(sent.jobs) > 1:
            self._split(sent)
        else:
            sent.pen.take(sent.offer, answer)
            for job in sent.jobs:
                job.done.set_result(answer)

    def _fail(self, sent: Sent, error: Exception) -> None:
        if len(sent.jobs) > 1:
            self._split(sent)
            return
        sent.jobs[0].done.set_exception(error)

    def _split(self, sent: Sent) -> None:
        for job in sent.jobs:
            job.alone = True
        self._waiting.extendleft(reversed(sent.jobs))

    # -- jobs that are a transaction of their own -------------------------------------------------

    def _do_single_jobs(self) -> None:
        """Each pen's next begin or transaction, and what was asked; a pen's order is kept."""
        blocked = {id(sent.pen) for sent in self._unanswered}
        for job in list(self._waiting):
            if isinstance(job, Append) or id(job.pen) in blocked:
                blocked.add(id(job.pen))
                continue
            if job.pen is not None and job.pen.closed:
                _refuse(job, job.pen)
            else:
                self._do(job)
            self._waiting.remove(job)
            if job.pen is not None:
                blocked.add(id(job.pen))

    def _do(self, job: Job) -> None:
        assert self._store is not None
        try:
            if isinstance(job, Ask):
                answer: Any = job.call(self._store)
            elif isinstance(job, Begin):
                answer = self._begin(job, self._store)
            else:
                assert isinstance(job, Transact)
                answer = self._transact(job, self._store)
        except Unavailable as error:
            if not isinstance(job, Ask):
                raise  # its offer is frozen: sent again until it is answered
            job.done.set_exception(error)
        except BaseException as error:
            job.done.set_exception(error)
        else:
            job.done.set_result(answer)

    def _begin(self, job: Begin, store: Store) -> Begun:
        assert job.pen is not None
        job.offer = job.offer or job.pen.offer(job.drafts, self._clock.now_ms())
        begun = store.begin(job.offer)
        if isinstance(begun.answer, Turned) and begun.answer.why == "again":
            raise Unavailable("the effect's key", "it is locked")
        if begun.answer is not None:
            job.pen.take(job.offer, begun.answer)
        return begun

    def _transact(self, job: Transact, store: Store) -> Answer:
        pen = job.pen
        assert pen is not None
        if job.offer is not None:
            # Its answer was lost: the work and the event are there together, or neither is.
            standing = store.stands(job.offer)
            if isinstance(standing, Written):
                pen.take(job.offer, standing)
                return standing
        before = job.offer

        def work(connection: Any) -> Offer:
            job.offer = pen.offer(job.work(connection), self._clock.now_ms())
            return job.offer

        answer = store.transact(work)
        if isinstance(answer, Turned) and before is not None:
            standing = store.stands(before)
            if isinstance(standing, Written):
                job.offer, answer = before, standing
        if isinstance(answer, Turned) and answer.why == "again":
            job.offer = None
            raise Unavailable("the transaction", "the task is locked")
        if job.offer is not None:
            pen.take(job.offer, answer)
        return answer


def _with_progress(text: str, progressed: bool) -> str:
    """A body that ends a lease says whether the lease had a result; known only when it is sent."""
    comma = "," if len(text) > 2 else ""
    return f'{text[:-1]}{comma}"progressed":{"true" if progressed else "false"}}}'


def _may_join(job: Job, begun: tuple[Sent, list[Draft]] | None, room: bool) -> bool:
    """Whether a job may be sent with this batch. `begun`: what it has of the same pen already."""
    if not isinstance(job, Append):
        return False
    if begun is None:
        return room
    return not job.alone and len(begun[1]) < limits.APPEND_BATCH


def _refuse(job: Job, pen: Pen) -> None:
    """This attempt has let go or lost its lease: nothing of it is sent any more."""
    turned = Turned("lost", pen.lost or "this attempt has let its lease go")
    job.done.set_result(Begun("turned", turned, None) if isinstance(job, Begin) else turned)


_NOTHING = Offer((), "")
