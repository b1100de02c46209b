"""SIGTERM and SIGINT, heard on a thread: a blocked event loop must not make a worker deaf."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

HEARD = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Within `with`, `hear(number)` is called for each signal, on a thread of its own.

    The interpreter writes the number into a pipe at the moment the signal comes, whatever the main
    thread does; only that one may ask for this, so elsewhere nothing is heard.
    """

    def __init__(self, hear: Callable[[int], None]) -> None:
        self._hear = hear
        self._here = threading.current_thread() is threading.main_thread()
        self._before: dict[int, Any] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Signals:
        if self._here:
            self._reads, self._writes = os.pipe()
            os.set_blocking(self._writes, False)
            self._wakeup_before = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
            for number in HEARD:
                self._before[number] = signal.signal(number, lambda *_: None)
            threading.Thread(target=self._listen, name="outlast-signals", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._here:
            signal.set_wakeup_fd(self._wakeup_before)
            for number, handler in self._before.items():
                signal.signal(number, handler)
            os.close(self._writes)

    def _listen(self) -> None:
        while heard := os.read(self._reads, 64):
            for number in heard:
                if number in HEARD:
                    self._hear(number)
        os.close(self._reads)
