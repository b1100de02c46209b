"""The store's verbs, by noun: all that the rest of Outlast may ask of a database.

Synchronous; plain values in and out; the same for SQLite, PostgreSQL and HTTP. Any verb may raise
Unavailable: then it is not known whether the request was carried out, and it may be sent again as
it was, since every request names what it makes (a task id, a token, a digest, a signal id).
Times are milliseconds of the database's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ..core.model import (
    Answer,
    Counter,
    Delivery,
    Effect,
    Event,
    Grant,
    Lease,
    NewToken,
    NewWebhook,
    Observation,
    Offer,
    Signal,
    Task,
    Token,
    Webhook,
    Worker,
    WorkerState,
)

# -- what verbs are asked ---------------------------------------------------------------------


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task to submit; `id` is made by the caller, so that it may be sent again.

    `input`: JSON text of an object, the agent's arguments by name. `delay_ms`: from the database's
    now until it is due. `key`: the same key gives the same task back.
    """

    id: str
    agent: str
    input: str
    key: str | None = None
    queue: str = "default"
    priority: int = 0
    delay_ms: int = 0
    labels: Mapping[str, str] = {}
    by: str = ""


class Submitted(msgspec.Struct, frozen=True):
    """The task as stored; `created` is False where the id or key was there before."""

    task: Task
    created: bool


class AgentLimits(msgspec.Struct, frozen=True):
    """What a reaper must know of an agent; written on the task when it is claimed."""

    max_resumes: int
    max_expiries: int


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has room for. `token` is new for each claim, the same when it is asked again.

    `held`: how many leases the worker holds now. `agents`: those it knows, by name. `except_ids`:
    tasks of which an old attempt still runs in this worker.
    """

    worker: Worker
    queues: Sequence[str]
    agents: Mapping[str, AgentLimits]
    room: int
    ttl_ms: int
    token: str
    held: int
    except_ids: Sequence[str] = ()


class Renewal(msgspec.Struct, frozen=True):
    """A lease to renew, by task and grant. `progress_ms_ago`: since its last event or note."""

    task_id: str
    grant: str
    progress_ms_ago: int = 0
    doing: str | None = None


class Renewed(msgspec.Struct, frozen=True):
    """`held`: renewed till expires_ms. `again`: locked just now, ask again. `lost`: not yours.

    `cancel_*`: who asked for the task to be cancelled, why, when. `signals`: unread ones.
    """

    state: Literal["held", "again", "lost"]
    expires_ms: int = 0
    cancel_by: str | None = None
    cancel_why: str | None = None
    cancel_ms: int | None = None
    signals: int = 0


class Heartbeat(msgspec.Struct, frozen=True):
    """The answer to a renewal: the only way in which the store talks to a worker.

    `leases`: by task id. `drain`: this worker is asked to hand everything over (`drain_by`).
    `known`: False if the store has no such worker (it was retired or pruned): enlist anew.
    """

    now_ms: int
    leases: Mapping[str, Renewed]
    drain: bool
    drain_by: str | None = None
    known: bool = True


class Look(msgspec.Struct, frozen=True):
    """One look at what there is to do. `server`: changes when the database starts anew.

    `timeline`: changes when another server took over; then commits may have been lost.
    `ready`: due tasks in these queues for these agents. `suspect_ms`: how long the longest waiting
    suspect (a task that is given to an idle worker only) has been due; None: there is none.
    `lapsed`: leases past expiry, timers past due. `reviews`: 1 if there are any that may end where
    a doubt ends elsewhere.
    `next_due_ms`: when the next task or timer falls due, None: nothing is planned. `workers`: how
    many are active.
    """

    now_ms: int
    server: str
    ready: int
    suspect_ms: int | None
    lapsed: int
    next_due_ms: int | None
    reviews: int = 0
    workers: int = 1
    timeline: str = ""


class HintsCome(msgspec.Struct, frozen=True):
    """`fd`: what becomes readable with a hint. `look_ms`: when to ask `hinted` at the latest."""

    fd: int | None = None
    look_ms: int | None = None


class Reaped(msgspec.Struct, frozen=True):
    """What a reaper did, by task id. `blocked`: lapsed, but somebody holds their locks."""

    expired: Sequence[str] = ()
    spared: Sequence[str] = ()
    abandoned: Sequence[str] = ()
    cancelled: Sequence[str] = ()
    woken: Sequence[str] = ()
    reviewed: Sequence[str] = ()
    blocked: Sequence[str] = ()


class Begun(msgspec.Struct, frozen=True):
    """The answer to beginning an effect under a shared key.

    `fresh`: the intent is on the log (`answer` is Written), act. `done`: somebody has done it,
    nothing was written; `effect.result` is its result. `busy`: `effect.task_id` holds its lease and
    is at it; nothing was written. `in_doubt`: an intent without outcome was yours or its owner is
    gone; the new intent is on the log and the doubt is yours, resolve it by policy before acting
    (`since_ms`: when the lease it was begun under ended, or will end at the latest).
    `conflict`: the key has other arguments; nothing was written. `turned`: the offer was refused.
    """

    state: Literal["fresh", "done", "busy", "in_doubt", "conflict", "turned"]
    answer: Answer | None
    effect: Effect | None
    since_ms: int = 0


class Order(msgspec.Struct, frozen=True):
    """Who wants something, and why."""

    by: str
    why: str


class CancelAnswer(msgspec.Struct, frozen=True):
    """`cancelled`: it has ended so. `asked`: its owner has been asked. `ended`: it had ended
    otherwise, nothing was changed. `running_on`: where code of a revoked lease may still run.
    """

    state: Literal["cancelled", "asked", "ended"]
    task: Task
    running_on: str | None = None
    children: Sequence[str] = ()


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks to list, newest first; empty: all. `after`: ids below this one (paging)."""

    states: Sequence[str] = ()
    queue: str | None = None
    agent: str | None = None
    key: str | None = None
    labels: Mapping[str, str] = {}
    text: str | None = None
    since_ms: int | None = None
    after: str | None = None
    limit: int = 100


