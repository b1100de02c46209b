"""Strain: how slow the machine was. A bound that was missed by little under it proves nothing.

A probe does what a heartbeat does: it wakes at its time, works for some milliseconds, and syncs a
file. What that took beyond the ideal, any process of the target may have had to bear as well, a
few times over for something that takes a few such acts.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .history import History, View, now_ms

EVERY_S = 0.25
WORK_MS = 4.0
TOLD_FROM_MS = 30.0
# A bound covers several such acts, one after the other.
ACTS = 5


class Gauge:
    """The probe, as a thread; it writes down what it had to bear."""

    def __init__(self, history: History, folder: Path) -> None:
        self._history, self._path = history, folder / "strain"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="strain")
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(timeout=5)
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        with self._path.open("wb", buffering=0) as file:
            before = now_ms()
            while not self._ended.wait(EVERY_S):
                late_ms = now_ms() - before - EVERY_S * 1000
                work()
                os.pwrite(file.fileno(), b"x" * 4096, 0)
                os.fsync(file.fileno())
                stall_ms = now_ms() - before - EVERY_S * 1000 - WORK_MS
                if stall_ms > TOLD_FROM_MS:
                    self._history.add(
                        "strain", since_ms=before, late_ms=round(late_ms), stall_ms=round(stall_ms)
                    )
                before = now_ms()


def work() -> None:
    """Some milliseconds of a core's time, however long that takes."""
    until_s = time.thread_time() + WORK_MS / 1000
    while time.thread_time() < until_s:
        pass


def explains(view: View, from_ms: float, to_ms: float, overrun_ms: float) -> bool:
    """Whether what the probe had to bear in this time may be why a bound was missed by so much."""
    stalls = [
        record["stall_ms"]
        for record in view.of("strain")
        if record["since_ms"] < to_ms and record["t_ms"] > from_ms
    ]
    return overrun_ms < ACTS * max(stalls, default=0)
