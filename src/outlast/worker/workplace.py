"""What an attempt finds around it in its worker, the same for all attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core.clock import Env
from .store_clock import StoreClock
from .timers import Timers
from .writer import Writer

Value = TypeVar("Value")
OnEvent = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Workplace:
    """`tell(kind, facts)`: for whoever watches the worker. `poll_ms`: how often to look again."""

    worker_id: str
    env: Env
    loop: asyncio.AbstractEventLoop
    writer: Writer
    timers: Timers
    store_clock: StoreClock
    tell: OnEvent
    poll_ms: int


async def answered(asked: Future[Value]) -> Value:
    """Await what another thread answers. Cancelled: the question stands, only nobody listens."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[Value] = loop.create_future()

    def settle() -> None:
        if heard.done():
            return
        error = asked.exception()
        if error is not None:
            heard.set_exception(error)
        else:
            heard.set_result(asked.result())

    asked.add_done_callback(lambda _: loop.call_soon_threadsafe(settle))
    return await heard
