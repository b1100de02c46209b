"""The client for async code, made from the plain one: every method a coroutine.

`await client.aio.submit(...)` runs `client.submit(...)` in a thread; what it returns has coroutines
for methods too. A wait (`result`) holds no thread between two looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from .waits import Pauses, pauses_of


class Aio:
    """Stands for a client or a handle; its methods are coroutines, its other attributes as are."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._plain, name)
        if not callable(found):
            return found
        pauses = pauses_of(found)
        if pauses is not None:
            return _coroutine_of(lambda *a, **n: _pause(pauses(self._plain, *a, **n)))
        return _coroutine_of(lambda *a, **n: asyncio.to_thread(found, *a, **n))

    def __repr__(self) -> str:
        return f"<aio of {self._plain!r}>"


def _coroutine_of(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def method(*args: Any, **named: Any) -> Any:
        return _wrapped(await call(*args, **named))

    return method


async def _pause(pauses: Pauses[Any]) -> Any:
    """Each look in a thread, each pause in the loop."""
    while True:
        pause_ms, answer = await asyncio.to_thread(_next, pauses)
        if pause_ms is None:
            return answer
        await asyncio.sleep(pause_ms / 1000)


def _next(pauses: Pauses[Any]) -> tuple[int | None, Any]:
    try:
        return next(pauses), None
    except StopIteration as end:
        return None, end.value


def _wrapped(answer: Any) -> Any:
    """Handles stay async: those of our own package are wrapped, in lists too."""
    if isinstance(answer, list):
        return [_wrapped(one) for one in answer]
    return Aio(answer) if hasattr(type(answer), "aio") else answer
