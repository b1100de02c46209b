"""Declaring owners dead: who, when, by whom, and how often before a task is given up."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from outlast.core.limits import REAP_BATCH
from outlast.core.model import Written
from outlast.store.verbs import AgentLimits, Store
from tests.store.databases import Stores
from tests.store.world import (
    AGENT,
    LIMITS,
    TTL,
    Owner,
    body,
    claim,
    counter,
    effect,
    kinds,
    log,
    reap,
    start,
    submit,
    touched,
)


def test_a_dead_owners_task_is_ready_for_an_heir(stores: Stores, store: Store) -> None:
    """case R21"""
    owner = start(store, "old")
    stores.move(TTL + 1)

    assert list(reap(store).expired) == [owner.task_id]

    task = owner.task
    assert (task.state, task.reason, task.resumes, task.expiries) == ("ready", "expired", 1, 1)
    said = log(store, owner.task_id)[-1]
    assert (said.kind, said.holder) == ("lease.expired", 0)
    assert body(said)["worker"] == "worker-old"
    assert claim(store, "new").grant.reason == "expired"


def test_a_living_owner_is_left_alone(stores: Stores, store: Store) -> None:
    start(store)
    stores.move(TTL - 1)
    before = stores.state()

    assert touched(reap(store)) == []
    assert stores.state() == before


def test_a_first_expiry_is_resumed_at_once_and_later_ones_back_off(
    stores: Stores, store: Store
) -> None:
    task = submit(store)
    delays = []
    for _ in range(5):
        claim(store)
        stores.move(TTL + 1)
        reap(store)
        due_ms = store.get(task.id).due_ms
        assert due_ms is not None
        delays.append(due_ms - store.now_ms())
        stores.move(max(delays[-1], 0))

    assert delays[0] <= 0
    assert delays[1] > 0
    assert delays[1:] == sorted(set(delays[1:])), "each longer than the one before"


def test_the_last_moment_before_expiry_is_not_after_it(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(TTL - 1)
    assert touched(reap(store)) == []
    owner.renew()
    stores.move(TTL - 1)
    assert touched(reap(store)) == []


# -- stale lists -------------------------------------------------------------------------------


def test_two_reapers_declare_a_task_dead_once(stores: Stores, store: Store) -> None:
    """case R15"""
    owners = [start(store) for _ in range(20)]
    stores.move(TTL + 1)
    dead = expire_together(stores, 2)

    assert sorted(dead) == sorted(owner.task_id for owner in owners)
    for owner in owners:
        assert kinds(store, owner.task_id).count("lease.expired") == 1


def expire_together(stores: Stores, reapers: int) -> list[str]:
    """Several reapers at the same moment; whom they declared dead, all told."""
    dead: list[str] = []
    together = Barrier(reapers)
    now_ms = stores.clock.wall_ms()

    def work(mine: Store) -> None:
        together.wait()
        for _ in range(3):  # a lock that is taken is left for the next tick
            dead.extend(mine.reap(since_ms=now_ms).expired)

    threads = [Thread(target=work, args=[stores.open()]) for _ in range(reapers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dead


@pytest.mark.slow
def test_an_owner_that_ends_while_it_is_declared_dead_has_one_end(
    stores: Stores, store: Store
) -> None:
    """case R14: the reaper's list is stale by the time it writes."""
    rounds = 100
    offers, won = {}, {"end": 0, "expiry": 0}
    for _ in range(rounds):
        owner = start(store)
        offers[owner.task_id] = owner.offer(("task.succeeded", {"result": 1}))
    stores.move(TTL + 1)
    together = Barrier(2)
    now_ms = store.now_ms()

    def finish(mine: Store) -> None:
        together.wait()
        for offer in offers.values():
            answer = mine.append([offer])[0]
            won["end" if isinstance(answer, Written) else "expiry"] += 1

    def declare(mine: Store) -> None:
        together.wait()
        for _ in range(12):
            mine.reap(since_ms=now_ms, limit=10)

    threads = [Thread(target=work, args=[stores.open()]) for work in (finish, declare)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    ended = [kinds(store, task_id)[-1] for task_id in offers]
    assert ended.count("task.succeeded") == won["end"]
    assert ended.count("lease.expired") == won["expiry"]
    assert won["end"] + won["expiry"] == rounds


def test_a_renewal_between_the_reapers_look_and_its_write_saves_the_lease(
    stores: Stores, store: Store
) -> None:
    """case R14: 100 leases, renewed and reaped at the same moment."""
    owners = [start(store) for _ in range(50)]
    stores.move(TTL + 1)
    together = Barrier(2)
    states: dict[str, str] = {}
    now_ms = store.now_ms()

    def renew(mine: Store) -> None:
        together.wait()
        for owner in owners:
            renewed = owner.renew(mine)
            while renewed.state == "again":
                renewed = owner.renew(mine)
            states[owner.task_id] = renewed.state

    def declare(mine: Store) -> None:
        together.wait()
        for _ in range(3):
            mine.reap(since_ms=now_ms)

    threads = [Thread(target=work, args=[stores.open()]) for work in (renew, declare)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for owner in owners:
        expired = "lease.expired" in kinds(store, owner.task_id)
        if states[owner.task_id] == "lost":
            assert expired
        assert (owner.task.state == "running") == (not expired)


# -- amnesty -----------------------------------------------------------------------------------


@pytest.mark.parametrize("slept_ms", [None, TTL // 2 + 1, 100 * TTL])
def test_a_reaper_that_is_not_sure_spares_a_lease_once(
    stores: Stores, store: Store, slept_ms: int | None
) -> None:
    """case R82"""
    owner = start(store)
    stores.move(TTL + 1 + (slept_ms or 0))
    since_ms = None if slept_ms is None else store.now_ms() - slept_ms

    first = store.reap(since_ms=since_ms)
    assert (list(first.spared), list(first.expired)) == ([owner.task_id], [])
    assert owner.lease is not None
    assert (owner.lease.spared, owner.lease.expires_ms) == (1, store.now_ms() + TTL)
    stores.move(TTL + 1)
    second = store.reap(since_ms=since_ms and store.now_ms() - (slept_ms or 0))

    assert (list(second.spared), list(second.expired)) == ([], [owner.task_id])


def test_a_reaper_that_has_been_awake_spares_nobody(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(TTL + 1)

    assert list(store.reap(since_ms=store.now_ms() - TTL // 2).expired) == [owner.task_id]


def test_sparing_is_no_event(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(TTL + 1)
    before = stores.state("tasks", "events", "effects")

    store.reap(since_ms=None)

    assert stores.state("tasks", "events", "effects") == before
    assert isinstance(owner.note(), Written)


def test_a_renewal_clears_the_mark(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(TTL + 1)
    store.reap(since_ms=None)
    owner.renew()
    assert owner.lease is not None
    assert owner.lease.spared == 0
    stores.move(TTL + 1)

    assert list(store.reap(since_ms=None).spared) == [owner.task_id]


def test_reapers_that_are_born_every_moment_still_bury_the_dead(
    stores: Stores, store: Store
) -> None:
    """case R82: an amnesty that is kept in the reaper starves for ever."""
    owner = start(store)
    passed_ms = 0
    while owner.task.state == "running":
        assert passed_ms <= 2 * TTL + 2_000, "never taken over"
        stores.move(500)
        passed_ms += 500
        stores.open().reap(since_ms=None)

    assert passed_ms > TTL


def test_after_an_outage_no_living_owner_expires(stores: Stores, store: Store) -> None:
    """case R23, case R82: everybody was away for an hour."""
    owners = [start(store) for _ in range(5)]
    stores.move(3_600_000)
    reaped = store.reap(since_ms=store.now_ms() - 3_600_000)

    assert list(reaped.expired) == []
    stores.move(TTL // 3)
    assert {owner.renew().state for owner in owners} == {"held"}
    assert touched(reap(store)) == []


# -- batches and budgets -----------------------------------------------------------------------


def test_many_deaths_are_declared_in_bounded_batches(stores: Stores, store: Store) -> None:
    """case R26"""
    for _ in range(30):
        start(store)
    fresh = submit(store)
    stores.move(TTL + 1)

    assert len(reap(store, limit=10).expired) == 10
    assert claim(store, "new").task_id == fresh.id, "fresh work is not starved"
    assert [len(reap(store, limit=10).expired) for _ in range(3)] == [10, 10, 0]


def test_a_default_tick_has_a_bound(store: Store) -> None:
    assert REAP_BATCH == 100


def give_up(stores: Stores, store: Store, limits: AgentLimits, *, step: bool) -> Owner:
    """Let a task kill its worker until it is given up."""
    submit(store)
    for _ in range(20):
        owner = claim(store, agents={AGENT: limits})
        if step:
            owner.step()
        owner.intend("pay")
        stores.move(TTL + 1)
        if reap(store).abandoned:
            return owner
        stores.move(600_000)
    raise AssertionError("never given up")


def test_a_task_that_kills_its_workers_is_given_up(stores: Stores, store: Store) -> None:
    """case R28"""
    owner = give_up(stores, store, LIMITS, step=False)

    task = owner.task
    assert (task.state, task.reason, task.epoch, task.resumes) == ("failed", "abandoned", 6, 6)
    assert counter(store, "agent_task_terminal_total", state="failed") == 1
    assert kinds(store, task.id)[-3:] == ["lease.expired", "effect.unknown", "task.failed"]
    assert effect(store, owner.key("pay")).state == "unknown"


def test_progress_between_expiries_does_not_count_against_a_task(
    stores: Stores, store: Store
) -> None:
    """case R28: in all they are bounded all the same."""
    owner = give_up(stores, store, AgentLimits(max_resumes=5, max_expiries=8), step=True)

    assert (owner.task.reason, owner.task.expiries, owner.task.resumes) == ("abandoned", 9, 1)


def test_only_results_are_progress(stores: Stores, store: Store) -> None:
    owner = start(store)
    for said in ("note", "replay.finished", "effect.intended"):
        owner.write(said, **owner.intent("pay"))
        stores.move(TTL + 1)
        reap(store)
        stores.move(600_000)
        owner = claim(store)
    assert owner.task.resumes == 3

    owner.applied("pay")
    stores.move(TTL + 1)
    reap(store)
    assert owner.task.resumes == 1


def test_a_budget_of_no_resumes_gives_up_at_the_first_death(stores: Stores, store: Store) -> None:
    submit(store)
    owner = claim(store, agents={AGENT: AgentLimits(max_resumes=0, max_expiries=50)})
    stores.move(TTL + 1)

    assert list(reap(store).abandoned) == [owner.task_id]


def test_the_dead_are_buried_where_nobody_knows_their_agent(stores: Stores, store: Store) -> None:
    """The limits a reaper needs are on the row, not in code that it does not have."""
    submit(store, agent="exotic")
    owner = claim(store, agents={"exotic": AgentLimits(max_resumes=0, max_expiries=0)})
    stores.move(TTL + 1)

    assert list(stores.open().reap(since_ms=store.now_ms()).abandoned) == [owner.task_id]
