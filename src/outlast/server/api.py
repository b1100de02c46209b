"""`/api/v1`: the store for people's programs, in the JSON that `outlast` prints with --json.

Each operation is a row of `OPERATIONS`: its path, what it takes, which verb its role must be
allowed, and a function of a store. The OpenAPI document is made from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from ..core import limits, payload
from ..core.clock import Env
from ..core.errors import NotAllowedNow, UsageError
from ..core.model import State
from ..core.text import pairs
from ..store.submission import Submission, new_task
from ..store.verbs import EffectQuery, Order, Store
from ..view import fleet
from ..view.shapes import Shape, effect_shape, event_shape, task_shape
from ..view.task import full_shape, held_task, look_at
from ..view.tasks import STATES, Wanted, look, shapes
from ..view.words import rfc3339
from .access import Identity

Rows = Annotated[int, msgspec.Meta(ge=1, le=limits.READ_BATCH)]
Number = Annotated[int, msgspec.Meta(ge=0, le=limits.INTEGER_MAX)]
Priority = Annotated[int, msgspec.Meta(ge=-limits.PRIORITY_MAX, le=limits.PRIORITY_MAX)]
# It goes on the record, so it must say something.
Reason = Annotated[str, msgspec.Meta(pattern=r"\S", max_length=limits.REASON_CHARACTERS)]
Name = Annotated[str, msgspec.Meta(pattern=r"\S", max_length=limits.NAME_CHARACTERS)]


class Fields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What an operation takes: of the path, the query, or the body."""


class Nothing(Fields):
    pass


class ListTasks(Fields):
    """`state`, `label` (NAME=VALUE) may be repeated; `since`: submitted in the last 2h, say."""

    state: list[State] = []
    label: list[str] = []
    queue: str | None = None
    agent: str | None = None
    text: str | None = None
    since: str | None = None
    limit: Rows = limits.LIST_ROWS


class OfTask(Fields):
    task: str


class ReadLog(OfTask):
    after: Number = 0
    limit: Rows = limits.LIST_ROWS


class Submit(Fields):
    """`key`: the same key gives the same task back. `delay`: a duration, like "10m"."""

    agent: Name
    input: dict[str, Any] = {}
    key: str | None = None
    queue: Name = "default"
    priority: Priority = 0
    delay: str = "0s"
    labels: dict[str, str] = {}


class Reasoned(Fields):
    reason: Reason


class OrderOnTask(OfTask):
    reason: Reason


class Cancel(OrderOnTask):
    force: bool = False


class Retry(OrderOnTask):
    pass


class Revoke(OrderOnTask):
    now: bool = False


class SendSignal(OfTask):
    """`id`: sent twice with one id it is one signal."""

    name: Name
    payload: Any = None
    id: str | None = None


class ListEffects(Fields):
    unknown: bool = False
    task: str | None = None
    key: str | None = None
    limit: Rows = limits.LIST_ROWS


class Settle(Reasoned):
    key: str
    applied: bool
    receipt: Any = None


class Drain(Reasoned):
    """One of `worker` (its id), `build`, or `everyone`."""

    worker: str | None = None
    build: str | None = None
    everyone: bool = False


class Gate(Fields):
    build: str | None = None


class Scale(Fields):
    queue: Name


class OfQueue(Fields):
    queue: Name


class PauseQueue(OfQueue):
    reason: Reason


class Operation(msgspec.Struct, frozen=True):
    """One row. `carry_out(store, env, who, asked)` gives what is answered as JSON."""

    method: Literal["GET", "POST"]
    path: str
    verb: str
    takes: type[Fields]
    carry_out: Callable[[Store, Env, Identity, Any], Any]
    says: str


