"""Verbs on tasks: submit, look, cancel, signal, retry, revoke."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..core import chain, limits
from ..core.errors import KeyReused, NotAllowedNow, PayloadTooLarge, UnknownTask, UsageError
from ..core.lifecycle import ALLOWED, born, text_of
from ..core.model import Effect, Event, Lease, Signal, Task, Worker
from ..core.text import checked, named
from .base import Verbs, keys_of
from .database import Call, Row, Session
from .verbs import CancelAnswer, Held, NewTask, Order, Query, Submitted
from .writing import HINT, Chapter, effect_of, lease_of, locked_task, task_of

OPEN_STATES = frozenset({"ready", "running", "waiting", "review"})


class TaskVerbs(Verbs):
    """What clients and operators ask of tasks."""

    # -- submit -------------------------------------------------------------------------------

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        if len(tasks) > limits.SUBMIT_BATCH:
            raise UsageError(
                f"{len(tasks):,} tasks in one submit, the limit is {limits.SUBMIT_BATCH:,}; "
                "nothing was written"
            )
        for task in tasks:
            _check_new(task)
        return self._with_patience("submit", lambda: self._submit(tasks))

    def _submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        with self.database.transaction() as session:
            now_ms = session.run("read_clock")[0]["now_ms"]
            events = [_first_event(new, now_ms) for new in tasks]
            born_now = [born(event) for event in events]
            calls: list[Call] = [
                ("insert_tasks", {"tasks": text_of(born_now)}),
                ("first_events", {"events": text_of(events)}),
            ]
            if any(task.due_ms <= now_ms for task in born_now):
                calls.append(HINT)
            created = {row["id"] for row in session.send(calls)[0]}
            return [
                Submitted(task, created=True) if task.id in created else self._there(session, new)
                for new, task in zip(tasks, born_now, strict=True)
            ]

    def _there(self, session: Session, new: NewTask) -> Submitted:
        """The task that has this id or key already. Raises KeyReused if it is another one."""
        # In a new statement: whoever has this key may have committed while we waited for it.
        found = session.run("get_task", task_id=new.id)
        if not found and new.key is not None:
            found = session.run("get_task_by_key", key=new.key)
        there = task_of(found[0])
        if there.agent != new.agent or _canonical(there.input) != _canonical(new.input):
            raise KeyReused(new.key or new.id, there.id)
        return Submitted(there, created=False)

    # -- look ---------------------------------------------------------------------------------

    def get(self, task_id: str) -> Task:
        rows = self.database.once("get_task", task_id=task_id)
        if not rows and len(task_id) >= 8:
            low, high = task_id, task_id + "\U0010ffff"
            rows = self.database.once("get_tasks_by_prefix", low=low, high=high)
            if len(rows) > 1:
                raise UsageError(f"more than one task begins with {task_id!r}; give more of its id")
        if not rows:
            raise UnknownTask(task_id)
        return task_of(rows[0])

    def find(self, query: Query) -> list[Held]:
        tasks: list[Task] = []
        after = query.after
        while len(tasks) < query.limit:
            rows = self._find_page(query, after)
            tasks += [task for task in map(task_of, rows) if _has_labels(task, query)]
            if len(rows) < query.limit:
                break
            after = rows[-1]["id"]
        return self._with_owners(tasks[: query.limit])

    def _find_page(self, query: Query, after: str | None) -> list[Row]:
        open_only = bool(query.states) and set(query.states) <= OPEN_STATES
        params: dict[str, Any] = {
            "states": keys_of(query.states),
            "queue": query.queue,
            "agent": query.agent,
            "key": query.key,
            "since_ms": query.since_ms,
            "text": _like(query.text and query.text.lower()),
            "label": _like(_first_label(query)),
            "after": after,
            "limit": query.limit,
        }
        if open_only:
            return self.database.once("find_open_tasks", **params)
        return self.database.once("find_tasks", any_state=int(not query.states), **params)

    def _with_owners(self, tasks: Sequence[Task]) -> list[Held]:
        if not tasks:
            return []
        ids = keys_of(task.id for task in tasks)
        leases = {
            r["task_id"]: lease_of(r) for r in self.database.once("leases_of_tasks", tasks=ids)
        }
        workers = {r["id"]: Worker(**r) for r in self.database.once("workers_of_tasks", tasks=ids)}
        effects: dict[str, dict[str, int]] = {}
        for row in self.database.once("count_effects", tasks=ids):
            effects.setdefault(row["task_id"], {})[row["state"]] = row["count"]
        now_ms = self.now_ms()

        def held(task: Task) -> Held:
            lease = leases.get(task.id)
            owner = workers.get(lease.worker) if lease else None
            return Held(task, lease, owner, effects.get(task.id, {}), now_ms)

        return [held(task) for task in tasks]

    # -- cancel -------------------------------------------------------------------------------

    def cancel(self, task_id: str, order: Order, *, force: bool = False) -> CancelAnswer:
        _check_order(order)
        task_id = self.get(task_id).id
        return self._past_the_frozen("cancel", task_id, lambda: self._cancel(task_id, order, force))

    def _cancel(self, task_id: str, order: Order, force: bool) -> CancelAnswer:
        with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
            task = locked_task(session, task_id)
            if task.state == "cancelled":
                return CancelAnswer("cancelled", task)
            if task.ended:
                return CancelAnswer("ended", task)
            if task.state == "running":
                return self._cancel_running(session, task, order, force)
            now_ms = session.run("read_clock")[0]["now_ms"]
            chapter = Chapter(session, task, now_ms)
            end_cancelled(chapter, order.by, order.why, now_ms)
            chapter.close()
            return CancelAnswer("cancelled", chapter.task)

    def _cancel_running(
        self, session: Session, task: Task, order: Order, force: bool
    ) -> CancelAnswer:
        """Ask the owner; where it is dead by the clock, or by force, end its lease and the task."""
        now_ms = session.run("read_clock")[0]["now_ms"]
        lease = lease_of(session.run("lock_lease", task_id=task.id)[0])
        now_ms = max(now_ms, session.run("read_clock")[0]["now_ms"])
        lapsed = lease.expires_ms < now_ms
        if not force and not lapsed:
            session.run("ask_cancel", task_id=task.id, by=order.by, why=order.why)
            return CancelAnswer("asked", task_of(session.run("get_task", task_id=task.id)[0]))
        chapter = Chapter(session, task, now_ms, worker=lease.worker)
        if lapsed:
            end_lapsed(chapter, lease)
        else:
            body = {"by": order.by, "why": order.why, "progressed": progressed(session, task)}
            chapter.take_over("lease.revoked", body, lease)
        asked_ms = task.cancel_ms or now_ms
        end_cancelled(chapter, task.cancel_by or order.by, task.cancel_why or order.why, asked_ms)
        chapter.close(("delete_lease", {"task_id": task.id, "epoch": lease.epoch}))
        return CancelAnswer("cancelled", chapter.task, running_on=owner_of(session, lease))

    # -- signal, retry, revoke ----------------------------------------------------------------

    def signal(self, task_id: str, signal: Signal) -> bool:
        named("the signal's name", signal.name)
        _check_payload(signal.payload)
        task_id = self.get(task_id).id
        return self._with_patience("signal", lambda: self._signal(task_id, signal))

    def _signal(self, task_id: str, signal: Signal) -> bool:
        with self.database.transaction() as session:
            task = locked_task(session, task_id)
            allow("signal", task, session)
            kept = session.run(
                "insert_signal",
                id=signal.id,
                task_id=task_id,
                name=signal.name,
                payload=signal.payload,
                sent_by=signal.sent_by,
            )
            if task.state == "waiting" and task.waiting_for == signal.name:
                session.send([("wake_task", {"task_id": task_id}), HINT])
            return bool(kept)

    def signals(self, task_id: str) -> list[Signal]:
        return [Signal(**row) for row in self.database.once("read_signals", task_id=task_id)]

    def retry(self, task_id: str, order: Order) -> Task:
        _check_order(order)
        task_id = self.get(task_id).id
        return self._with_patience("retry", lambda: self._retry(task_id, order))

    def _retry(self, task_id: str, order: Order) -> Task:
        with self.database.transaction() as session:
            task = locked_task(session, task_id)
            allow("retry", task, session)
            now_ms = session.run("read_clock")[0]["now_ms"]
            chapter = Chapter(session, task, now_ms)
            chapter.add("task.reopened", {"by": order.by, "why": order.why})
            chapter.close()
            return chapter.task

    def revoke(self, task_id: str, order: Order, *, now: bool = False) -> Task:
        _check_order(order)
        task_id = self.get(task_id).id
        return self._past_the_frozen("revoke", task_id, lambda: self._revoke(task_id, order, now))

    def _revoke(self, task_id: str, order: Order, now: bool) -> Task:
        with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
            task = locked_task(session, task_id)
            allow("revoke", task, session)
            lease = lease_of(session.run("lock_lease", task_id=task.id)[0])
            now_ms = session.run("read_clock")[0]["now_ms"]
            chapter = Chapter(session, task, now_ms, worker=lease.worker)
            body = {
                "by": order.by,
                "why": order.why,
                "progressed": progressed(session, task),
                "due_ms": now_ms if now else max(now_ms, lease.expires_ms),
            }
            chapter.take_over("lease.revoked", body, lease)
            answer_cancel(chapter)
            chapter.close(("delete_lease", {"task_id": task.id, "epoch": lease.epoch}))
            return chapter.task


# -- what several verbs write ------------------------------------------------------------------


def allow(verb: str, task: Task, session: Session) -> None:
    """Raises NotAllowedNow if the task's state does not allow what is asked."""
    if task.state in ALLOWED[verb]:
        return
    rows = session.run("get_lease", task_id=task.id)
    owner = f", owned by {owner_of(session, lease_of(rows[0]))}" if rows else ""
    can = ", ".join(sorted(ALLOWED[verb]))
    if verb == "settle" and rows:
        can += (
            "; its owner is to say how it ended, and `outlast revoke` ends the lease of a dead one"
        )
    raise NotAllowedNow(
        f"task {task.id} is {task.state} ({task.reason}){owner}: {verb} needs one of {can}; "
        "nothing was written"
    )


