"""The leases that this worker holds, as its threads share them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core import limits
from ..core.clock import Clock
from ..core.model import Grant
from .app import AgentSpec
from .stop import Cause, Stop, prevailing

if TYPE_CHECKING:
    from .attempt import Attempt


def margin_ms(ttl_ms: int) -> int:
    """How long before its expiry a lease is trusted no more."""
    return ttl_ms // limits.MARGINS_PER_TTL


class Holding:
    """A lease in this worker, from the grant until nothing of its attempt runs any more.

    `trusted_until_ms`: on the monotonic clock, counted from before the request was sent. Trust once
    lost is never regained. `acting`: agent code may be running. `stop`: the order to stop that
    prevails, given at `stop_ms`.
    """

    def __init__(self, grant: Grant, spec: AgentSpec, clock: Clock, trusted_until_ms: int) -> None:
        self.grant = grant
        self.spec = spec
        self.clock = clock
        self.ttl_ms = grant.lease.ttl_ms
        self.trusted_until_ms = trusted_until_ms
        self.begun_ms = clock.monotonic_ms()
        self.progress_ms = self.begun_ms
        self.doing: str | None = None
        self.acting = False
        self.stop: Stop | None = None
        self.stop_ms = 0
        self.attempt: Attempt | None = None
        self.deliver: Callable[[], None] = lambda: None
        self.signals = 0
        self.end_by_ms: int | None = None
        self._trust_lost = False
        self._lock = threading.Lock()

    @property
    def task_id(self) -> str:
        return self.grant.task.id

    @property
    def is_suspect(self) -> bool:
        return self.grant.task.resumes >= limits.SUSPECT_RESUMES

    def trusted(self) -> bool:
        """Whether the lease is surely ours at this moment."""
        with self._lock:
            if self.clock.monotonic_ms() >= self.trusted_until_ms:
                self._trust_lost = True
            return not self._trust_lost

    def renewed(self, sent_ms: int) -> None:
        """A renewal that was sent at `sent_ms` was answered."""
        if self.trusted():
            with self._lock:
                until_ms = sent_ms + self.ttl_ms - margin_ms(self.ttl_ms)
                self.trusted_until_ms = max(self.trusted_until_ms, until_ms)

    def order(self, stop: Stop) -> None:
        """Tell the attempt to stop, from any thread; the higher cause prevails."""
        with self._lock:
            told = prevailing(self.stop, stop)
            if told is self.stop:
                return
            if self.stop is None or (stop.at_once and not self.stop.at_once):
                self.stop_ms = self.clock.monotonic_ms()
            self.stop = told
        self.deliver()


class Holdings:
    """All leases of this worker, and the attempts of lost ones that have not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[str, Holding] = {}  # by grant: a task may have an old attempt here too

    def add(self, holding: Holding) -> None:
        with self._lock:
            self._all[holding.grant.lease.grant] = holding

    def drop(self, holding: Holding) -> None:
        with self._lock:
            self._all.pop(holding.grant.lease.grant, None)

    def all(self) -> list[Holding]:
        with self._lock:
            return list(self._all.values())

    def held(self) -> list[Holding]:
        """Those whose lease is not known to be lost to somebody else."""
        return [h for h in self.all() if h.stop is None or h.stop.cause is not Cause.LOST]

    def shortest_ttl_ms(self, default_ms: int) -> int:
        return min((h.ttl_ms for h in self.held()), default=default_ms)
