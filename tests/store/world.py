"""The world of a store's test: a database whose clock is moved by hand, workers, owners, tasks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from outlast.core.chain import Quote, entry
from outlast.core.clock import Ids
from outlast.core.lifecycle import LETS_GO, RESULTS, text_of
from outlast.core.model import (
    Answer,
    Effect,
    Entry,
    Event,
    Grant,
    Lease,
    Offer,
    Signal,
    Task,
    Turned,
    Worker,
    Written,
)
from outlast.store.verbs import (
    AgentLimits,
    Begun,
    Claim,
    EffectQuery,
    NewTask,
    Order,
    Query,
    Reaped,
    Renewal,
    Renewed,
    Store,
)

TTL = 10_000
AGENT = "agent"
QUEUE = "default"
OPERATOR = Order("ann", "because")
LIMITS = AgentLimits(max_resumes=5, max_expiries=50)

_ids = Ids(random.Random(2_026))
_numbers = itertools.count(1)


def new_id(store: Store) -> str:
    """A task id as a client makes it."""
    return _ids.new(store.now_ms())


def new_token() -> str:
    """What names one call of `claim`."""
    return f"token-{next(_numbers)}"


# -- tasks -------------------------------------------------------------------------------------


def new_task(store: Store, **options: Any) -> NewTask:
    """A task that nobody has submitted yet."""
    return NewTask(**{"id": new_id(store), "agent": AGENT, "input": '{"n":1}', **options})


def submit(store: Store, **options: Any) -> Task:
    """Submit one task."""
    [submitted] = store.submit([new_task(store, **options)])
    return submitted.task


def signal(store: Store, task_id: str, name: str, payload: Any = True, **options: Any) -> Signal:
    """Send a signal; `id=` sends one again."""
    text = msgspec.json.encode(payload).decode()
    options = {"id": f"signal-{next(_numbers)}", "sent_by": "ann", **options}
    sent = Signal(task_id=task_id, name=name, payload=text, sent_ms=0, **options)
    store.signal(task_id, sent)
    return sent


def log(store: Store, task_id: str) -> list[Event]:
    """Every event of a task."""
    return store.read(task_id)


def kinds(store: Store, task_id: str) -> list[str]:
    """The kinds of a task's events, in order."""
    return [event.kind for event in store.read(task_id)]


def body(event: Event | None) -> dict[str, Any]:
    """What an event says."""
    assert event is not None
    decoded: dict[str, Any] = msgspec.json.decode(event.body)
    return decoded


def effect(store: Store, key: str) -> Effect:
    """The ledger's row of a key."""
    [found] = store.find_effects(EffectQuery(key=key))
    return found


def counter(store: Store, name: str, **labels: str) -> int:
    """The sum of a counter over all series that have these labels."""
    return sum(
        each.value
        for each in store.counts().counters
        if each.name == name and labels.items() <= msgspec.json.decode(each.labels).items()
    )


# -- workers -----------------------------------------------------------------------------------


def worker(name: str = "old", **changes: Any) -> Worker:
    """A worker process; its id is made of its name, its host and pid are the same for all."""
    plain = Worker(
        id=f"worker-{name}",
        host="host",
        pid=4711,
        build="build-1",
        queues='["default"]',
        agents='["agent"]',
        slots=10,
        ttl_ms=TTL,
        grace_ms=25_000,
        state="active",
        started_ms=0,
        beat_ms=0,
    )
    return msgspec.structs.replace(plain, **changes)


def enlisted(store: Store, name: str = "old", **changes: Any) -> Worker:
    """A worker that the store knows."""
    wanted = worker(name, **changes)
    known = {each.id: each for each in store.workers()}
    return known.get(wanted.id) or store.enlist(wanted)


def ask(store: Store, worker: str = "old", **options: Any) -> Claim:
    """A claim, as a worker with one free slot makes it."""
    plain: dict[str, Any] = {
        "worker": enlisted(store, worker),
        "queues": [QUEUE],
        "agents": {AGENT: LIMITS},
        "room": 1,
        "ttl_ms": TTL,
        "token": new_token(),
        "held": 0,
    }
    return Claim(**{**plain, **options})


def grants(store: Store, worker: str = "old", **options: Any) -> list[Grant]:
    """What a worker is given when it asks."""
    return store.claim(ask(store, worker, **options))


def claim(store: Store, worker: str = "old", **options: Any) -> Owner:
    """Claim the next task that is ready; there must be one."""
    given = grants(store, worker, **options)
    assert len(given) == 1, f"{worker} was given {len(given)} leases"
    return Owner(store, given[0])


