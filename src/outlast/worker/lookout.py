"""The look-out: one thread and one connection that see what is ready and what has lapsed.

Once a poll: look, claim what there is room for, reap. Apart from the heartbeat, since a slow tick
or a blocked lock here must not delay it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..core import limits
from ..core.clock import Env
from ..core.errors import Unavailable
from ..core.model import Grant, Worker
from ..core.vigil import Vigil
from ..store.verbs import AgentLimits, Claim, HintsCome, Look, Reaped, Renewal, Store
from .heartbeat import hear
from .holding import Holding, Holdings, margin_ms
from .store_clock import StoreClock


class Lookout:
    """`tick` looks once. `room()`: free slots, 0 while nothing may be claimed."""

    def __init__(
        self,
        worker: Worker,
        agents: Mapping[str, AgentLimits],
        queues: Sequence[str],
        holdings: Holdings,
        open_store: Callable[[], Store],
        env: Env,
        store_clock: StoreClock,
        *,
        poll_ms: int,
        may_claim: Callable[[], bool],
        hold: Callable[[Grant, int], Holding],
        start: Callable[[Sequence[Holding]], None],
        tell: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._worker = worker
        self._agents = agents
        self._queues = queues
        self._holdings = holdings
        self._open_store = open_store
        self._store: Store | None = None
        self._env = env
        self._store_clock = store_clock
        self._poll_ms = poll_ms
        self._may_claim = may_claim
        self._hold = hold
        self._start = start
        self._tell = tell
        self._token: str | None = None
        self._answered_ms = env.clock.monotonic_ms()
        self._reached_since_ms: int | None = None
        self._vigil = Vigil()
        self._seen: Look | None = None
        self._was_hinted = False
        self._gap_ms = limits.HINT_GAP_MS
        self._follow_ms: int | None = None  # when to follow a hint that was heard
        self._deaf = False
        self._timeline: str | None = None
        self._may_claim_from_ms = 0
        self._swept_ms = env.clock.monotonic_ms()

    @property
    def silent_ms(self) -> int:
        """Since the store answered last."""
        return self._env.clock.monotonic_ms() - self._answered_ms

    @property
    def reached_ms(self) -> int:
        """For how long every look has been answered."""
        since_ms = self._reached_since_ms
        return 0 if since_ms is None else self._env.clock.monotonic_ms() - since_ms

    def tick(self) -> int:
        """Look, claim, reap; ms until the next look."""
        reached_since_ms, self._reached_since_ms = self._reached_since_ms, None
        self._deaf, self._follow_ms = False, None
        if self._store is None:
            self._store = self._open_store()
            self._store.hinted()  # from here on, so that nothing is missed after the first look
            self._store.hints_come(self._worker.id)
        seen = self._store.look(self._queues, sorted(self._agents))
        self._store_clock.tell(seen.now_ms)
        self._answered_ms = self._env.clock.monotonic_ms()
        self._reached_since_ms = reached_since_ms or self._answered_ms
        self._mind_failover(seen)
        self._seen = seen
        self._weigh_hint(in_vain=not (seen.ready or seen.lapsed))
        more = self._claim(self._store, seen)
        more |= self._reap(self._store, seen)
        return 0 if more else self._wait_ms(seen)

    def _weigh_hint(self, *, in_vain: bool) -> None:
        """After hints that brought nothing wait longer for the next; a poll forgets that."""
        longer_ms = min(2 * self._gap_ms, limits.HINT_MAX_MS)
        self._gap_ms = longer_ms if self._was_hinted and in_vain else limits.HINT_GAP_MS
        self._was_hinted = False

    def hinted(self) -> bool:
        """Whether to look before the next poll; never while there is no room for more tasks.

        The more workers there are, the longer each waits, by chance: all hear of one task.
        """
        if self._store is None or self._seen is None or self._room(self._seen) <= 0:
            return False
        now_ms = self._env.clock.monotonic_ms()
        if self._follow_ms is None:
            try:
                if not self._store.hinted():
                    return False
            except Exception:
                self._deaf = True
                return False  # whatever is wrong, the next look says so
            crowd_ms = min(limits.HERD_MS * (self._seen.workers - 1), limits.HERD_MAX_MS)
            stagger_ms = round(max(0, crowd_ms) * self._env.random.random())
            self._follow_ms = max(now_ms + stagger_ms, self._answered_ms + self._gap_ms)
        self._was_hinted = now_ms >= self._follow_ms
        return self._was_hinted

    def hints_come(self) -> HintsCome:
        """What to wait for before `hinted` is asked again."""
        if self._deaf or self._store is None or self._seen is None or self._room(self._seen) <= 0:
            return HintsCome()
        if self._follow_ms is not None:
            return HintsCome(look_ms=max(1, self._follow_ms - self._env.clock.monotonic_ms()))
        return self._store.hints_come(self._worker.id)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _mind_failover(self, seen: Look) -> None:
        """After a failover wait out the leases it may have forgotten, and what runs on after."""
        now_ms = self._env.clock.monotonic_ms()
        if self._timeline not in (None, seen.timeline):
            self._may_claim_from_ms = now_ms + self._worker.ttl_ms + limits.KILL_AFTER_MS
            self._tell(
                "failover",
                {"timeline": seen.timeline, "claims_wait_ms": self._may_claim_from_ms - now_ms},
            )
        self._timeline = seen.timeline

    # -- claiming ---------------------------------------------------------------------------------

    def _claim(self, store: Store, seen: Look) -> bool:
        """Take what there is room for; whether there may be more at once."""
        room = self._room(seen)
        if room <= 0 or not (seen.ready or self._token):
            return False
        asked_again = self._token is not None
        self._token = self._token or self._env.new_id()
        sent_ms = self._env.clock.monotonic_ms()
        held = self._holdings.all()
        grants = store.claim(
            Claim(
                worker=self._worker,
                queues=self._queues,
                agents=self._agents,
                room=room,
                ttl_ms=self._worker.ttl_ms,
                token=self._token,
                held=len(held),
                except_ids=[holding.task_id for holding in held],
            )
        )
        self._token = None
        holdings = [self._hold(grant, self._trusted_until_ms(grant, sent_ms)) for grant in grants]
        if asked_again:
            self._renew(store, holdings)
        if holdings:
            self._start(holdings)
        return len(grants) == room and seen.ready > len(grants) and self._room(seen) > 0

    def _room(self, seen: Look) -> int:
        """Free slots: none beside a suspect, nor while one waits for this worker to be empty."""
        held = self._holdings.all()
        if self._env.clock.monotonic_ms() < self._may_claim_from_ms:
            return 0
        if not self._may_claim() or any(holding.is_suspect for holding in held):
            return 0
        if seen.suspect_ms is not None and seen.suspect_ms >= self._worker.ttl_ms and held:
            return 0
        return min(self._worker.slots - len(held), limits.CLAIM_BATCH)

    def _trusted_until_ms(self, grant: Grant, sent_ms: int) -> int:
        ttl_ms = grant.lease.ttl_ms
        return sent_ms + ttl_ms - margin_ms(ttl_ms)

    def _renew(self, store: Store, holdings: Sequence[Holding]) -> None:
        """A claim that was asked again does not say when it was granted; a renewal does."""
        sent_ms = self._env.clock.monotonic_ms()
        renewals = [Renewal(h.task_id, h.grant.lease.grant) for h in holdings]
        for holding in holdings:
            holding.acting = True  # so that a lost one is told to stop
            holding.trusted_until_ms = sent_ms + margin_ms(holding.ttl_ms)
        try:
            answer = store.renew(self._worker.id, renewals)
        except Unavailable:
            return  # trust is short now: the heartbeat lengthens it, or the watch ends it
        for holding in holdings:
            hear(holding, answer.leases[holding.task_id], sent_ms)

    # -- reaping ----------------------------------------------------------------------------------

    def _reap(self, store: Store, seen: Look) -> bool:
        """Declare dead what has lapsed; whether that has made a task ready."""
        if seen.server != self._vigil.server:
            self._vigil = Vigil(seen.server)
        before, self._vigil = self._vigil, self._vigil.looked(seen.server, seen.now_ms)
        now_ms = self._env.clock.monotonic_ms()
        often_ms = limits.REVIEWS_MS if seen.reviews else limits.SWEEP_MS
        if not seen.lapsed and now_ms - self._swept_ms < often_ms:
            return False
        self._swept_ms = now_ms
        reaped = store.reap(since_ms=before.looked_ms, gaps=before.gaps)
        found = {name: list(getattr(reaped, name)) for name in Reaped.__struct_fields__}
        if any(found.values()):
            self._tell("reaped", {**found})
        return bool(found["expired"] or found["woken"])

    def _wait_ms(self, seen: Look) -> int:
        """A poll, or a quarter of the shortest lease; sooner if something is due before.

        With jitter, so that workers started together do not look together.
        """
        wait_ms = min(self._poll_ms, self._holdings.shortest_ttl_ms(self._worker.ttl_ms) // 4)
        if seen.next_due_ms is not None:
            wait_ms = min(wait_ms, max(0, seen.next_due_ms - seen.now_ms))
        return max(1, round(wait_ms * (0.8 + 0.4 * self._env.random.random())))
