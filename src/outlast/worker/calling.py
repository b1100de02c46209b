"""How a function of the agent is called: async or plain, within a time limit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import tracing
from .timers import TimeLimit

if TYPE_CHECKING:
    from .attempt import Attempt


async def call(
    attempt: Attempt,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    what: str,
    timeout_ms: int | None,
    keywords: dict[str, Any] | None = None,
    on_late: Callable[[Any], None] | None = None,
) -> Any:
    """What `function(*args)` returns: awaited, or on a thread of its own. Raises TimeoutError."""
    attempt.open_calls += 1
    attempt.holding.doing = what
    try:
        with tracing.act(what, attempt.facts):
            async with TimeLimit(attempt.workplace.timers, timeout_ms, what):
                if is_async(function):
                    return await function(*args, **(keywords or {}))
                value = await attempt.threads.call(
                    function, *args, on_late=on_late, **(keywords or {})
                )
                return await value if inspect.isawaitable(value) else value
    finally:
        attempt.open_calls -= 1
        attempt.holding.doing = None


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine, without blocking the event loop."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
    )
