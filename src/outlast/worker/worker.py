"""A worker process: slots, threads, signals, and the way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core import limits
from ..core.clock import Env
from .app import App


def run(
    app: App,
    *,
    db: str,
    queues: Sequence[str] = ("default",),
    slots: int = 10,
    ttl_ms: int = limits.TTL_MS,
    grace_ms: int = limits.GRACE_MS,
    poll_ms: int = limits.POLL_MS,
    build: str = "",
    env: Env | None = None,
    on_event: Callable[[str, dict[str, Any]], None] | None = None,
) -> int:
    """Run a worker in this process until it is told to stop; the exit code.

    0: everything was handed over. 75: the grace ended first. 70: it ended itself after losing its
    leases. 69: the store could not be reached. SIGTERM and SIGINT drain, a second one ends at once.
    `on_event(kind, facts)`: called on some thread of the worker for each thing worth telling.
    Raises BadSetting, SchemaMismatch.
    """
    raise NotImplementedError
