"""One client of a store: submits tasks, and gives a handle for each.

Safe to share between threads: each call takes one of at most eight connections of its own, and
hands it back; a forked child opens new ones. Requests that name what they make are sent again when
the store could not be reached; orders that could then hit something else are not.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ..core import limits, payload
from ..core.clock import Env
from ..core.durations import Duration
from ..core.errors import Unavailable
from ..settings import Settings
from ..store.open import open_store
from ..store.submission import Submission, new_task, whoami
from ..store.verbs import Order, Query, Store
from .aio import Aio
from .handle import TaskHandle
from .pool import Pool

Answer = TypeVar("Answer")


def connect(db: str | None = None, *, env: Env | None = None, by: str | None = None) -> Client:
    """A client of the store at `db`, or OUTLAST_DB, or the settings file, or ./.outlast/outlast.db.

    `by`: who its orders are from, user@host where it is not said. Nothing is opened before the
    first call. Raises BadSetting.
    """
    settings = Settings()
    return Client(settings.db(db), env=env, by=by or settings.text("by") or whoami())


class Client:
    """Submits tasks to one store, and finds them again. `aio` holds the same as coroutines."""

    def __init__(self, db: str, *, env: Env | None = None, by: str = "") -> None:
        self.db, self.by = db, by
        self.env = env or Env()
        # Only the file of one machine is made on the way; a server's schema is somebody's decision.
        create = db.startswith("sqlite:")
        self._pool = Pool(lambda: open_store(db, env=self.env, create=create))

    def submit(
        self,
        agent: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 (the word of the record)
        *,
        key: str | None = None,
        queue: str = "default",
        priority: int = 0,
        delay: Duration = 0,
        labels: Mapping[str, str] | None = None,
    ) -> TaskHandle:
        """Store a task for `agent`, whose arguments by name are `input`; returns its handle.

        `key`: the same key gives the same task back, so that a submit may be repeated.
        `priority`: higher ones first. `delay`: not before that much time has passed.
        Once this returns, the task is on disk. An agent that no worker knows yet is accepted.
        Raises KeyReused, NotSerializable, PayloadTooLarge, BadSetting, Unavailable.
        """
        wanted = Submission(
            agent=agent,
            input={} if input is None else input,
            key=key,
            queue=queue,
            priority=priority,
            delay=delay,
            labels=labels,
        )
        return self.submit_many([wanted])[0]

    def submit_many(
        self, submissions: Sequence[Submission | tuple[str, Mapping[str, Any]]]
    ) -> list[TaskHandle]:
        """Store many tasks, in order; all or none of each thousand. Raises as `submit`."""
        tasks = [new_task(one, self.env, self.by) for one in submissions]
        handles: list[TaskHandle] = []
        for start in range(0, len(tasks), limits.SUBMIT_BATCH):
            batch = tasks[start : start + limits.SUBMIT_BATCH]
            stored = self.ask(lambda store, batch=batch: store.submit(batch))  # type: ignore[misc]
            handles += [TaskHandle(self, one.task.id, created=one.created) for one in stored]
        return handles

    def task(self, task_id: str) -> TaskHandle:
        """A handle of a task; a unique beginning of its id will do. Raises UnknownTask."""
        return TaskHandle(self, self.ask(lambda store: store.get(task_id)).id)

    def find(
        self, *, key: str | None = None, labels: Mapping[str, str] | None = None, limit: int = 100
    ) -> list[TaskHandle]:
        """Handles of the newest tasks that have this submit key or these labels."""
        query = Query(key=key, labels=payload.labels(labels), limit=limit)
        found = self.ask(lambda store: store.find(query))
        return [TaskHandle(self, held.task.id) for held in found]

    @functools.cached_property
    def aio(self) -> Any:
        """This client for async code: `await client.aio.submit(...)`."""
        return Aio(self)

    def ask(self, request: Callable[[Store], Answer], *, again: bool = True) -> Answer:
        """The answer of a store to a request, which is sent again where `again` allows it.

        Raises Unavailable when the tries are spent.
        """
        tries = limits.CLIENT_TRIES if again else 1
        for attempt in range(1, tries + 1):
            try:
                with self._pool.store() as store:
                    return request(store)
            except Unavailable:
                if attempt == tries:
                    raise
            time.sleep(self.env.random.uniform(0.5, 1) * 0.1 * 4 ** (attempt - 1))
        raise AssertionError("unreachable")

    def order(self, why: str, by: str | None = None) -> Order:
        return Order(by or self.by or whoami(), why[: limits.REASON_CHARACTERS])

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
