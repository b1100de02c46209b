"""Stores for many threads: each is used by one thread at a time, and handed back.

A store is one connection. A client shared by the threads of a web application opens as many as are
used at once, up to a limit, and the newest is taken first, so that a quiet client keeps one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..core import limits
from ..core.errors import Unavailable
from ..store.verbs import Store


class Pool:
    """At most `size` open stores; a store that raised Unavailable is closed, not handed back."""

    def __init__(
        self,
        open_one: Callable[[], Store],
        *,
        size: int = limits.CLIENT_CONNECTIONS,
        wait_s: float = limits.CONNECT_TIMEOUT_S,
    ) -> None:
        self._open_one, self._size, self._wait_s = open_one, size, wait_s
        self._begin()

    @contextmanager
    def store(self) -> Iterator[Store]:
        """A store for this thread, until the block ends. Raises Unavailable, SchemaMismatch."""
        if os.getpid() != self._pid:
            # A forked child must not speak on its parent's connections, nor close them.
            self._abandoned.append(self._idle)
            self._begin()
        if not self._room.acquire(timeout=self._wait_s):
            raise Unavailable(
                f"all {self._size} connections of this client are busy ({self._wait_s:g} s)",
                "its other threads hold them",
            )
        try:
            yield from self._lend()
        finally:
            self._room.release()

    def close(self) -> None:
        """Close what is idle; what is lent closes when it comes back."""
        with self._lock:
            self._closed = True
        self._drop(*self._all_idle())

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(self._size)
        self._idle: list[Store] = []
        # Kept alive: to collect a store would close the parent's connection under it.
        self._abandoned: list[list[Store]] = getattr(self, "_abandoned", [])
        self._closed = False

    def _lend(self) -> Iterator[Store]:
        with self._lock:
            store = self._idle.pop() if self._idle else None
        if store is None:
            store = self._open_one()
        try:
            yield store
        except Unavailable:
            # What cut this connection has most likely cut the idle ones as well.
            self._drop(store, *self._all_idle())
            raise
        except Exception:
            self._take_back(store)
            raise
        except BaseException:
            # Interrupted in the middle of a request: its answer must not be read by the next one.
            self._drop(store)
            raise
        self._take_back(store)

    def _take_back(self, store: Store) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(store)
                return
        self._drop(store)

    def _all_idle(self) -> list[Store]:
        with self._lock:
            idle, self._idle = self._idle, []
        return idle

    def _drop(self, *stores: Store) -> None:
        for store in stores:
            with suppress(Unavailable):
                store.close()