def owner_of(session: Session, lease: Lease) -> str:
    """Where the owner's code runs, for people."""
    rows = session.run("get_worker", worker=lease.worker)
    place = f"{rows[0]['host']}, pid {rows[0]['pid']}" if rows else "a worker that is not known"
    return f"{place} (worker {lease.worker}, epoch {lease.epoch})"


def progressed(session: Session, task: Task) -> bool:
    """Whether the lease that runs now has had a result."""
    return bool(session.run("has_result_since", task_id=task.id, after=task.head_seq))


def end_lapsed(chapter: Chapter, lease: Lease) -> None:
    """`lease.expired`: from here on the old owner is fenced out, before any heir exists."""
    task = chapter.task
    had_result = progressed(chapter.session, task)
    in_a_row = 1 if had_result else task.resumes + 1
    body = {
        "worker": lease.worker,
        "epoch": lease.epoch,
        "expires_ms": lease.expires_ms,
        "progressed": had_result,
        "due_ms": chapter.now_ms + resume_delay_ms(in_a_row),
    }
    chapter.take_over("lease.expired", body, lease)


def resume_delay_ms(in_a_row: int) -> int:
    """None for the first, then doubling (source: semantics, "Claim, heartbeat, expiry")."""
    if in_a_row <= 1:
        return 0
    doublings = min(in_a_row - 2, 30)
    return min(limits.RESUME_BACKOFF_MS << doublings, limits.RESUME_BACKOFF_MAX_MS)


