"""Plain functions of agents, each on a thread of its own that the process need not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from .current import current_context


class Threads:
    """The threads of one attempt; it has not ended before they have."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Future[None]] = set()
        self.bridged = 0  # how many of them wait for an answer from the event loop

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def busy(self) -> bool:
        """Whether one of them runs code of the agent's own."""
        return len(self._running) > self.bridged

    async def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        on_late: Callable[[Any], None] | None = None,
        **keywords: Any,
    ) -> Any:
        """`function(...)` on a new thread, in this context.

        Cancelled: the thread goes on, and `on_late` hears what it returned in the end.
        """
        loop = self._loop
        answer: asyncio.Future[Any] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()
        self._running.add(ended)
        ended.add_done_callback(self._running.discard)
        context = contextvars.copy_context()

        def run() -> None:
            value: Any = None
            error: BaseException | None = None
            try:
                value = context.run(function, *args, **keywords)
            except StopIteration as stop:
                # A future cannot carry it: it would end a generator somewhere else.
                error = RuntimeError(f"the function raised StopIteration: {stop}")
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, answer, ended, value, error)
            except RuntimeError:  # the loop has been closed: the process is on its way out
                return

        name = f"outlast-agent-{getattr(function, '__name__', 'function')}"
        threading.Thread(target=run, name=name, daemon=True).start()
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            answer.add_done_callback(lambda told: _tell_late(told, on_late))
            raise

    def follow(self, call: Future[Any]) -> None:
        """Count a call on a thread of somebody else's until it has ended."""
        ended: asyncio.Future[None] = self._loop.create_future()
        self._running.add(ended)
        ended.add_done_callback(self._running.discard)

        def end(_: Future[Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(ended.set_result, None)

        call.add_done_callback(end)

    async def wait(self) -> None:
        """Until none of them runs."""
        while self._running:
            await asyncio.wait(set(self._running))


class FollowedPool(ThreadPoolExecutor):
    """asyncio's own pool: what `asyncio.to_thread` runs is something of its attempt, too.

    A coroutine that is cancelled leaves such a thread running; its lease must not go before it.
    """

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        made = super().submit(fn, *args, **kwargs)
        found = current_context.get()
        if found is not None:
            found._attempt.threads.follow(made)
        return made


def _tell_late(told: asyncio.Future[Any], on_late: Callable[[Any], None] | None) -> None:
    # The exception is looked at in any case, or asyncio complains that nobody has.
    if not told.cancelled() and told.exception() is None and on_late is not None:
        on_late(told.result())


def _settle(
    answer: asyncio.Future[Any],
    ended: asyncio.Future[None],
    value: Any,
    error: BaseException | None,
) -> None:
    if isinstance(error, FutureCancelled):
        answer.cancel()
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)
    # After the callbacks of the answer, so that what came late is known when the thread has ended.
    ended.get_loop().call_soon(ended.set_result, None)
