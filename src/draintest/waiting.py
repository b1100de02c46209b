"""Waiting for something outside, with a deadline; who waits decides what its absence means."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