class Held(msgspec.Struct, frozen=True):
    """A task with what is known of its owner and its effects: a row of `outlast ps`.

    `effects`: how many by state. `now_ms`: the as-of time of all ages.
    """

    task: Task
    lease: Lease | None
    worker: Worker | None
    effects: Mapping[str, int]
    now_ms: int


class EffectQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which effects to list, newest first. `in_doubt`: unknown, or begun by an owner that is gone.

    `key` alone; `task_id` or `task_ids` with `states`; `in_doubt` with `key` or `task_id`.
    """

    task_id: str | None = None
    task_ids: Sequence[str] = ()
    key: str | None = None
    states: Sequence[str] = ()
    in_doubt: bool = False
    limit: int = 100


class Counts(msgspec.Struct, frozen=True):
    """What metrics and the dashboard are made of, all from one moment (`now_ms`).

    `tasks`: {queue: {state: n}}. `lease_ms`: {queue: ms left on the lease that ends soonest}.
    `beat_ms`, `progress_ms`: {queue: longest silence in ms}. `ttl_ms`: {queue: longest TTL}.
    `workers`: {state: n}. `unknown`: {tool: effects unknown}; `unknown_ms`: age of the oldest.
    `tools`: all that the ledger knows.
    `counters`: summed over workers. `worker_queues`: {queue: workers active on it}.
    """

    now_ms: int
    tasks: Mapping[str, Mapping[str, int]]
    lease_ms: Mapping[str, int]
    beat_ms: Mapping[str, int]
    progress_ms: Mapping[str, int]
    ttl_ms: Mapping[str, int]
    workers: Mapping[str, int]
    worker_queues: Mapping[str, int]
    loop_blocked_ms: int
    unknown: Mapping[str, int]
    unknown_ms: int
    tools: Sequence[str]
    counters: Sequence[Counter]


class Pruned(msgspec.Struct, frozen=True):
    """What a prune removed, or would remove."""

    tasks: int
    events: int


class Finding(msgspec.Struct, frozen=True):
    """Something that `outlast doctor` looked at."""

    check: str
    state: Literal["ok", "warn", "broken"]
    said: str


# -- the verbs --------------------------------------------------------------------------------


class Tasks(Protocol):
    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Store tasks, all or none. Raises KeyReused, UsageError."""

    def get(self, task_id: str) -> Task:
        """The task; a unique beginning of at least 8 characters will do. Raises UnknownTask."""

    def find(self, query: Query) -> list[Held]: ...

    def cancel(self, task_id: str, order: Order, *, force: bool = False) -> CancelAnswer:
        """Ask the owner, or end it now where there is none. Raises UnknownTask."""

    def signal(self, task_id: str, signal: Signal) -> bool:
        """Keep a message for the task, wake it if it waits for it; False: it was there already.

        `signal.sent_ms` is set by the store. Raises UnknownTask, NotAllowedNow (ended).
        """

    def signals(self, task_id: str) -> list[Signal]:
        """The unread ones, oldest first."""

    def retry(self, task_id: str, order: Order) -> Task:
        """`task.reopened`: from review or an end to ready. Raises UnknownTask, NotAllowedNow."""

    def revoke(self, task_id: str, order: Order, *, now: bool = False) -> Task:
        """End a lease by order; due at its old expiry unless `now`. Raises as `retry`."""


