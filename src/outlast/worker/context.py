"""What an agent may ask of Outlast: steps, effects, waits, checkpoints. Async, and plain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError as FutureCancelled
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.codec import ANY
from ..core.durations import Duration
from .act import OnUnknown
from .branches import gather
from .current import current_context, current_key
from .effects import effect
from .steps import checkpoint, note, read_back, step, transaction
from .waits import sleep, wait

if TYPE_CHECKING:
    from .attempt import Attempt

Value = TypeVar("Value")


class Context:
    """The first argument of an async agent. Every call may raise AttemptEnded: let it pass."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    # -- what is recorded -------------------------------------------------------------------------

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        retries: int | None = None,
        backoff: Duration | None = None,
        backoff_max: Duration | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """`function(*args)`, once recorded never run again; the recorded result.

        `retries`, `backoff`: after an error of the function. `timeout`: of each try. Raises what
        the function raised, NotSerializable and PayloadTooLarge for a result with no JSON.
        """
        return await step(
            self._attempt, name, function, args, retries, backoff, backoff_max, timeout
        )

    async def effect(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        key: str | None = None,
        tool: str | None = None,
        on_unknown: OnUnknown = "ask",
        not_done: tuple[type[BaseException], ...] = (),
        retries: int | None = None,
        backoff: Duration | None = None,
        backoff_max: Duration | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """`function(*args)` as an act on the outside world: begun on the log before it is called.

        `key`: an idempotency key shared by all tasks; default: one of this task's own. A parameter
        named `idempotency_key` is given it. `on_unknown`: what to do when nobody knows whether it
        happened: "ask" a person, "retry" with the same key, or a probe `probe(key)` that returns
        the result, or None if it did not happen. `not_done`: errors that say that nothing reached
        the world, besides NotDone; only they are retried, `retries` times, with the same key.
        `tool`: its name in the ledger and the metrics.
        """
        return await effect(
            self._attempt,
            name,
            function,
            args,
            key=key,
            tool=tool,
            on_unknown=on_unknown,
            not_done=not_done,
            retries=retries,
            backoff=backoff,
            backoff_max=backoff_max,
            timeout=timeout,
        )

    async def transaction(
        self, name: str, function: Callable[..., Any], *args: Any, timeout: Duration | None = None
    ) -> Any:
        """`function(connection, *args)` in one transaction with the record that it was done.

        For effects in the store's own database: exactly once. A plain function that neither commits
        nor rolls back; `connection` is sqlite3's or psycopg's. Keep it short, all tasks of this
        worker wait for it: its statements are broken off after `timeout` (one second), and
        TimeoutError is raised.
        """
        return await transaction(self._attempt, name, function, args, timeout)

    async def wait(self, name: str, timeout: Duration | None = None, *, as_type: Any = ANY) -> Any:
        """The payload of the next signal of that name, sent before or after; holds no worker.

        Raises TimeoutError when `timeout` has passed first.
        """
        return await wait(self._attempt, name, timeout, as_type)

    async def sleep(self, duration: Duration) -> None:
        """Go on after so long, perhaps on another worker."""
        await sleep(self._attempt, duration)

    async def checkpoint(self, state: Any) -> None:
        """Replay from here on: the next life finds `state` in `restored`, and nothing before it."""
        await checkpoint(self._attempt, state)

    async def note(self, text: str, data: Any = None) -> None:
        """Say on the log what is being done; counts as progress, and is never replayed."""
        await note(self._attempt, text, data)

    async def gather(self, *branches: Awaitable[Any] | Callable[[], Awaitable[Any]]) -> list[Any]:
        """Run branches side by side, each with keys of its own; their results in order.

        If one raises, the others are cancelled and its error is raised.
        """
        return await gather(self._attempt, branches)

    # -- what is known ----------------------------------------------------------------------------

    @property
    def restored(self) -> Any:
        """The state of the last checkpoint, None if there is none.

        An agent that has made one must look here before its first act: all its code runs again.
        """
        self._attempt.has_restored = True
        state = self._attempt.memory.state
        if state is None:
            return None
        return read_back(self._attempt, "ctx.restored", self._attempt.spec.state, state)

    @property
    def task_id(self) -> str:
        return self._attempt.task.id

    @property
    def epoch(self) -> int:
        """The number of this lease, for providers that take a fencing token."""
        return self._attempt.epoch

    @property
    def attempt(self) -> int:
        """How many times the agent has been tried, failures counted: 1 at first."""
        return self._attempt.task.failures + 1

    @property
    def draining(self) -> bool:
        """Whether the worker is handing over: the next call will end this attempt."""
        return self._attempt.holding.stop is not None

    @property
    def key(self) -> str | None:
        """The idempotency key, while an effect's tool runs."""
        return current_key.get()


class PlainContext:
    """The first argument of a plain agent: the same names as `Context`, blocking."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    def step(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._bridge(self._context.step, name, function, *args, **options)

    def effect(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self._bridge(self._context.effect, name, function, *args, **options)

    def transaction(
        self, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        return self._bridge(self._context.transaction, name, function, *args, **options)

    def wait(self, name: str, timeout: Duration | None = None, *, as_type: Any = ANY) -> Any:
        return self._bridge(self._context.wait, name, timeout, as_type=as_type)

    def sleep(self, duration: Duration) -> None:
        self._bridge(self._context.sleep, duration)

    def checkpoint(self, state: Any) -> None:
        self._bridge(self._context.checkpoint, state)

    def note(self, text: str, data: Any = None) -> None:
        self._bridge(self._context.note, text, data)

    def gather(self, *branches: Callable[[], Any]) -> list[Any]:
        """Run plain functions without arguments side by side, each with keys of its own."""
        threads = self._context._attempt.threads
        calls = [lambda branch=branch: threads.call(branch) for branch in branches]
        return list(self._bridge(self._context.gather, *calls))

    restored = property(lambda self: self._context.restored)
    task_id = property(lambda self: self._context.task_id)
    epoch = property(lambda self: self._context.epoch)
    attempt = property(lambda self: self._context.attempt)
    draining = property(lambda self: self._context.draining)
    key = property(lambda self: self._context.key)

    def _bridge(self, call: Callable[..., Awaitable[Value]], *args: Any, **options: Any) -> Value:
        """The one place where a thread waits for the event loop."""
        attempt = self._context._attempt
        ends: list[BaseException] = []

        async def called() -> Any:
            # Counted here and not by the thread, which may be long in going to sleep and in waking.
            attempt.threads.bridged += 1
            try:
                return await call(*args, **options)
            except (SystemExit, KeyboardInterrupt) as error:
                # asyncio would let it through and end the event loop, with all other attempts.
                ends.append(error)
            finally:
                attempt.threads.bridged -= 1

        try:
            value = asyncio.run_coroutine_threadsafe(called(), self._loop).result()
        except FutureCancelled:
            stop = attempt.holding.stop
            if stop is None:
                raise
            raise stop.as_error() from None
        if ends:
            raise ends[0]
        return value  # type: ignore[no-any-return]


def current() -> Context | None:
    """The context of the attempt that this code runs in, None outside of one."""
    return current_context.get()