def end_cancelled(chapter: Chapter, by: str, why: str, asked_ms: int) -> None:
    body = {"by": by, "why": why, "asked_ms": asked_ms}
    chapter.end("task.cancelled", body, open_intents(chapter.session, chapter.task.id))


def answer_cancel(chapter: Chapter) -> bool:
    """Whoever takes a task from its owner answers the cancel request that the owner left unread."""
    task = chapter.task
    if task.cancel_ms is None or task.ended:
        return False
    end_cancelled(chapter, task.cancel_by or "", task.cancel_why or "", task.cancel_ms)
    return True


def open_intents(session: Session, task_id: str) -> list[Effect]:
    return [effect_of(row) for row in session.run("open_intents", task_id=task_id)]


# -- small things ------------------------------------------------------------------------------


def _check_input(text: str) -> None:
    if len(text) > limits.PAYLOAD_BYTES:
        raise PayloadTooLarge("the input", len(text), limits.PAYLOAD_BYTES)
    try:
        value = msgspec.json.decode(text)
    except (
        msgspec.DecodeError,
        msgspec.ValidationError,
        UnicodeEncodeError,
        RecursionError,
    ) as error:
        half = ", or it holds half a surrogate pair" if "\\ud" in text.lower() else ""
        raise UsageError(f"the input is not JSON ({error}{half}); nothing was written") from error
    if not isinstance(value, dict):
        raise UsageError(
            f"the input is {type(value).__name__}, not an object with the agent's arguments by "
            "name; nothing was written"
        )


