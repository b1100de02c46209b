"""The things Outlast speaks of: task, event, lease, effect, signal, worker. Frozen values.

Times are integer milliseconds of the database's clock; what an agent made is JSON text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["ready", "running", "waiting", "review", "succeeded", "failed", "cancelled"]
FINAL: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})

# How the lease before ended, and so why the next one is granted.
GrantReason = Literal["first", "drain", "expired", "crashed", "retry", "woken", "operator"]

EffectState = Literal["intended", "applied", "failed", "unknown", "not_applied"]
IN_DOUBT: frozenset[str] = frozenset({"intended", "unknown"})


class Task(msgspec.Struct, frozen=True):
    """A task as its row says; everything that changes here is the fold of its log.

    `reason` says why it is in its state: in `ready`, why the next lease will be granted
    (a `GrantReason`). `due_ms` is when it may be claimed, or when its wait ends.
    `head_seq`, `head_digest`, `head_ms`: the last event when the task last changed hands; while
    it has no owner, the last event of all.
    """

    id: str
    queue: str
    agent: str
    input: str
    key: str | None
    labels: str
    priority: int
    max_resumes: int
    max_expiries: int
    created_ms: int
    # below: the fold of the log
    state: State
    reason: str
    due_ms: int | None
    waiting_for: str | None
    doubts: str | None
    epoch: int
    failures: int
    resumes: int
    expiries: int
    handoffs: int
    result: str | None
    error: str | None
    head_seq: int
    head_digest: str
    head_ms: int
    started_ms: int | None
    finished_ms: int | None
    # requests, which are on no log
    cancel_by: str | None = None
    cancel_why: str | None = None
    cancel_ms: int | None = None

    @property
    def ended(self) -> bool:
        return self.state in FINAL


class Event(msgspec.Struct, frozen=True):
    """A line of a task's log. `holder`: the epoch that may write the next one; 0: no owner."""

    task_id: str
    seq: int
    holder: int
    kind: str
    body: str
    at_ms: int
    digest: str


class Entry(msgspec.Struct, frozen=True):
    """An event offered to the log: it quotes the event before it, as that event's holder."""

    event: Event
    quoted: str
    epoch: int


class Offer(msgspec.Struct, frozen=True):
    """Entries of one task, each quoting the one before, that stand or fall together.

    Frozen once sent: the same bytes are sent again until they are answered.
    """

    entries: tuple[Entry, ...]
    worker: str

    @property
    def task_id(self) -> str:
        return self.entries[0].event.task_id

    @property
    def epoch(self) -> int:
        return self.entries[0].epoch

    @property
    def last(self) -> Event:
        return self.entries[-1].event


class Written(msgspec.Struct, frozen=True, tag="written"):
    """The offer is on the log; `seq` and `digest` of its last event are the next quote."""

    seq: int
    digest: str


RefusedWhy = Literal["lost", "commits_lost", "cancel_asked", "signal_waiting", "again", "invalid"]


class Turned(msgspec.Struct, frozen=True, tag="turned"):
    """The offer was turned away; nothing of it is on the log.

    `lost`: another wrote, or this epoch has let go. `commits_lost`: the quoted event is gone.
    `cancel_asked`: it would let the task go while a cancel request is unread, or begin an effect.
    `signal_waiting`: it would wait for a signal that is there. `again`: send the same once more.
    `invalid`: the database cannot store it (`detail` says why).
    """

    why: RefusedWhy
    detail: str = ""


Answer = Written | Turned


class Lease(msgspec.Struct, frozen=True):
    """Who owns a task now. Named by the digest of its grant; `epoch` is the number people see."""

    task_id: str
    grant: str
    epoch: int
    worker: str
    token: str
    ttl_ms: int
    granted_ms: int
    expires_ms: int
    spared: int
    beat_ms: int
    progress_ms: int
    doing: str | None


class Grant(msgspec.Struct, frozen=True):
    """A lease just given: the task as it is now, the lease, and the grant itself as first quote."""

    task: Task
    lease: Lease
    event: Event
    reason: GrantReason


class Effect(msgspec.Struct, frozen=True):
    """An act on the outside world, by its idempotency key.

    Not on the log: `observed`, what a zombie learned (JSON); `doubt_ms`, when the lease ended under
    which the doubt arose that the newest intent took over (None: it began afresh).
    """

    key: str
    task_id: str
    name: str
    tool: str
    fingerprint: str
    shared: int
    state: EffectState
    tries: int
    intent_seq: int
    outcome_seq: int | None
    result: str | None
    error: str | None
    observed: str | None
    intended_ms: int
    settled_ms: int | None
    doubt_ms: int | None = None


class Signal(msgspec.Struct, frozen=True):
    """A message to a task that no owner has consumed yet; its id is made by the sender."""

    id: str
    task_id: str
    name: str
    payload: str
    sent_by: str
    sent_ms: int


WorkerState = Literal["active", "draining", "retired"]


class Worker(msgspec.Struct, frozen=True):
    """A worker process; its id is new at every start, whatever its host and pid.

    `token`: the id of the API token with which it came, "" where it is on the database itself.
    """

    id: str
    host: str
    pid: int
    build: str
    queues: str
    agents: str
    slots: int
    ttl_ms: int
    grace_ms: int
    state: WorkerState
    started_ms: int
    beat_ms: int
    loop_blocked_ms: int = 0
    drain_by: str | None = None
    token: str = ""


Role = Literal["viewer", "operator", "worker", "admin"]


class Token(msgspec.Struct, frozen=True):
    """Who may ask a server over HTTP, and for what. The secret itself is nowhere.

    `digest`: sha256 of the secret, hex. `expires_ms`: None: never.
    """

    id: str
    name: str
    role: Role
    digest: str
    created_by: str
    created_ms: int
    expires_ms: int | None = None
    revoked_by: str | None = None
    revoked_ms: int | None = None


class NewToken(msgspec.Struct, frozen=True):
    """A token to keep: its secret's digest alone. `lasts_ms`: None: for ever."""

    id: str
    name: str
    role: Role
    digest: str
    lasts_ms: int | None


class Webhook(msgspec.Struct, frozen=True):
    """Who is told by HTTP. `news`: of what, with commas between.

    `behind`: how much is still to be told; `error`: why, if it was tried.
    """

    id: str
    url: str
    news: str
    created_by: str
    created_ms: int
    behind: int = 0
    error: str | None = None


class NewWebhook(msgspec.Struct, frozen=True):
    """Whom to tell. `news`: some of `news.NEWS`. `secret`: signs what is sent."""

    id: str
    url: str
    news: tuple[str, ...]
    secret: str


class Delivery(msgspec.Struct, frozen=True):
    """One piece of news for one webhook; `task`: as it is now, None: it was pruned meanwhile."""

    webhook: str
    url: str
    secret: str
    task_id: str
    seq: int
    news: str
    at_ms: int
    tries: int
    task: Task | None


class Observation(msgspec.Struct, frozen=True):
    """What came too late or was refused: unfenced, and it moves no state."""

    task_id: str
    epoch: int
    worker: str
    kind: Literal["refused", "outcome"]
    key: str
    count: int
    detail: str
    first_ms: int
    last_ms: int


class Counter(msgspec.Struct, frozen=True):
    """A metric counter that survives the process that caused it; `labels` is JSON, keys sorted."""

    name: str
    labels: str
    value: int
