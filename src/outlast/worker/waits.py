"""Waits: for a signal, or for a time. A long one lets the lease go, and no worker is held.

A short one, and one beside which something else of the attempt runs, is waited out in place.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from ..core import limits
from ..core.codec import ANY, Codec
from ..core.durations import Duration, duration_ms, optional_ms
from ..core.model import Signal, Turned
from ..core.replay import Call, Record, scoped
from ..core.text import named
from .current import current_scope
from .stop import Cause, Stop
from .writer import draft

if TYPE_CHECKING:
    from .attempt import Attempt


async def wait(attempt: Attempt, name: str, timeout: Duration | None, as_type: Any = ANY) -> Any:
    """The payload of the next signal of that name. Raises TimeoutError."""
    named("a signal's name", name)
    timeout_ms = optional_ms(timeout, "timeout")
    asked = _numbered(attempt, scoped(current_scope.get(), name))
    record = await _ended(attempt, asked, name, timeout_ms)
    if record.cause == "timeout":
        raise TimeoutError(f"no signal {name!r} came in time")
    payload = record.result if record.result is not None else b"null"
    return Codec(as_type).read(payload, f"the payload of the signal {name!r}")


async def sleep(attempt: Attempt, duration: Duration) -> None:
    """Until so long after the first life called it."""
    ms = duration_ms(duration, "a sleep")
    asked = _numbered(attempt, scoped(current_scope.get(), "sleep"))
    await _ended(attempt, asked, None, ms)


async def sleep_under(attempt: Attempt, name: str, ms: int) -> None:
    """A sleep of Outlast's own, with a name of its own."""
    await _ended(attempt, _numbered(attempt, scoped(current_scope.get(), name)), None, ms)


def _numbered(attempt: Attempt, name: str) -> Call:
    asked = attempt.numbered("wait", name)
    if asked.record is not None and asked.record.kind != "wait":
        raise attempt.mismatch(asked.key, f"is on record as a {asked.record.kind}, not as a wait")
    return asked


async def _ended(attempt: Attempt, asked: Call, name: str | None, limit_ms: int | None) -> Record:
    """The wait's end: as recorded, or when it comes."""
    if asked.record is not None and asked.record.answered:
        return asked.record
    attempt.check()
    waiting = Waiting(attempt, asked, name)
    return await waiting.until(limit_ms)


class Waiting:
    """One wait that has not ended. `said`: whether its beginning and its time are on the log."""

    def __init__(self, attempt: Attempt, asked: Call, name: str | None) -> None:
        self.attempt = attempt
        self.key = asked.key
        self.name = name
        self.said = asked.record is not None
        self.until_ms = asked.record.until_ms if asked.record is not None else None

    async def until(self, limit_ms: int | None) -> Record:
        """Begin it, or go on with one that was begun in a life before."""
        if not self.said and limit_ms is not None:
            self.until_ms = self.attempt.workplace.store_clock.now_ms() + limit_ms
        task = asyncio.current_task()
        assert task is not None
        self.attempt.parked.add(task)
        self.attempt.waits.add(self)
        try:
            return await self._until()
        finally:
            self.attempt.waits.discard(self)
            self.attempt.parked.discard(task)

    async def _until(self) -> Record:
        while True:
            signal = await self._signal()
            if signal is not None:
                return await self._end("signal", signal)
            left_ms = self._left_ms()
            if left_ms is not None and left_ms <= 0:
                return await self._end("timer" if self.name is None else "timeout")
            self.attempt.check()
            if (left_ms is None or left_ms > limits.MOMENT_MS) and self._alone():
                await self._let_go()
            if not self.said:
                # Its time is on the log before it is waited for: a new life waits no longer.
                await self._say_started()
            await self._in_place(left_ms)

    def _left_ms(self) -> int | None:
        now_ms = self.attempt.workplace.store_clock.now_ms()
        return None if self.until_ms is None else self.until_ms - now_ms

    def _alone(self) -> bool:
        """Whether nothing else of the attempt runs, so that it can be ended here.

        A task's row names one signal to be woken by: two waits for different ones keep the lease.
        """
        attempt = self.attempt
        others = attempt.tasks - attempt.parked
        names = {each.name for each in attempt.waits if each.name is not None}
        quiet = not others and not attempt.open_calls and not attempt.threads.busy
        return quiet and len(names) <= 1

    async def _in_place(self, left_ms: int | None) -> None:
        poll_ms = self.attempt.workplace.poll_ms
        wait_ms = poll_ms if left_ms is None else max(1, min(poll_ms, left_ms))
        await self.attempt.pause(wait_ms, till_stirred=True)

    async def _let_go(self) -> None:
        """Give the lease back; returns only if there is something to look at after all."""
        attempt = self.attempt
        if len(attempt.waits) > 1 and not self.said:
            await self._say_started()
        told = await attempt.first_act()
        if not self._alone():
            attempt.untell(told)
            return
        waits = draft("wait.started", self._until_any(), lets_go=True)
        answer = await attempt.hear(attempt.workplace.writer.append(attempt.pen, *told, waits))
        if isinstance(answer, Turned) and answer.why == "signal_waiting":
            attempt.untell(told)
            return
        attempt.accepted(answer, told)
        attempt.holding.order(Stop(Cause.SUSPENDED, f"the task waits ({self.key})"))
        attempt.check()

    def _until_any(self) -> dict[str, Any]:
        """The wait that stands for all that are open: the one for a signal, till the first time."""
        waits = sorted(self.attempt.waits, key=lambda each: (each.name is None, each is not self))
        times = [each.until_ms for each in waits if each.until_ms is not None]
        body = {"key": waits[0].key, "name": waits[0].name}
        return {**body, "until_ms": min(times, default=None)}

    async def _signal(self) -> Signal | None:
        if self.name is None:
            return None
        unread = await self.attempt.ask(lambda store: store.signals(self.attempt.task.id))
        taken = self.attempt.signals_taken
        return next((s for s in unread if s.name == self.name and s.id not in taken), None)

    async def _say_started(self) -> None:
        self.said = True
        body = {"key": self.key, "name": self.name, "until_ms": self.until_ms}
        await self.attempt.write(draft("wait.started", body))

    async def _end(self, cause: str, signal: Signal | None = None) -> Record:
        """`wait.ended`: it consumes the signal, in its own transaction."""
        body: dict[str, Any] = {"key": self.key, "name": self.name, "cause": cause}
        payload = None
        if signal is not None:
            # Two waits of one name look at the same signals; each is one's only.
            self.attempt.signals_taken.add(signal.id)
            payload = msgspec.Raw(signal.payload.encode())
            body |= {"signal": signal.id, "payload": payload, "by": signal.sent_by}
        await self.attempt.write(draft("wait.ended", body))
        self.attempt.check()
        return Record(self.key, "wait", "done", cause=cause, result=payload)