def _check_new(new: NewTask) -> None:
    _check_input(new.input)
    named("the agent's name", new.agent)
    named("the queue's name", new.queue)
    checked("the id", new.id)
    checked("the labels", str(dict(new.labels)), limits.REASON_CHARACTERS)
    if new.key is not None:
        named("the submit key", new.key, limits.KEY_CHARACTERS)
    if abs(new.priority) > 2**31 or not 0 <= new.delay_ms < 2**45:
        raise UsageError("priority or delay is out of range; nothing was written")


def _check_order(order: Order) -> None:
    checked("who asks", order.by)
    checked("the reason", order.why, limits.REASON_CHARACTERS)


def _first_event(new: NewTask, now_ms: int) -> Event:
    body = {
        "agent": new.agent,
        "input": msgspec.Raw(new.input.encode()),
        "key": new.key,
        "by": new.by,
        "queue": new.queue,
        "priority": new.priority,
        "due_ms": now_ms + new.delay_ms,
        "labels": dict(new.labels),
    }
    quote = chain.Quote.start(new.id)
    entry = chain.entry(quote, 0, holder=0, kind="task.submitted", body=text_of(body), at_ms=now_ms)
    return entry.event


def _canonical(text: str) -> bytes:
    """The same for the same JSON, whatever the order of its names; true is not 1, nor 1 1.0."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    except msgspec.DecodeError:
        return text.encode()


def _check_payload(payload: str) -> None:
    """What a waiting agent would read again in each life. Raises UsageError, PayloadTooLarge."""
    if len(payload) > limits.PAYLOAD_BYTES:
        raise PayloadTooLarge("the signal's payload", len(payload), limits.PAYLOAD_BYTES)
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise UsageError(
            f"the signal's payload is no JSON ({error}); nothing was written"
        ) from error


def _like(text: str | None) -> str | None:
    if text is None:
        return None
    escaped = text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{escaped}%"


def _first_label(query: Query) -> str | None:
    """As it stands in a row: what has not even this is not worth reading."""
    for name, value in query.labels.items():
        return msgspec.json.encode({name: value}).decode()[1:-1]
    return None


def _has_labels(task: Task, query: Query) -> bool:
    if not query.labels:
        return True
    labels = msgspec.json.decode(task.labels)
    return all(labels.get(name) == value for name, value in query.labels.items())
