"""One task, seen by who submitted it: its result, and what may be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ..core import limits, payload
from ..core.durations import Duration, duration_ms
from ..core.errors import TaskCancelled, TaskFailed, Unavailable
from ..core.lifecycle import body_of
from ..core.model import Effect, Event, Signal, Task
from ..store.verbs import CancelAnswer, EffectQuery
from .aio import Aio
from .waits import Pauses, waits

if TYPE_CHECKING:
    from .client import Client


class TaskHandle:
    """A task of a store. `created`: False where the submit key had given it out before."""

    def __init__(self, client: Client, task_id: str, *, created: bool = False) -> None:
        self.id, self.created = task_id, created
        self._client = client

    def __repr__(self) -> str:
        return f"<task {self.id}>"

    def status(self) -> Task:
        """The task as the store has it now. Raises UnknownTask, Unavailable."""
        return self._client.ask(lambda store: store.get(self.id))

    @waits
    def result(self, timeout: Duration | None = None) -> Pauses[Any]:
        """What the agent returned, once it has; waits for it, for ever where no timeout is given.

        Raises TaskFailed, TaskCancelled; TimeoutError while it has not ended (one in review waits
        for a person, and has not); Unavailable when the store was away for a minute.
        """
        task = yield from self.until_ended(timeout)
        return self._result_of(task)

    @waits
    def wait(
        self, timeout: Duration | None = None, *, stop_in_review: bool = False
    ) -> Pauses[Task]:
        """The task once it has ended, however it did; raises TimeoutError, Unavailable."""
        return (yield from self.until_ended(timeout, stop_in_review=stop_in_review))

    def cancel(self, reason: str, *, force: bool = False) -> CancelAnswer:
        """Ask its owner to stop, or end it now where it has none.

        `force`: take the lease away and end it now; code may still be running (`running_on`).
        A task that has ended otherwise stays as it is (`ended`). Raises UnknownTask.
        """
        order = self._client.order(reason)
        return self._client.ask(lambda store: store.cancel(self.id, order, force=force))

    def signal(self, name: str, value: Any = None, *, id: str | None = None) -> bool:  # noqa: A002
        """Send a message that `ctx.wait(name)` receives; kept until then.

        `id`: sent twice with the same one, it is one signal; False: it was there already.
        Raises NotAllowedNow (the task has ended), NotSerializable.
        """
        sent = Signal(
            id=payload.name("the signal's id", id) if id else self._client.env.new_id(),
            task_id=self.id,
            name=payload.name("the signal's name", name),
            payload=payload.payload_text(value, f"the signal {name!r}"),
            sent_by=self._client.by,
            sent_ms=0,
        )
        return self._client.ask(lambda store: store.signal(self.id, sent))

    def retry(self, reason: str = "asked for") -> Task:
        """Open an ended or reviewed task again; not sent twice. Raises NotAllowedNow."""
        order = self._client.order(reason)
        return self._client.ask(lambda store: store.retry(self.id, order), again=False)

    def effects(self) -> list[Effect]:
        """What it did, or tried to do, to the outside world."""
        query = EffectQuery(task_id=self.id, limit=limits.READ_BATCH)
        return self._client.ask(lambda store: store.find_effects(query))

    def log(self, *, after: int = 0, limit: int = limits.READ_BATCH) -> list[Event]:
        """Its log from the event after `after` on, oldest first."""
        return self._client.ask(lambda store: store.read(self.id, after=after, limit=limit))

    @property
    def aio(self) -> Any:
        """This handle for async code: `await task.aio.result()`."""
        return Aio(self)

    def until_ended(
        self, timeout: Duration | None, *, stop_in_review: bool = False
    ) -> Pauses[Task]:
        """Look, pause, look again, ever less often; an outage of the store is waited out."""
        clock = self._client.env.clock
        started = seen_at = clock.monotonic_ms()
        limit_ms = None if timeout is None else duration_ms(timeout, "timeout")
        pause_ms = limits.CLIENT_POLL_MIN_MS
        while True:
            task, away = self._look()
            now = clock.monotonic_ms()
            if task is not None:
                seen_at = now
                if task.ended or (stop_in_review and task.state == "review"):
                    return task
            left_ms = pause_ms if limit_ms is None else limit_ms - (now - started)
            if away is not None and (left_ms <= 0 or now - seen_at > limits.CLIENT_OUTAGE_MS):
                raise away
            if task is not None and left_ms <= 0:
                raise TimeoutError(_still(task, timeout))
            yield min(pause_ms, left_ms)
            pause_ms = min(pause_ms * 3 // 2, limits.CLIENT_POLL_MAX_MS)

    def _result_of(self, task: Task) -> Any:
        if task.state == "failed":
            raise TaskFailed(task.id, task.reason, error_text(task.error))
        if task.state == "cancelled":
            # A task without an owner is ended by the order itself: only its last event says why.
            end = self._client.ask(lambda store: store.last(task.id, "task.cancelled"))
            said = {} if end is None else body_of(end)
            raise TaskCancelled(task.id, said.get("by"), said.get("why"))
        return None if task.result is None else msgspec.json.decode(task.result)

    def _look(self) -> tuple[Task | None, Unavailable | None]:
        try:
            return self._client.ask(lambda store: store.get(self.id), again=False), None
        except Unavailable as away:
            return None, away


def error_text(error: str | None) -> str | None:
    """`Type: message` of an error as the store keeps it."""
    if error is None:
        return None
    kept = msgspec.json.decode(error)
    if not isinstance(kept, dict):
        return str(kept)
    return ": ".join(str(kept[part]) for part in ("type", "message") if kept.get(part))


def _still(task: Task, timeout: Duration | None) -> str:
    told = "; a person must settle it (`outlast show`)" if task.state == "review" else ""
    return f"task {task.id} has not ended after {timeout}: it is {task.state}{told}. It goes on"