class Leases(Protocol):
    def claim(self, claim: Claim) -> list[Grant]:
        """Give this worker up to `room` leases; the same token gets the same ones again."""

    def renew(
        self, worker_id: str, renewals: Sequence[Renewal], *, loop_blocked_ms: int = 0
    ) -> Heartbeat: ...

    def look(self, queues: Sequence[str], agents: Sequence[str]) -> Look: ...

    def hinted(self) -> bool:
        """Whether it is worth a look before the next poll: a task may have become ready.

        A hint, no truth: some are missed (behind a pooler all are), others come for nothing. Asks
        the database nothing, so it may be called many times a second.
        """

    def hints_come(self, worker_id: str) -> HintsCome:
        """How to wait for the next hint to this worker, which listens from the first call on."""

    def reap(
        self, *, since_ms: int | None, gaps: Sequence[tuple[int, int]] = (), limit: int = 100
    ) -> Reaped:
        """Declare dead what has lapsed; wake what is due; end reviews whose doubts have ended.

        `since_ms`: the database's time at this reaper's last look, None at its first or after the
        server changed. `gaps`: (length, end) of those between its looks (`core.vigil`). A lease
        that it cannot be sure of is spared, once.
        """

    def crash(self, worker_id: str, *, by: str) -> list[str]:
        """End every lease of a worker whose process was seen to die; the task ids."""


class Log(Protocol):
    def append(self, offers: Sequence[Offer]) -> list[Answer]:
        """Write what may be written, an answer for each offer; at most one offer a task.

        The one gate for all writes of owners, outcomes and releases included.
        """

    def stands(self, offer: Offer) -> Answer:
        """Whether an offer is on the log, without writing it (`again`: it is not, but may be)."""

    def read(self, task_id: str, *, after: int = 0, limit: int = 2_000) -> list[Event]: ...

    def granted(self, task_id: str, epoch: int) -> Event | None:
        """The event that granted an epoch; None: there is none, or it was pruned."""

    def last(self, task_id: str, kind: str) -> Event | None:
        """The newest event of a kind (checkpoints), or of any kind where `kind` is empty."""