def list_tasks(store: Store, env: Env, who: Identity, asked: ListTasks) -> Shape:
    """Tasks: those that are open first, then the newest of those that have ended."""
    wanted = Wanted(
        tuple(state for state in STATES if not asked.state or state in asked.state),
        asked.queue,
        asked.agent,
        pairs(asked.label, "label"),
        asked.text,
        asked.since,
        asked.limit,
    )
    seen = look(store, wanted)
    return {"items": list(shapes(seen)), "more": seen.more, "as_of": rfc3339(seen.now_ms)}


def show_task(store: Store, env: Env, who: Identity, asked: OfTask) -> Shape:
    """Everything about one task: its state and why, owners, steps, effects, signals."""
    known = look_at(store, asked.task)
    return full_shape(known, _whole_log(store, known.held.task.id))


def read_log(store: Store, env: Env, who: Identity, asked: ReadLog) -> Shape:
    """The events of one task, after an event's number."""
    task = store.get(asked.task)
    events = store.read(task.id, after=asked.after, limit=asked.limit)
    return {"items": [event_shape(event) for event in events]}


def submit(store: Store, env: Env, who: Identity, asked: Submit) -> Shape:
    """Store a task; once this is answered, it is on disk."""
    wanted = Submission(
        agent=asked.agent, input=asked.input, key=asked.key, queue=asked.queue,
        priority=asked.priority, delay=asked.delay, labels=asked.labels,
    )  # fmt: skip
    [stored] = store.submit([new_task(wanted, env, who.name)])
    return {**_task(store, stored.task.id), "created": stored.created}


def cancel(store: Store, env: Env, who: Identity, asked: Cancel) -> Shape:
    """Ask a task to stop for good; without an owner it ends at once."""
    answer = store.cancel(store.get(asked.task).id, _order(who, asked), force=asked.force)
    if answer.state == "ended":
        raise NotAllowedNow(f"task {answer.task.id} had ended before; nothing was changed")
    return {
        **_task(store, answer.task.id),
        "answer": answer.state,
        "running_on": answer.running_on,
        "children": list(answer.children),
    }


def retry(store: Store, env: Env, who: Identity, asked: Retry) -> Shape:
    """Open a task again, from review or after its end; what it has on record is kept."""
    return _task(store, store.retry(store.get(asked.task).id, _order(who, asked)).id)


def revoke(store: Store, env: Env, who: Identity, asked: Revoke) -> Shape:
    """Take a task away from its owner."""
    task = store.revoke(store.get(asked.task).id, _order(who, asked), now=asked.now)
    return _task(store, task.id)


def send_signal(store: Store, env: Env, who: Identity, asked: SendSignal) -> Shape:
    """Send a message that the task waits for, or will."""
    from ..core.model import Signal

    task = store.get(asked.task)
    name = payload.name("the signal's name", asked.name)
    text = payload.payload_text(asked.payload, f"the signal {name!r}")
    sent_id = env.new_id() if asked.id is None else payload.name("the signal's id", asked.id)
    is_new = store.signal(task.id, Signal(sent_id, task.id, name, text, who.name, 0))
    return {"id": sent_id, "task": task.id, "name": name, "new": is_new}


def list_effects(store: Store, env: Env, who: Identity, asked: ListEffects) -> Shape:
    """What tasks did, or may have done, to the outside world, newest first."""
    query = EffectQuery(
        task_id=None if asked.task is None else store.get(asked.task).id,
        key=asked.key,
        in_doubt=asked.unknown,
        limit=asked.limit,
    )
    now_ms = store.now_ms()
    return {"items": [effect_shape(effect, now_ms) for effect in store.find_effects(query)]}


def settle(store: Store, env: Env, who: Identity, asked: Settle) -> Shape:
    """Say how an effect in doubt ended."""
    payload.payload_text(asked.receipt, "the receipt")
    effect = store.settle(
        asked.key, _order(who, asked), applied=asked.applied, receipt=asked.receipt
    )
    return {
        **effect_shape(effect, store.now_ms()),
        "task_state": store.get(effect.task_id).state,
    }


