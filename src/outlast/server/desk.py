"""A desk: a few threads, each with a store of its own, that carry out what requests ask for.

Heartbeats have a desk to themselves, so that no list, export or slow append can delay one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from ..core.errors import OutlastError, Unavailable, UsageError
from ..store.database import Unstorable
from ..store.verbs import Store

Answer = TypeVar("Answer")


class Busy(OutlastError):
    """So much waits already that this was not begun."""

    exit_code = 69
    http_status = 503


class Desk:
    """Carries out requests, `threads` at a time; at most `waiting_max` wait for their turn."""

    def __init__(
        self, name: str, open_store: Callable[[], Store], *, threads: int, waiting_max: int
    ) -> None:
        self._open_store, self._limit = open_store, threads + waiting_max
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"outlast-{name}")
        self._here = threading.local()
        self._lock = threading.Lock()
        self._opened: set[Store] = set()
        self._asked = 0

    async def ask(self, request: Callable[[Store], Answer]) -> Answer:
        """The answer of a store. Raises Busy, Unavailable, and what the verb raises."""
        if self._asked >= self._limit:
            raise Busy(f"{self._asked} requests wait already; this one was not begun. Ask again")
        self._asked += 1
        try:
            loop = asyncio.get_running_loop()
            # Who has gone away does not stop what has been begun: it may be asked again.
            return await loop.run_in_executor(self._executor, self._carry_out, request)
        finally:
            self._asked -= 1

    def close(self) -> None:
        """Let what is being done come to its end; the rest is not begun."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        for store in self._opened:
            with suppress(Unavailable):
                store.close()

    def _carry_out(self, request: Callable[[Store], Answer]) -> Answer:
        store: Store | None = getattr(self._here, "store", None)
        if store is None:
            store = self._here.store = self._open_store()
            with self._lock:
                self._opened.add(store)
        try:
            return request(store)
        except Unstorable as error:
            raise UsageError(f"a value cannot be stored ({error}); nothing was written") from error
        except Unavailable:
            self._here.store = None
            with self._lock:
                self._opened.discard(store)
            with suppress(Unavailable):
                store.close()
            raise
