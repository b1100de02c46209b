"""What another thread will answer: a reply, and the ear with which an event loop hears it.

Every step waits for one. concurrent.futures has the same in general: with a lock and a condition
for each, and a system call for each that an event loop hears.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

Value = TypeVar("Value")


class Reply(Generic[Value]):
    """Given once, by one thread; `done`, `result` and `exception` as of a Future."""

    __slots__ = ("_callbacks", "_error", "_given", "_value")

    def __init__(self) -> None:
        self._callbacks: deque[Callable[[Reply[Value]], Any]] = deque()
        self._given = False
        self._value: Value | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return self._given

    def exception(self) -> BaseException | None:
        """The error, of a reply that was given."""
        return self._error

    def result(self, timeout_s: float | None = 0) -> Value:
        """The value, or its error raised; raises TimeoutError where there is none in time."""
        if not self._given:
            came = threading.Event()
            self.add_done_callback(lambda _: came.set())
            if not came.wait(timeout_s):
                raise TimeoutError("there is no reply yet")
        if self._error is not None:
            raise self._error
        return cast(Value, self._value)

    def set_result(self, value: Value) -> None:
        self._value, self._given = value, True
        self._call_back()

    def set_exception(self, error: BaseException) -> None:
        self._error, self._given = error, True
        self._call_back()

    def add_done_callback(self, call: Callable[[Reply[Value]], Any]) -> None:
        """`call(reply)` once it is given, on the thread that gives it; now, if it was."""
        self._callbacks.append(call)
        if self._given:
            self._call_back()

    def _call_back(self) -> None:
        # Without a lock: whoever takes one out calls it, and both sides come here after theirs.
        with suppress(IndexError):
            while True:
                self._callbacks.popleft()(self)


class Ear:
    """Hears replies for one event loop: many that come together cost it one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._came: deque[tuple[Reply[Any], asyncio.Future[Any]]] = deque()
        self._woken = False

    async def hear(self, reply: Reply[Value]) -> Value:
        """The reply. Cancelled: the question stands, only nobody listens."""
        heard: asyncio.Future[Value] = self._loop.create_future()
        reply.add_done_callback(lambda given: self._take(given, heard))
        return await heard

    def _take(self, reply: Reply[Any], heard: asyncio.Future[Any]) -> None:
        self._came.append((reply, heard))
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop has been closed: the process is on its way out
                self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self._woken = False  # first: what comes from now on wakes it again
        while self._came:
            reply, heard = self._came.popleft()
            if heard.done():
                continue
            error = reply.exception()
            if error is not None:
                heard.set_exception(error)
            else:
                heard.set_result(reply.result())
