"""Heartbeats: what keeps a lease, what does not, and what the answer brings along."""

from __future__ import annotations

from msgspec.structs import replace

from outlast.core.model import Written
from outlast.store.verbs import Order, Query, Renewal, Store
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    claim,
    enlisted,
    kinds,
    reap,
    signal,
    start,
)


def test_a_renewal_moves_the_expiry_to_a_whole_ttl_from_now(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(4_000)

    renewed = owner.renew()

    assert (renewed.state, renewed.expires_ms) == ("held", store.now_ms() + TTL)
    assert owner.lease is not None
    assert owner.lease.expires_ms == store.now_ms() + TTL


def test_a_renewal_sent_again_is_accepted(stores: Stores, store: Store) -> None:
    """case R11"""
    owner = start(store)

    assert owner.renew() == owner.renew()


def test_a_lapsed_lease_is_renewed_while_nobody_has_declared_it_dead(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    stores.move(5 * TTL)

    assert owner.renew().state == "held"
    assert list(reap(store).expired) == []


def test_a_lease_that_was_declared_dead_is_lost(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(TTL + 1)
    reap(store)

    assert owner.renew().state == "lost"


def test_a_zombies_heartbeat_neither_keeps_nor_shortens_the_heirs_lease(
    stores: Stores, store: Store
) -> None:
    """case R17"""
    zombie = start(store, "old")
    stores.move(TTL + 1)
    reap(store)
    heir = claim(store, "new", ttl_ms=3 * TTL)
    before = stores.state("leases")
    stores.move(1_000)

    assert zombie.renew().state == "lost"
    assert stores.state("leases") == before
    assert heir.renew().expires_ms == store.now_ms() + 3 * TTL


def test_a_renewal_names_its_grant_and_never_mine(stores: Stores, store: Store) -> None:
    """case R72: the same worker lost the task and claimed it again; the old attempt still beats."""
    first = start(store, "same")
    stores.move(TTL + 1)
    reap(store)
    second = claim(store, "same")
    before = stores.state("leases")
    stores.move(1_000)

    beat = store.renew("worker-same", [first.renewal])

    assert beat.leases[first.task_id].state == "lost"
    assert stores.state("leases") == before
    assert second.renew().state == "held"


def test_each_lease_of_a_worker_is_renewed_for_its_own_ttl(stores: Stores, store: Store) -> None:
    """case R2"""
    short, long = start(store), start(store)
    short.release("unstarted")
    short = claim(store, ttl_ms=5_000)
    long.release("unstarted")
    long = claim(store, ttl_ms=300_000)
    stores.move(1_000)

    beat = store.renew(short.worker, [short.renewal, long.renewal])

    assert beat.leases[short.task_id].expires_ms == beat.now_ms + 5_000
    assert beat.leases[long.task_id].expires_ms == beat.now_ms + 300_000


def test_one_heartbeat_answers_for_the_held_and_for_the_lost(stores: Stores, store: Store) -> None:
    held, released, unknown = start(store), start(store), Renewal("no such task", "f" * 64)
    released.release()

    beat = store.renew("worker-old", [held.renewal, released.renewal, unknown])

    assert {task: each.state for task, each in beat.leases.items()} == {
        held.task_id: "held",
        released.task_id: "lost",
        "no such task": "lost",
    }


def test_a_heartbeat_of_five_hundred_leases_is_one_call(stores: Stores, store: Store) -> None:
    owners = [start(store) for _ in range(50)]
    stores.move(1_000)

    beat = store.renew("worker-old", [owner.renewal for owner in owners])

    assert {each.expires_ms for each in beat.leases.values()} == {beat.now_ms + TTL}
    assert len(beat.leases) == 50


def test_a_heartbeat_without_leases_says_that_the_worker_lives(
    stores: Stores, store: Store
) -> None:
    enlisted(store, "idle")
    stores.move(5_000)

    beat = store.renew("worker-idle", [], loop_blocked_ms=120)

    assert (beat.known, beat.drain, dict(beat.leases)) == (True, False, {})
    [known] = store.workers()
    assert (known.beat_ms, known.loop_blocked_ms) == (beat.now_ms, 120)


def test_a_worker_that_the_store_has_forgotten_is_told_so(store: Store) -> None:
    assert store.renew("worker-stranger", []).known is False


def test_a_retired_worker_is_told_to_enlist_anew(store: Store) -> None:
    enlisted(store, "old")
    store.retire("worker-old")

    assert store.renew("worker-old", []).known is False


def test_the_answer_brings_a_cancel_request(store: Store) -> None:
    """case R39"""
    owner = start(store)
    store.cancel(owner.task_id, Order("ann", "superseded"))

    renewed = owner.renew()

    assert (renewed.state, renewed.cancel_by, renewed.cancel_why) == ("held", "ann", "superseded")
    assert renewed.cancel_ms == store.now_ms()


def test_the_answer_says_how_many_signals_are_unread(store: Store) -> None:
    owner = start(store)
    sent = [signal(store, owner.task_id, "a"), signal(store, owner.task_id, "b")]

    assert owner.renew().signals == 2
    owner.read_signal(sent[0])
    assert owner.renew().signals == 1


def test_the_answer_brings_the_order_to_drain(store: Store) -> None:
    owner = start(store)
    store.order_drain(OPERATOR, worker_id=owner.worker)

    beat = store.renew(owner.worker, [owner.renewal])

    assert beat.drain
    assert "ann" in (beat.drain_by or "")
    assert beat.leases[owner.task_id].state == "held"


def test_progress_and_what_is_done_now_are_shown(stores: Stores, store: Store) -> None:
    """case R9"""
    owner = start(store)
    stores.move(9_000)

    store.renew(owner.worker, [replace(owner.renewal, progress_ms_ago=8_000, doing="tool: pytest")])

    [held] = store.find(Query())
    assert held.lease is not None
    assert (held.now_ms - held.lease.progress_ms, held.lease.doing) == (8_000, "tool: pytest")
    assert held.lease.beat_ms == held.now_ms


def test_a_renewal_is_no_event_and_leaves_the_task_alone(stores: Stores, store: Store) -> None:
    owner = start(store)
    before = stores.state("tasks", "events", "effects")
    for _ in range(5):
        stores.move(1_000)
        owner.renew()

    assert stores.state("tasks", "events", "effects") == before
    assert kinds(store, owner.task_id) == ["task.submitted", "lease.granted"]


def test_a_kept_lease_never_lapses_however_long_the_step(stores: Stores, store: Store) -> None:
    """case R3"""
    owner = start(store)
    for _ in range(60):
        stores.move(TTL // 3)
        assert owner.renew().state == "held"
        assert list(reap(store).expired) == []

    assert isinstance(owner.succeed(), Written)
    assert owner.task.epoch == 1
