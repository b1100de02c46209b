"""A remembered answer: asked of the store once in a while, however many want it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ..store.verbs import Store

Answer = TypeVar("Answer")
# What took long to find out is believed so many times as long.
TIMES_AS_LONG = 10


class Remembered(Generic[Answer]):
    """What `ask` said of a store, believed for `believed_s`, longer where it took long."""

    def __init__(self, ask: Callable[[Store], Answer], believed_s: float) -> None:
        self._ask, self._believed_s = ask, believed_s
        self._lock = threading.Lock()
        self._kept: Answer | None = None
        self._until_s = 0.0

    def of(self, store: Store) -> Answer:
        """The answer; raises what the store raises, and then remembers nothing new."""
        # Asked under the lock: who comes meanwhile waits for this answer and asks no other.
        with self._lock:
            began_s = time.monotonic()
            if self._kept is None or began_s >= self._until_s:
                self._kept = self._ask(store)
                took_s = time.monotonic() - began_s
                self._until_s = began_s + max(self._believed_s, TIMES_AS_LONG * took_s)
            return self._kept

    def forget(self) -> None:
        """The next one asks anew: something was just changed from here."""
        self._until_s = 0.0

    @property
    def last(self) -> Answer | None:
        """The last answer, however old; None: there never was one."""
        return self._kept
