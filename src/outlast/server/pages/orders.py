"""Orders: what a person may have done, shown with its consequence before it is carried out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from ...core import limits
from ...core.errors import NotAllowedNow, UnknownEffect, UnknownWorker, UsageError
from ...core.lifecycle import ALLOWED
from ...core.model import IN_DOUBT, Effect, Signal, Task, Worker
from ...core.text import named
from ...store.verbs import EffectQuery, Order, Store
from ...view.shapes import json_value
from ...view.words import printable
from ..access import Identity
from ..asked import Asked

Fields = Mapping[str, str]


class Field(msgspec.Struct, frozen=True):
    """`kind`: text, area, tick, or hidden (`value` alone); `choices`: (value, label) to choose."""

    name: str
    label: str
    kind: str = "text"
    needed: bool = False
    value: str = ""
    hint: str = ""
    choices: Sequence[tuple[str, str]] = ()


class Asking(msgspec.Struct, frozen=True):
    """What a person is asked before an order: what it will do, to what, and why they want it."""

    title: str
    about: Sequence[tuple[str, str]]
    consequence: str
    fields: Sequence[Field]
    button: str
    back: str
    grave: bool = False


class Orderable(msgspec.Struct, frozen=True):
    """An order by its verb: `ask` looks at what it is about, `carry_out` says where to go then."""

    verb: str
    path: str
    knows: tuple[str, ...]
    ask: Callable[[Store, Asked], Asking]
    carry_out: Callable[[Store, Asked, Identity, Fields], str]


REASON = Field(
    "reason", "Reason", needed=True, hint="It goes on the record, with your name and the time."
)


def order_of(who: Identity, fields: Fields) -> Order:
    """Who wants it, and why. Raises UsageError where no reason is given."""
    reason = fields.get("reason", "").strip()
    return Order(who.name, named("the reason", reason, limits.REASON_CHARACTERS))


# -- of a task ---------------------------------------------------------------------------------


def _task_order(
    verb: str,
    ask: Callable[[Task], Asking],
    carry_out: Callable[[Store, Task, Identity, Fields], Any],
) -> Orderable:
    """An order about one task, which must be in a state that allows it."""

    def shown(store: Store, asked: Asked) -> Asking:
        return ask(_allowed(store, asked, verb))

    def done(store: Store, asked: Asked, who: Identity, fields: Fields) -> str:
        task = store.get(asked.one("id") or "")
        carry_out(store, task, who, fields)
        return f"/tasks/{task.id}"

    return Orderable(verb, f"/tasks/{{id}}/{verb}", ("id",), shown, done)


def _allowed(store: Store, asked: Asked, verb: str) -> Task:
    task = store.get(asked.one("id") or "")
    if task.state not in ALLOWED[verb]:
        raise NotAllowedNow(
            f"task {task.id} is {task.state}, and {verb} is for tasks that are "
            f"{' or '.join(sorted(ALLOWED[verb]))}; nothing was written"
        )
    return task


def _about(task: Task) -> list[tuple[str, str]]:
    state = f"{task.state}, epoch {task.epoch}" if task.epoch else task.state
    return [("Task", task.id), ("Agent", printable(task.agent)), ("State", state)]


def _ask_cancel(task: Task) -> Asking:
    held = task.state == "running"
    if held:
        consequence = (
            "Its owner is asked at its next heartbeat and stops the agent's code there. An effect "
            "that is under way is waited for within the owner's grace. A cancelled task does not "
            "go on, unless somebody retries it."
        )
    else:
        consequence = (
            "It has no owner, so it ends at once as cancelled. It does not go on, unless somebody "
            "retries it."
        )
    force = Field(
        "force",
        "By force: take the lease away and end it now",
        "tick",
        hint="Its code may still be running, and what it is doing outside stays unknown.",
    )
    fields = [REASON, force] if held else [REASON]
    return Asking(
        "Cancel a task", _about(task), consequence, fields, "Cancel this task",
        f"/tasks/{task.id}", grave=True,
    )  # fmt: skip


def _cancel(store: Store, task: Task, who: Identity, fields: Fields) -> None:
    answer = store.cancel(task.id, order_of(who, fields), force="force" in fields)
    if answer.state == "ended":
        raise NotAllowedNow(
            f"task {task.id} had ended before ({answer.task.state}); nothing was changed"
        )


def _ask_retry(task: Task) -> Asking:
    doubts = json_value(task.doubts) or []
    doubtful = (
        f" What is in doubt ({printable(', '.join(doubts), 200)}) is not settled by this: the next "
        "owner resolves it by the tool's policy, or asks a person again."
        if doubts
        else ""
    )
    consequence = (
        "It is ready again at once, for any worker. What it has on record is kept and not done "
        f"again; its counts of failures and resumes begin anew.{doubtful}"
    )
    return Asking(
        "Retry a task", _about(task), consequence, [REASON], "Retry this task", f"/tasks/{task.id}"
    )


def _retry(store: Store, task: Task, who: Identity, fields: Fields) -> None:
    store.retry(task.id, order_of(who, fields))


def _ask_revoke(task: Task) -> Asking:
    consequence = (
        f"Its owner (epoch {task.epoch}) can write nothing from then on, though its code may run "
        "on for a while. Another worker may have the task when the old lease would have ended."
    )
    at_once = Field(
        "now",
        "At once: do not wait for the old lease's end",
        "tick",
        hint="Code of the old owner may then run beside that of the next one.",
    )
    return Asking(
        "Revoke a lease", _about(task), consequence, [REASON, at_once], "Take the task away",
        f"/tasks/{task.id}", grave=True,
    )  # fmt: skip


def _revoke(store: Store, task: Task, who: Identity, fields: Fields) -> None:
    store.revoke(task.id, order_of(who, fields), now="now" in fields)


def _ask_signal(task: Task) -> Asking:
    waits = task.waiting_for if task.state == "waiting" else None
    consequence = (
        f"The task waits for {printable(waits)}: a signal of that name wakes it."
        if waits
        else "The signal is kept until the task waits for one of its name."
    )
    fields = [
        # One form sent twice is one signal.
        Field("id", "", "hidden", value=secrets.token_hex(16)),
        Field("name", "Name", needed=True, value=waits or ""),
        Field("payload", "Value, as JSON", "area", value="null", hint='Like true or {"ok": 1}.'),
    ]
    return Asking(
        "Send a signal", _about(task), consequence, fields, "Send the signal", f"/tasks/{task.id}"
    )


def _signal(store: Store, task: Task, who: Identity, fields: Fields) -> None:
    payload = fields.get("payload", "").strip() or "null"
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise UsageError(f"the value is not JSON ({error}); nothing was written") from error
    if len(payload) > limits.PAYLOAD_BYTES:
        raise UsageError(f"the value is over {limits.PAYLOAD_BYTES:,} bytes; nothing was written")
    name = named("the signal's name", fields.get("name", "").strip())
    signal_id = named("the signal's id", fields.get("id", ""))
    store.signal(task.id, Signal(signal_id, task.id, name, payload, who.name, 0))


# -- of an effect ------------------------------------------------------------------------------


def _ask_settle(store: Store, asked: Asked) -> Asking:
    effect = _effect(store, asked)
    task = store.get(effect.task_id)
    if effect.state not in IN_DOUBT or task.state not in ALLOWED["settle"]:
        raise NotAllowedNow(
            f"the effect {effect.key!r} is {effect.state.replace('_', ' ')} and its task "
            f"{task.state}: there is nothing for a person to say now"
        )
    about = [
        ("Effect", printable(effect.key, 200)),
        ("Tool", printable(effect.tool)),
        ("Task", f"{task.id} ({task.state})"),
    ]
    if effect.observed:
        about.append(("Observed too late", printable(effect.observed, 400)))
    choices = [("applied", "It was applied"), ("not_applied", "It was not, and never will be")]
    receipt = Field("receipt", "Receipt", hint="What shows that it was applied: JSON or text.")
    return Asking(
        "Settle a doubt",
        about,
        "Nobody knows whether this reached the world. Look it up there first: what you say is "
        "believed. The task goes on with it once it has no other doubt; not applied means that "
        "the task may do it again.",
        [Field("how", "How it ended", "choice", needed=True, choices=choices), receipt, REASON],
        "Settle it",
        "/effects",
        grave=True,
    )


def _settle(store: Store, asked: Asked, who: Identity, fields: Fields) -> str:
    how, receipt = fields.get("how"), fields.get("receipt", "").strip()
    order = order_of(who, fields)
    if how not in ("applied", "not_applied"):
        raise UsageError("say whether it was applied or not; nothing was written")
    if how == "applied" and not receipt:
        raise UsageError("what was applied has a receipt to show for it; nothing was written")
    if how == "not_applied" and receipt:
        raise UsageError("what was not applied has no receipt; nothing was written")
    effect = store.settle(
        asked.one("key") or "",
        order,
        applied=how == "applied",
        receipt=json_value(receipt) if receipt else None,
    )
    return f"/tasks/{effect.task_id}"


def _effect(store: Store, asked: Asked) -> Effect:
    key = asked.one("key") or ""
    found = store.find_effects(EffectQuery(key=key, limit=1))
    if not found:
        raise UnknownEffect(key)
    return found[0]


# -- of workers --------------------------------------------------------------------------------


def _ask_drain(store: Store, asked: Asked) -> Asking:
    workers = _meant(store, asked)
    names = ", ".join(f"{printable(w.host, 40)}/{w.pid}" for w in workers[:10])
    more = f" and {len(workers) - 10} more" if len(workers) > 10 else ""
    one, build = asked.one("worker"), asked.one("build")
    target = "this worker" if one else f"build {printable(build)}" if build else "all workers"
    everybody = " Nothing runs until other workers start." if not one and not build else ""
    return Asking(
        f"Drain {target}",
        [("Workers", f"{len(workers)}: {names}{more}")],
        "At its next heartbeat each takes no more tasks, hands over those it has at their next "
        f"step, spends no retry of theirs, and leaves. This cannot be taken back.{everybody}",
        [REASON],
        f"Drain {target}",
        "/drain",
        grave=not one,
    )


def _drain(store: Store, asked: Asked, who: Identity, fields: Fields) -> str:
    order = order_of(who, fields)
    _meant(store, asked)
    store.order_drain(order, worker_id=asked.one("worker"), build=asked.one("build"))
    return "/drain"


def _meant(store: Store, asked: Asked) -> list[Worker]:
    """The workers that an order is about. Raises UnknownWorker where there are none."""
    one, build = asked.one("worker"), asked.one("build")
    if [one is not None, build is not None, asked.one("all") is not None].count(True) != 1:
        raise UsageError("say one of worker, build or all; nothing was drained")
    there = [
        worker
        for worker in store.workers()
        if worker.state != "retired"
        and (one is None or worker.id == one)
        and (build is None or worker.build == build)
    ]
    if not there:
        raise UnknownWorker(one or (f"build {build}" if build else "any"))
    return there


ORDERS = (
    _task_order("cancel", _ask_cancel, _cancel),
    _task_order("retry", _ask_retry, _retry),
    _task_order("revoke", _ask_revoke, _revoke),
    _task_order("signal", _ask_signal, _signal),
    Orderable("settle", "/effects/settle", ("key",), _ask_settle, _settle),
    Orderable("order_drain", "/drain/order", ("worker", "build", "all"), _ask_drain, _drain),
)


def settle_address(key: str) -> str:
    return f"/effects/settle?key={quote(key, safe='')}"
