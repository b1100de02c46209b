"""What an attempt finds around it in its worker, the same for all attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.clock import Env
from .reply import Ear
from .store_clock import StoreClock
from .timers import Timers
from .writer import Writer

OnEvent = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Workplace:
    """`tell(kind, facts)`: for whoever watches the worker. `poll_ms`: how often to look again."""

    worker_id: str
    env: Env
    loop: asyncio.AbstractEventLoop
    ear: Ear
    writer: Writer
    timers: Timers
    store_clock: StoreClock
    tell: OnEvent
    poll_ms: int