def list_workers(store: Store, env: Env, who: Identity, asked: Nothing) -> Shape:
    """Worker processes, the newest first."""
    now_ms = store.now_ms()
    return {"items": [fleet.worker_shape(worker, now_ms) for worker in store.workers()]}


def drain(store: Store, env: Env, who: Identity, asked: Drain) -> Shape:
    """Have workers hand over their tasks at the next step, and leave."""
    if [asked.worker is not None, asked.build is not None, asked.everyone].count(True) != 1:
        raise UsageError("say one of worker, build or everyone; nothing was drained")
    found = store.order_drain(_order(who, asked), worker_id=asked.worker, build=asked.build)
    now_ms = store.now_ms()
    return {"items": [fleet.worker_shape(worker, now_ms) for worker in found]}


def deploy_gate(store: Store, env: Env, who: Identity, asked: Gate) -> Shape:
    """Is it safe to deploy? A sentence, and who blocks."""
    return fleet.gate_shape(*fleet.judge(store, asked.build))


def scale(store: Store, env: Env, who: Identity, asked: Scale) -> Shape:
    """How much there is to do in a queue, for an autoscaler: ready and held."""
    states = store.counts().tasks.get(asked.queue, {})
    ready, held = states.get("ready", 0), states.get("running", 0)
    return {"queue": asked.queue, "ready": ready, "held": held, "wanted": ready + held}


def pause(store: Store, env: Env, who: Identity, asked: PauseQueue) -> Shape:
    """Give out no more tasks of a queue; what runs goes on."""
    store.pause(asked.queue, _order(who, asked))
    return {"queue": asked.queue, "paused": True}


def resume(store: Store, env: Env, who: Identity, asked: OfQueue) -> Shape:
    """Give out tasks of a queue again."""
    store.unpause(asked.queue)
    return {"queue": asked.queue, "paused": False}


def checkup(store: Store, env: Env, who: Identity, asked: Nothing) -> Shape:
    """What `outlast doctor` says of the store."""
    findings = store.checkup(tasks=limits.LIST_ROWS)
    return {"items": [msgspec.structs.asdict(finding) for finding in findings]}


def _operation(
    method: Literal["GET", "POST"], path: str, verb: str, act: Callable[[Store, Env, Any, Any], Any]
) -> Operation:
    takes = act.__annotations__["asked"]
    says = (act.__doc__ or "").strip()
    return Operation(method, path, verb, globals()[takes], act, says)


OPERATIONS: Mapping[str, Operation] = {
    operation.carry_out.__name__: operation
    for operation in (
        _operation("GET", "/tasks", "find", list_tasks),
        _operation("POST", "/tasks", "submit", submit),
        _operation("GET", "/tasks/{task}", "find", show_task),
        _operation("GET", "/tasks/{task}/log", "read", read_log),
        _operation("POST", "/tasks/{task}/cancel", "cancel", cancel),
        _operation("POST", "/tasks/{task}/retry", "retry", retry),
        _operation("POST", "/tasks/{task}/revoke", "revoke", revoke),
        _operation("POST", "/tasks/{task}/signals", "signal", send_signal),
        _operation("GET", "/effects", "find_effects", list_effects),
        _operation("POST", "/effects/settle", "settle", settle),
        _operation("GET", "/workers", "workers", list_workers),
        _operation("POST", "/workers/drain", "order_drain", drain),
        _operation("GET", "/deploy-gate", "find", deploy_gate),
        _operation("GET", "/scale", "counts", scale),
        _operation("POST", "/queues/{queue}/pause", "pause", pause),
        _operation("POST", "/queues/{queue}/resume", "unpause", resume),
        _operation("GET", "/checkup", "checkup", checkup),
    )
}


def _order(who: Identity, asked: Any) -> Order:
    return Order(who.name, asked.reason)


def _task(store: Store, task_id: str) -> Shape:
    return task_shape(held_task(store, task_id), ())


def _whole_log(store: Store, task_id: str) -> Any:
    after = 0
    while page := store.read(task_id, after=after):
        yield from page
        after = page[-1].seq
