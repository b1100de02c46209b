"""Waiting for something outside the test, with a deadline and a reason."""

import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

POLL_S = 0.01


class NeverHappened(AssertionError):
    """What the test waited for did not happen before its deadline."""


def until(
    condition: Callable[[], Seen | None],
    what: str,
    *,
    timeout_s: float = 10.0,
    detail: Callable[[], str] = str,
) -> Seen:
    """Ask `condition` again and again, and return its first true answer.

    `what` completes the sentence "waited ... s for"; `detail` is asked only when it never came.
    Raises NeverHappened.
    """
    deadline = time.monotonic() + timeout_s
    while not (seen := condition()):
        if time.monotonic() > deadline:
            raise NeverHappened(f"waited {timeout_s:g} s for {what} {detail()}".rstrip())
        time.sleep(POLL_S)
    return seen
