"""Branches side by side, each with keys of its own, whatever the order in which they run."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import AttemptEnded
from ..core.replay import branch_scope, key_of, scoped
from .current import current_scope

if TYPE_CHECKING:
    from .attempt import Attempt

Branch = Awaitable[Any] | Callable[[], Awaitable[Any]]


async def gather(attempt: Attempt, branches: Sequence[Branch]) -> list[Any]:
    """Run all; an order to stop lets each reach its own boundary, an error cancels the others."""
    name = scoped(current_scope.get(), "gather")
    number = attempt.memory.counts[name] = attempt.memory.counts.get(name, 0) + 1
    key = key_of(name, number)
    tasks = [_started(branch, branch_scope(key, i)) for i, branch in enumerate(branches)]
    parent = asyncio.current_task()
    assert parent is not None
    attempt.parked.add(parent)
    try:
        await _until_done_or_failed(tasks)
    finally:
        attempt.parked.discard(parent)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in _failures_first(tasks):
        task.result()
    return [task.result() for task in tasks]


def _started(branch: Branch, scope: str) -> asyncio.Task[Any]:
    context = contextvars.copy_context()
    context.run(current_scope.set, scope)

    async def run() -> Any:
        try:
            return await (branch() if callable(branch) else branch)
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio would let it through and end the event loop, with all other attempts.
            raise RuntimeError(f"a branch raised {type(error).__name__}") from error

    return asyncio.get_running_loop().create_task(run(), context=context)


async def _until_done_or_failed(tasks: Sequence[asyncio.Task[Any]]) -> None:
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if any(_failed(task) for task in done):
            return


def _failed(task: asyncio.Task[Any]) -> bool:
    """Whether the others need not go on. Being told to stop is no failure: they are told too."""
    if task.cancelled():
        return True
    error = task.exception()
    return error is not None and not isinstance(error, AttemptEnded)


def _failures_first(tasks: Sequence[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """In the order in which their ends are raised: stops, errors, cancelled ones, results."""

    def rank(task: asyncio.Task[Any]) -> int:
        if task.cancelled():
            return 2
        error = task.exception()
        if error is None:
            return 3
        return 0 if isinstance(error, AttemptEnded) else 1

    return sorted(tasks, key=rank)
