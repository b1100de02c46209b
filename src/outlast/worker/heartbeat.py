"""The heartbeat: one thread and one connection that renew every lease, and hear what is ordered.

Its answer is the only way in which the store talks to a worker: still yours, lost, cancel asked,
signals are there, drain. It decides nothing of its own; that trust has run out is seen by the
watch, which no hanging renewal can hold up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core import limits
from ..core.clock import Clock
from ..core.errors import Unavailable
from ..store.verbs import Heartbeat, Renewal, Renewed, Store
from .holding import Holding, Holdings
from .stop import Cause, Stop
from .store_clock import StoreClock


class Heart:
    """`tick` beats when a beat is due. `silent_ms`: since the last answer."""

    def __init__(
        self,
        worker_id: str,
        holdings: Holdings,
        open_store: Callable[[], Store],
        clock: Clock,
        store_clock: StoreClock,
        *,
        ttl_ms: int,
        on_drain: Callable[[str], None],
        on_unknown: Callable[[Store], None],
        blocked_ms: Callable[[], int],
        tell_failure: Callable[[Exception], None],
    ) -> None:
        self._worker_id = worker_id
        self._holdings = holdings
        self._open_store = open_store
        self._store: Store | None = None
        self._clock = clock
        self._store_clock = store_clock
        self._ttl_ms = ttl_ms
        self._on_drain = on_drain
        self._on_unknown = on_unknown
        self._blocked_ms = blocked_ms
        self._tell_failure = tell_failure
        self._due_ms = 0
        self._answered_ms = clock.monotonic_ms()
        self._refused: tuple[int, int] | None = None  # the first and the last beat that failed
        self._in_flight_ms: int | None = None  # since when one waits for its answer

    @property
    def silent_ms(self) -> int:
        return self._clock.monotonic_ms() - self._answered_ms

    def refused_alone(self, written_ms: int) -> bool:
        """Whether all renewals have failed or hung for two TTLs, but a write got through.

        `written_ms`: when the last write was answered. Not the silence counts: it was a pause of
        the whole process, perhaps. And where nothing can be written, renewals are not alone.
        """
        now_ms, refused, in_flight_ms = (
            self._clock.monotonic_ms(),
            self._refused,
            self._in_flight_ms,
        )
        tries: list[int] = list(refused or ())
        tries += [in_flight_ms, now_ms] if in_flight_ms is not None else []
        if not tries or now_ms - max(tries) > 2 * self._ttl_ms:
            return False
        still_after = max(tries) - written_ms >= self._ttl_ms // limits.BEATS_PER_TTL
        return now_ms - min(tries) >= 2 * self._ttl_ms and min(tries) <= written_ms and still_after

    def tick(self) -> int:
        """Renew everything if it is time; ms until the next beat."""
        now_ms = self._clock.monotonic_ms()
        # A lease with a shorter life than the others may have come since.
        due_ms = min(self._due_ms, self._answered_ms + self._beat_ms())
        if now_ms < due_ms:
            return due_ms - now_ms
        try:
            self._store = self._store or self._open_store()
            asked_again = self._beat(self._store)
        except Unavailable as error:
            self._tell_failure(error)
            asked_again = True
        wait_ms = self._beat_ms()
        if asked_again:
            wait_ms = max(limits.RESEND_MS, min(wait_ms // 4, limits.RESEND_MAX_MS))
        self._due_ms = self._clock.monotonic_ms() + wait_ms
        if not asked_again:
            self._due_ms = now_ms + wait_ms
        return max(0, self._due_ms - self._clock.monotonic_ms())

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _beat_ms(self) -> int:
        return self._holdings.shortest_ttl_ms(self._ttl_ms) // limits.BEATS_PER_TTL

    def _beat(self, store: Store) -> bool:
        """Send one renewal for all; whether some of them must be asked again soon."""
        again = False
        held = self._holdings.held()
        batches = [
            held[i : i + limits.RENEW_BATCH] for i in range(0, len(held), limits.RENEW_BATCH)
        ]
        for batch in batches or [[]]:
            sent_ms = self._in_flight_ms = self._clock.monotonic_ms()
            try:
                answer = store.renew(
                    self._worker_id, self._renewals(batch), loop_blocked_ms=self._blocked_ms()
                )
            except Exception:
                self._note_refusal(sent_ms)
                raise
            finally:
                self._in_flight_ms = None
            self._answered_ms = self._clock.monotonic_ms()
            if batch:  # a beat without leases is no renewal
                self._refused = None
            again |= self._hear(store, batch, answer, sent_ms)
        return again

    def _note_refusal(self, sent_ms: int) -> None:
        """One after another counts from the first; one that stands alone is forgotten in time."""
        before = self._refused
        goes_on = before is not None and sent_ms - before[1] <= 2 * self._ttl_ms
        first_ms = before[0] if before is not None and goes_on else sent_ms
        self._refused = (first_ms, self._clock.monotonic_ms())

    def _renewals(self, held: Sequence[Holding]) -> list[Renewal]:
        now_ms = self._clock.monotonic_ms()
        return [
            Renewal(h.task_id, h.grant.lease.grant, max(0, now_ms - h.progress_ms), h.doing)
            for h in held
        ]

    def _hear(self, store: Store, held: Sequence[Holding], answer: Heartbeat, sent_ms: int) -> bool:
        self._store_clock.tell(answer.now_ms)
        again = False
        for holding in held:
            renewed = answer.leases.get(holding.task_id)
            if renewed is not None:
                again |= hear(holding, renewed, sent_ms)
        if not answer.known:
            self._on_unknown(store)
        if answer.drain:
            self._on_drain(answer.drain_by or "the store")
        return again


def hear(holding: Holding, renewed: Renewed, sent_ms: int) -> bool:
    """What an answer means for one lease; whether it must be asked again."""
    if renewed.state == "lost":
        # One that is being let go at this moment is no longer held either: its pen knows better.
        if holding.acting and not (holding.attempt and holding.attempt.pen.let_go):
            holding.order(Stop(Cause.LOST, "the store has given the lease to nobody or another"))
        return False
    if renewed.state == "held":
        # Counted from before the request was sent: a slow answer must not lengthen our trust.
        holding.renewed(sent_ms)
    if renewed.cancel_ms is not None:
        holding.order(
            Stop(
                Cause.CANCEL,
                renewed.cancel_why or "",
                by=renewed.cancel_by,
                asked_ms=renewed.cancel_ms,
            )
        )
    holding.signals = renewed.signals
    return renewed.state == "again"
