"""Tells the store of a worker that was seen to die, so that its leases need not run out."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from ..core import limits
from ..core.clock import Env
from ..core.errors import Forbidden, OutlastError, Unavailable
from ..store.open import open_store, sqlite_path
from .death import Death


class Recorder:
    """`tell(kind, facts)`: says a line to whoever reads. A process of its own runs `record`.

    So a store that hangs holds up neither the supervisor nor the next worker.
    """

    def __init__(
        self, db: str, env: Env, tell: Callable[[str, dict[str, Any]], None], ttl_ms: int
    ) -> None:
        self._db, self._env, self._tell, self._ttl_ms = db, env, tell, ttl_ms

    def record(self, worker_id: str, death: Death, next_ms: int | None) -> bool:
        """End its leases and say so; whether the store knows. Tries for a TTL: then they lapse.

        `next_ms`: until another process takes its place; None: none does.
        """
        facts = {"worker": worker_id, "pid": death.pid, "how": death.how, "next_ms": next_ms}
        clock, parent = self._env.clock, os.getppid()
        give_up_ms, pause_ms = clock.monotonic_ms() + self._ttl_ms, limits.RESTART_MS
        said = False
        while True:
            try:
                ended = self._crash(worker_id, death)
                if ended or death.signal or said:
                    self._say({**facts, "leases": ended})
                return True
            except Unavailable as error:
                if not said:
                    self._say({**facts, "leases": None, "why": str(error)})
                    said = True
            except OutlastError as error:
                self._say({**facts, "leases": None, "why": str(error)})
                return False
            # Whoever has ended our parent wants no process to stay.
            if clock.monotonic_ms() > give_up_ms or os.getppid() != parent:
                return False
            time.sleep(pause_ms / 1_000)
            pause_ms = min(2 * pause_ms, limits.RESEND_MAX_MS)

    def _say(self, facts: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # nobody need read it
            self._tell("worker.died", facts)

    def _crash(self, worker_id: str, death: Death) -> int:
        if self._db.startswith("sqlite:") and not sqlite_path(self._db).exists():
            return 0  # it died before it had made one
        store = open_store(self._db, env=self._env, ttl_ms=self._ttl_ms)
        try:
            by = f"process {os.getppid()} on {socket.gethostname()}: {death.how}"
            # First: a claim of its that is still on its way to the database gets nothing then.
            store.retire(worker_id)
            return len(store.crash(worker_id, by=by))
        except Forbidden:
            return 0  # a server knows no such worker: it died before it was enlisted
        finally:
            store.close()
