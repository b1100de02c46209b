"""Waiting for something outside, with a deadline; who waits decides what its absence means."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Seen = TypeVar("Seen")
POLL_S = 0.02
# Set when the run is broken off: whoever waits then stops waiting.
broken_off = threading.Event()


class BrokenOff(Exception):
    """The run was ended from outside, by Ctrl-C or SIGTERM."""


def until(
    condition: Callable[[], Seen | None], timeout_s: float, every_s: float = POLL_S
) -> Seen | None:
    """Ask again and again; the first true answer, or None when the time is up."""
    deadline = time.monotonic() + timeout_s
    while not (seen := condition()):
        if time.monotonic() > deadline:
            return None
        pause(every_s)
    return seen


def pause(seconds: float) -> None:
    """Let time pass. Raises BrokenOff if the run is."""
    if broken_off.wait(seconds):
        raise BrokenOff


def until_gone(condition: Callable[[], object], timeout_s: float) -> bool:
    """Wait for what is taken away to be gone: of all waiting, this alone is not broken off."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


@contextmanager
def breaking_off() -> Iterator[None]:
    """Within it Ctrl-C breaks the run off, and does nothing else, however often it is pressed: what
    the run has made is taken away to the end. Raises BrokenOff at its own end if that was so."""
    broken_off.clear()
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, lambda *_: broken_off.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if broken_off.is_set():
        raise BrokenOff
