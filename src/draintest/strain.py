"""Strain: how little of the machine we had. A bound that is missed under it proves nothing."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .history import History, View, now_ms

EVERY_S = 0.25
LATE_MS = 150.0
# A quarter of the time with somebody waiting for a core: what is late may be late for that.
PRESSED_SHARE = 0.25
PRESSURE = Path("/proc/pressure/cpu")


class Gauge:
    """A thread that notes how late it was woken, and how long somebody waited for a core."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="strain")
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        before, waited = now_ms(), waited_ms()
        while not self._ended.wait(EVERY_S):
            now, total = now_ms(), waited_ms()
            late = now - before - EVERY_S * 1000
            share = (total - waited) / (now - before) if total else _crowd()
            if late > LATE_MS or share > PRESSED_SHARE:
                self._history.add(
                    "strain", since_ms=before, late_ms=round(late), pressed=round(share, 2)
                )
            before, waited = now, total


def waited_ms() -> float:
    """How long somebody has waited for a core since boot; 0 where the kernel does not say."""
    try:
        some = PRESSURE.read_text().split("\n", 1)[0]
    except OSError:
        return 0.0
    return float(some.rpartition("total=")[2]) / 1000


def strained(view: View, from_ms: float, to_ms: float) -> bool:
    """Whether the machine was short of cores, or slept, for a good part of this time."""
    spans = [(max(r["since_ms"], from_ms), min(r["t_ms"], to_ms), r) for r in view.of("strain")]
    overlaps = [(end - start, r) for start, end, r in spans if end > start]
    pressed = sum(length for length, r in overlaps if r["pressed"] > PRESSED_SHARE)
    late = sum(r["late_ms"] for _, r in overlaps if r["late_ms"] > LATE_MS)
    return bool(max(pressed, late) > 0.2 * (to_ms - from_ms))


def _crowd() -> float:
    """Without pressure figures: more runnable than cores is 1."""
    running = time.monotonic() and os.getloadavg()[0]
    return float(running > (os.cpu_count() or 1))
