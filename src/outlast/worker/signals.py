"""SIGTERM and SIGINT, heard on a thread: a blocked event loop must not make a worker deaf."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any

from .parent import Parent

HEARD = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Within `with`, `hear(number)` is called for each signal, on a thread of its own.

    The interpreter writes the number into a pipe at the moment the signal comes, whatever the main
    thread does; only that one may ask for this, so elsewhere nothing is heard. What comes by
    `parent` is heard too, once, where it also came by itself. `orphaned()` is called once that is
    dead.
    """

    def __init__(
        self,
        hear: Callable[[int], None],
        parent: Parent | None = None,
        orphaned: Callable[[], None] = lambda: None,
    ) -> None:
        self._hear, self._parent, self._orphaned = hear, parent, orphaned
        self._orders, self._lock = Orders(), threading.Lock()
        self._here = threading.current_thread() is threading.main_thread()
        self._before: dict[int, Any] = {}
        self._forks = threading.local()
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        if self._here:
            self._reads, self._writes = os.pipe()
            os.set_blocking(self._writes, False)
            self._wakeup_before = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
            for number in HEARD:
                self._before[number] = signal.signal(number, lambda *_: None)
            threading.Thread(target=self._listen, name="outlast-signals", daemon=True).start()
            os.register_at_fork(
                before=self._hold_back,
                after_in_parent=self._let_come,
                after_in_child=self._be_forked,
            )
        if self._parent is not None:
            self._parent.attach(lambda number: self._count(number, "parent"), self._orphaned)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._here:
            self._hear_no_more()

    def _hear_no_more(self) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._here = False
        os.close(self._writes)

    # What ends a process that an agent has forked is no order to the worker: that process would
    # write into this very pipe, and not even end.

    def _hold_back(self) -> None:
        self._forks.mask = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)

    def _let_come(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forks.mask)

    def _be_forked(self) -> None:
        if self._here:
            self._hear_no_more()
            os.close(self._reads)
        self._let_come()

    def _listen(self) -> None:
        while heard := os.read(self._reads, 64):
            for number in heard:
                if number in HEARD:
                    self._count(number, "itself")
        os.close(self._reads)

    def _count(self, number: int, way: str) -> None:
        with self._lock:
            is_new = self._orders.come(number, way)
        if is_new:
            self._hear(number)


class Orders:
    """Orders that come two ways: Ctrl-C and systemd tell parent and child alike.

    Of each signal, as many have been given as came by the way on which more came.
    """

    def __init__(self) -> None:
        self._came: dict[str, Counter[int]] = {"itself": Counter(), "parent": Counter()}

    def come(self, number: int, way: str) -> bool:
        """Count one; whether it is one that had not come the other way yet."""
        self._came[way][number] += 1
        counts = [came[number] for came in self._came.values()]
        return self._came[way][number] == max(counts) and counts.count(max(counts)) == 1