class Effects(Protocol):
    def begin(self, offer: Offer) -> Begun:
        """Begin an effect under a shared key: `offer` ends in its `effect.intended`.

        A transaction of its own: lock the task, then the key's row, decide, append, point the row
        at this task; all or nothing.
        """

    def transact(self, work: Callable[[Any], Offer]) -> Answer:
        """Run `work(connection)` and append the offer that it returns, in one transaction, or
        neither. After Unavailable ask `stands(offer)`: the two are there together, or neither is.

        SQL stores only: `connection` is that of the driver (sqlite3 or psycopg); `work` neither
        commits nor rolls back (UsageError).
        """

    def settle(
        self,
        key: str,
        order: Order,
        *,
        applied: bool,
        receipt: Any = None,
        task_id: str | None = None,
    ) -> Effect:
        """Say how a doubt ended. Raises UnknownEffect, NotAllowedNow (no doubt, or it has an owner,
        or "not applied" against an observation that says applied)."""

    def observe(
        self,
        task_id: str,
        epoch: int,
        worker: str,
        key: str,
        *,
        applied: bool,
        result: Any = None,
        deduplicates: bool = False,
    ) -> None:
        """Keep what a zombie learned of its effect; *applied* settles a doubt.

        `deduplicates`: the tool honours the key, so that applied twice is applied once.
        """

    def find_effects(self, query: EffectQuery) -> list[Effect]: ...

    def observations(self, task_id: str | None = None) -> list[Observation]: ...


class Workers(Protocol):
    def enlist(self, worker: Worker) -> Worker:
        """Make a worker known; its times are set by the store."""

    def order_drain(
        self, order: Order, *, worker_id: str | None = None, build: str | None = None
    ) -> list[Worker]:
        """Ask workers to hand over: one, those of a build, or (neither given) all."""

    def retire(self, worker_id: str, state: WorkerState = "retired") -> None:
        """Note that a worker is draining or gone; its counters are folded when it is gone."""

    def worker(self, worker_id: str) -> Worker:
        """Raises UnknownWorker."""

    def workers(self) -> list[Worker]: ...


class Tokens(Protocol):
    def add_token(self, token: NewToken, order: Order) -> Token:
        """Keep a token; sent again it is the same one. Raises UsageError."""

    def token(self, token_id: str) -> Token:
        """Raises UnknownToken."""

    def tokens(self) -> list[Token]: ...

    def revoke_token(self, token_id: str, order: Order) -> Token:
        """From now on it is good for nothing. Raises UnknownToken."""


class Webhooks(Protocol):
    def add_webhook(self, webhook: NewWebhook, order: Order) -> Webhook: ...

    def webhooks(self) -> list[Webhook]: ...

    def remove_webhook(self, webhook_id: str) -> None:
        """With all that was still to be told. Raises UnknownWebhook."""

    def take_deliveries(
        self, *, limit: int, for_ms: int, resting: Sequence[str] = ()
    ) -> list[Delivery]:
        """What is due, so much for each webhook but those that rest: ours for so long, then
        another server's."""

    def delivered(self, delivery: Delivery, *, error: str = "", after_ms: int = 0) -> None:
        """It was told; or not, and why, and when to try again."""


class Upkeep(Protocol):
    def counts(self) -> Counts: ...

    def pause(self, queue: str, order: Order) -> None: ...

    def unpause(self, queue: str) -> None: ...

    def paused(self) -> list[str]: ...

    def prune(self, *, before_ms: int, dry_run: bool = False, limit: int = 500) -> Pruned:
        """Remove tasks that ended before then; shared keys are kept, so that none acts twice."""

    def version(self) -> int | None:
        """The schema's version; None: no tables."""

    def now_ms(self) -> int: ...

    def checkup(self, *, tasks: int = 1_000) -> Iterator[Finding]:
        """What `outlast doctor` says: durability in force, rows against logs, who blocks."""

    def close(self) -> None: ...


class Store(Tasks, Leases, Log, Effects, Workers, Tokens, Webhooks, Upkeep, Protocol):
    """All verbs. A store may be used from one thread at a time; `open` gives each its own."""