def start(store: Store, worker: str = "old", **options: Any) -> Owner:
    """Submit a task, and have a worker claim that very one."""
    task = submit(store, **options)
    queue = {"queues": [task.queue], "agents": {task.agent: LIMITS}}
    owner = claim(store, worker, **queue)
    assert owner.task_id == task.id, "another task was ready before this one"
    return owner


def why(answer: object) -> str:
    """Why an offer was turned away; it must have been."""
    assert isinstance(answer, Turned), answer
    return answer.why


# -- owners ------------------------------------------------------------------------------------

Said = tuple[str, Mapping[str, Any]]


class Owner:
    """What an attempt is to a store: it keeps its quote, and offers what follows.

    The quote comes from the grant and from accepted appends only; it is never read.
    """

    def __init__(self, store: Store, grant: Grant) -> None:
        self.store = store
        self.grant = grant
        self.task_id = grant.task.id
        self.epoch = grant.lease.epoch
        self.worker = grant.lease.worker
        self.quote = Quote.of(grant.event)
        self.open_intents: dict[str, str] = {}
        self.progressed = False

    @property
    def task(self) -> Task:
        return self.store.get(self.task_id)

    def key(self, name: str) -> str:
        """The idempotency key that an effect of this name has by default."""
        return f"{self.task_id}/{name}"

    # Offers: frozen bytes, which may be sent twice, late, or never.

    def offer(self, *said: Said, at_ms: int | None = None) -> Offer:
        """What this owner would append next, each entry quoting the one before."""
        quote, entries = self.quote, []
        at_ms = self.store.now_ms() if at_ms is None else at_ms
        for kind, content in said:
            content = dict(content)
            holder = content.pop("holder", 0 if kind in LETS_GO else self.epoch)
            made = self._entry(quote, holder, kind, content, at_ms)
            entries.append(made)
            quote = Quote.of(made.event)
        return Offer(tuple(entries), self.worker)

    def _entry(
        self, quote: Quote, holder: int, kind: str, content: dict[str, Any], at_ms: int
    ) -> Entry:
        text = text_of(content)
        return entry(quote, self.epoch, holder=holder, kind=kind, body=text, at_ms=at_ms)

    def send(self, offer: Offer) -> Answer:
        """Append an offer, and remember it if it was written."""
        [answer] = self.store.append([offer])
        self.heard(offer, answer)
        return answer

    def read_ledger(self) -> None:
        """Learn of the intents that owners before this one have left open."""
        left = self.store.find_effects(EffectQuery(task_id=self.task_id, limit=1_000))
        self.open_intents = {each.key: each.tool for each in left if each.state == "intended"}

    def heard(self, offer: Offer, answer: Answer) -> None:
        """Take in the answer to an offer."""
        if not isinstance(answer, Written):
            return
        assert (answer.seq, answer.digest) == (offer.last.seq, offer.last.digest)
        self.quote = Quote.of(offer.last)
        for each in offer.entries:
            self._remember(each.event)

    def _remember(self, event: Event) -> None:
        self.progressed = self.progressed or event.kind in RESULTS
        content = body(event)
        if event.kind == "effect.intended":
            self.open_intents[content["key"]] = content["tool"]
        elif event.kind in ("effect.applied", "effect.failed", "effect.unknown"):
            self.open_intents.pop(content["key"], None)

    def write(self, kind: str, **content: Any) -> Answer:
        """Append one event."""
        return self.send(self.offer((kind, content)))

    def write_at(self, at_ms: int) -> Answer:
        """Append a note under the time that this worker's clock shows."""
        return self.send(self.offer(("note", {"text": "tick"}), at_ms=at_ms))

    # What attempts do.

    def step(self, key: str = "think", result: Any = 1) -> Answer:
        return self.write("step.done", key=key, args="-", result=result, **{"try": 1})

    def note(self, text: str = "so far so good") -> Answer:
        return self.write("note", text=text, data=None)

    def intend(self, name: str = "pay", **changes: Any) -> Answer:
        return self.write("effect.intended", **self.intent(name, **changes))

    def intent(self, name: str = "pay", **changes: Any) -> dict[str, Any]:
        """The body of an intent."""
        plain = {
            "key": self.key(name),
            "name": name,
            "tool": "bank.pay",
            "fingerprint": "10 euros",
            "shared": 0,
            "try": 1,
        }
        return {**plain, **changes}

    def applied(self, name: str = "pay", result: Any = "receipt", **more: Any) -> Answer:
        key = more.pop("key", self.key(name))
        return self.write("effect.applied", key=key, name=name, result=result, **more)

    def failed(self, name: str = "pay", **more: Any) -> Answer:
        key = more.pop("key", self.key(name))
        error = {"type": "NotDone", "message": "no such account"}
        return self.write("effect.failed", key=key, name=name, error=error, final=True, **more)

    def doubts(self) -> list[Said]:
        """An `effect.unknown` for every intent that has no outcome."""
        return [
            ("effect.unknown", {"key": key, "name": key.rpartition("/")[2], "tool": tool})
            for key, tool in self.open_intents.items()
        ]

    def release(self, reason: str = "drain", **more: Any) -> Answer:
        return self.send(self.offer(self.releasing(reason, **more)))

    def releasing(self, reason: str = "drain", **more: Any) -> Said:
        return "lease.released", {"reason": reason, "progressed": self.progressed, **more}

    def ask_a_person(self, why: str = "effect_unknown") -> Answer:
        """Let the task go into review with every open intent in doubt."""
        said = self.doubts()
        doubts = [content["key"] for _, content in said]
        tool = {"tool": "bank.pay"} if why == "effect_conflict" else {}
        release = self.releasing("review", why=why, doubts=doubts, **tool)
        return self.send(self.offer(*said, release))

    def retry(self, after_ms: int = 0) -> Answer:
        """The agent has raised: fail this attempt, try again later."""
        error = {"type": "ValueError", "message": "no", "traceback": ""}
        failed = ("attempt.failed", {"error": error, "retry_ms": after_ms})
        due_ms = self.store.now_ms() + after_ms
        return self.send(self.offer(failed, self.releasing("retry", due_ms=due_ms)))

    def waiting(self, name: str | None = "approval", until_ms: int | None = None) -> Said:
        content = {"key": name or "sleep", "name": name, "until_ms": until_ms}
        return "wait.started", {**content, "progressed": self.progressed, "holder": 0}

    def wait(self, name: str | None = "approval", until_ms: int | None = None) -> Answer:
        """Wait without a lease."""
        return self.send(self.offer(self.waiting(name, until_ms)))

    def read_signal(self, signal: Signal) -> Answer:
        """End a wait with this signal, which consumes it."""
        return self.write(
            "wait.ended",
            key=signal.name,
            name=signal.name,
            cause="signal",
            signal=signal.id,
            payload=msgspec.Raw(signal.payload.encode()),
            by=signal.sent_by,
        )

    def succeed(self, result: Any = "done") -> Answer:
        return self.send(self.offer(*self.doubts(), ("task.succeeded", {"result": result})))

    def fail(self, reason: str = "error") -> Answer:
        error = {"type": "ValueError", "message": "no"}
        final = ("task.failed", {"reason": reason, "error": error})
        return self.send(self.offer(*self.doubts(), final))

    def acknowledge_cancel(self) -> Answer:
        """Write the receipt of a cancel request, and the end."""
        asked = self.task
        receipt = {"by": asked.cancel_by, "why": asked.cancel_why, "asked_ms": asked.cancel_ms}
        said = ("cancel.acknowledged", receipt), *self.doubts(), ("task.cancelled", receipt)
        return self.send(self.offer(*said))

    # Shared keys, and the lease itself.

    def beginning(self, key: str, **changes: Any) -> Offer:
        """The offer to begin an effect under a key that all tasks share."""
        return self.offer(("effect.intended", self.intent("pay", key=key, shared=1, **changes)))

    def begin(self, key: str = "invoice-17", **changes: Any) -> Begun:
        """Begin an effect under a shared key."""
        offer = self.beginning(key, **changes)
        begun = self.store.begin(offer)
        if begun.answer is not None:
            self.heard(offer, begun.answer)
        return begun

    @property
    def renewal(self) -> Renewal:
        return Renewal(self.task_id, self.grant.lease.grant)

    def renew(self, store: Store | None = None) -> Renewed:
        beat = (store or self.store).renew(self.worker, [self.renewal])
        return beat.leases[self.task_id]

    @property
    def lease(self) -> Lease | None:
        """Whatever lease this task is under now, ours or another's."""
        return lease_of(self.store, self.task_id)


def lease_of(store: Store, task_id: str) -> Lease | None:
    [held] = [each for each in store.find(Query(limit=1_000)) if each.task.id == task_id]
    return held.lease


# -- reapers -----------------------------------------------------------------------------------


def reap(store: Store, **options: Any) -> Reaped:
    """The tick of a reaper that has been awake all the time."""
    return store.reap(**{"since_ms": store.now_ms(), **options})


def touched(reaped: Reaped) -> Sequence[str]:
    """Every task that a reaper has done something to."""
    return [each for group in msgspec.structs.astuple(reaped) for each in group]
