"""A wait written once: a generator that says how long to pause, driven by a thread or by asyncio.

Under `@waits` a method yields how many milliseconds to pause, and returns its answer in the end.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator
from typing import Any, Concatenate, ParamSpec, TypeVar

Said = ParamSpec("Said")
Answer = TypeVar("Answer")
Owner = TypeVar("Owner")
Pauses = Generator[int, None, Answer]


def waits(
    steps: Callable[Concatenate[Owner, Said], Pauses[Answer]],
) -> Callable[Concatenate[Owner, Said], Answer]:
    """The blocking form of a wait; `pauses_of` finds the generator again for asyncio."""

    def blocking(self: Owner, /, *args: Said.args, **named: Said.kwargs) -> Answer:
        pauses = steps(self, *args, **named)
        while True:
            try:
                pause_ms = next(pauses)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            time.sleep(pause_ms / 1000)

    functools.update_wrapper(blocking, steps)
    blocking.pauses = steps  # type: ignore[attr-defined]
    return blocking


def pauses_of(method: Any) -> Callable[..., Pauses[Any]] | None:
    """The generator function behind a method made by `waits`, None for any other."""
    return getattr(method, "pauses", None)
