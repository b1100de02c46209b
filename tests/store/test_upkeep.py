"""Counting, pausing, pruning, and what the doctor says."""

from __future__ import annotations

import pytest

from outlast.core.errors import SchemaMismatch, UsageError
from outlast.core.model import Written
from outlast.store.open import open_store
from outlast.store.verbs import Store
from tests.store import truth
from tests.store.databases import Stores
from tests.store.world import (
    OPERATOR,
    TTL,
    counter,
    effect,
    enlisted,
    new_task,
    reap,
    signal,
    start,
    submit,
)
from tests.support.databases import on_the_database


def test_an_empty_store_counts_nothing(store: Store) -> None:
    counts = store.counts()

    assert dict(counts.tasks) == {}
    assert dict(counts.lease_ms) == {}
    assert (dict(counts.unknown), counts.unknown_ms) == ({}, 0)
    assert counts.now_ms == store.now_ms()


def test_tasks_are_counted_by_queue_and_state(store: Store) -> None:
    start(store)
    start(store).release()
    start(store, queue="slow").ask_a_person("replay_mismatch")

    tasks = {queue: dict(states) for queue, states in store.counts().tasks.items()}

    assert {state: n for state, n in tasks["default"].items() if n} == {"running": 1, "ready": 1}
    assert {state: n for state, n in tasks["slow"].items() if n} == {"review": 1}


def test_ages_are_the_databases(stores: Stores, store: Store) -> None:
    first, _second = start(store), start(store)
    stores.move(4_000)
    first.renew()
    stores.move(3_000)

    counts = store.counts()

    assert counts.lease_ms["default"] == TTL - 7_000
    assert counts.beat_ms["default"] == 7_000
    assert counts.progress_ms["default"] == 7_000
    assert counts.ttl_ms["default"] == TTL


def test_a_lapsed_lease_shows_below_zero_until_it_is_reaped(stores: Stores, store: Store) -> None:
    start(store)
    stores.move(TTL + 500)
    assert store.counts().lease_ms["default"] == -500

    reap(store)
    assert "default" not in store.counts().lease_ms


def test_workers_are_counted_by_state_and_queue(store: Store) -> None:
    enlisted(store, "a", queues='["default","slow"]')
    enlisted(store, "b")
    store.retire("worker-b", "draining")

    counts = store.counts()

    assert {state: n for state, n in counts.workers.items() if n} == {"active": 1, "draining": 1}
    assert dict(counts.worker_queues) == {"default": 1, "slow": 1}


def test_unknown_effects_are_counted_by_tool_with_the_age_of_the_oldest(
    stores: Stores, store: Store
) -> None:
    owner = start(store)
    owner.intend("pay")
    owner.ask_a_person()
    stores.move(900_000)

    counts = store.counts()

    assert dict(counts.unknown) == {"bank.pay": 1}
    assert counts.unknown_ms == 900_000


# -- retention ---------------------------------------------------------------------------------


def test_old_tasks_are_pruned_with_all_that_is_theirs(stores: Stores, store: Store) -> None:
    stores.pruned = True
    owner = start(store)
    signal(store, owner.task_id, "never read")
    owner.intend("pay")
    owner.applied("pay")
    owner.succeed()
    stores.move(1_000)

    pruned = store.prune(before_ms=store.now_ms())

    assert (pruned.tasks, pruned.events) == (1, 5)
    assert {name: list(rows) for name, rows in stores.state().items() if rows} == {}


def test_what_has_not_ended_is_never_pruned(stores: Stores, store: Store) -> None:
    """case R65"""
    start(store).wait("approval")
    start(store).ask_a_person("replay_mismatch")
    start(store)
    submit(store)
    stores.move(10**9)
    before = stores.state()

    assert store.prune(before_ms=store.now_ms()).tasks == 0
    assert stores.state() == before


def test_counters_do_not_fall_when_tasks_are_pruned(stores: Stores, store: Store) -> None:
    """case R65"""
    stores.pruned = True
    start(store).succeed()
    stores.move(1_000)

    store.prune(before_ms=store.now_ms())

    assert counter(store, "agent_task_terminal_total", state="succeeded") == 1


def test_a_dry_run_says_what_would_go_and_removes_nothing(stores: Stores, store: Store) -> None:
    start(store).succeed()
    start(store).succeed()
    stores.move(1_000)
    before = stores.state()

    pruned = store.prune(before_ms=store.now_ms(), dry_run=True)

    assert (pruned.tasks, pruned.events) == (2, 6)
    assert stores.state() == before


def test_what_ended_later_stays(stores: Stores, store: Store) -> None:
    stores.pruned = True
    start(store).succeed()
    stores.move(1_000)
    recent = start(store)
    recent.succeed()

    store.prune(before_ms=store.now_ms())

    assert [row["id"] for row in stores.rows("select id from tasks")] == [recent.task_id]


def test_pruning_goes_in_bounded_batches(stores: Stores, store: Store) -> None:
    stores.pruned = True
    for _ in range(5):
        start(store).succeed()
    stores.move(1_000)

    assert [store.prune(before_ms=store.now_ms(), limit=2).tasks for _ in range(4)] == [2, 2, 1, 0]


def test_a_shared_key_outlives_its_task_so_that_none_acts_twice(
    stores: Stores, store: Store
) -> None:
    stores.pruned = True
    owner = start(store)
    owner.begin("invoice-17")
    owner.applied("pay", "pi_1", key="invoice-17")
    owner.succeed()
    stores.move(1_000)
    store.prune(before_ms=store.now_ms())

    begun = start(store).begin("invoice-17")

    assert begun.state == "done"
    assert begun.effect is not None
    assert begun.effect.result == '"pi_1"'


def test_a_doubt_is_not_pruned_away_from_who_must_settle_it(stores: Stores, store: Store) -> None:
    """A shared key in doubt whose task is gone is still in doubt."""
    stores.pruned = True
    owner = start(store)
    owner.begin("invoice-17")
    owner.fail()
    stores.move(1_000)
    store.prune(before_ms=store.now_ms())

    assert effect(store, "invoice-17").state == "unknown"
    assert start(store).begin("invoice-17").state == "in_doubt"


def test_a_submit_key_of_a_pruned_task_is_free_again(stores: Stores, store: Store) -> None:
    stores.pruned = True
    owner = start(store, key="a/b#7")
    owner.succeed()
    stores.move(1_000)
    store.prune(before_ms=store.now_ms())

    [again] = store.submit([new_task(store, key="a/b#7")])
    assert again.created


# -- joined transactions -----------------------------------------------------------------------


def ledger_of_ones_own(stores: Stores) -> None:
    stores.change("create table if not exists accounts (name text primary key, euros bigint)")
    stores.change("delete from accounts")
    stores.change("insert into accounts values ('ann', 10)")


def euros(stores: Stores) -> int:
    return int(stores.rows("select euros from accounts")[0]["euros"])


SPEND = {
    "sqlite": "update accounts set euros = euros - 3",
    "postgres": "update outlast.accounts set euros = euros - 3",
}


@on_the_database
def test_work_in_the_same_database_joins_the_append(stores: Stores, store: Store) -> None:
    ledger_of_ones_own(stores)
    owner = start(store)
    offer = owner.offer(("step.done", {"key": "spend", "result": 3}))

    def work(connection):  # type: ignore[no-untyped-def]
        connection.execute(SPEND[stores.kind])
        return offer

    answer = store.transact(work)

    owner.heard(offer, answer)
    assert isinstance(answer, Written)
    assert (euros(stores), owner.task.state) == (7, "running")
    assert store.stands(offer) == answer
    stores.change("drop table accounts")


@on_the_database
def test_work_of_a_zombie_is_undone_with_its_refusal(stores: Stores, store: Store) -> None:
    ledger_of_ones_own(stores)
    zombie = start(store)
    store.revoke(zombie.task_id, OPERATOR)

    def work(connection):  # type: ignore[no-untyped-def]
        connection.execute(SPEND[stores.kind])
        return zombie.offer(("step.done", {"key": "spend", "result": 3}))

    answer = store.transact(work)

    assert not isinstance(answer, Written)
    assert euros(stores) == 10
    stores.change("drop table accounts")


@on_the_database
def test_work_that_raises_leaves_nothing(stores: Stores, store: Store) -> None:
    ledger_of_ones_own(stores)
    owner = start(store)
    before = stores.state()

    def work(connection):  # type: ignore[no-untyped-def]
        connection.execute(SPEND[stores.kind])
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.transact(work)

    assert euros(stores) == 10
    assert stores.state() == before
    assert isinstance(owner.note(), Written)
    stores.change("drop table accounts")


@pytest.mark.parametrize("what", ["release", "success", "wait"])
def test_work_that_joins_does_not_let_the_task_go_by_halves(
    stores: Stores, store: Store, what: str
) -> None:
    """A joined transaction may end or release the task, or be refused; never half of it."""
    owner = start(store)
    said = {
        "release": owner.releasing("drain"),
        "success": ("task.succeeded", {"result": 1}),
        "wait": owner.waiting("approval"),
    }
    offer = owner.offer(said[what])

    try:
        answer = store.transact(lambda connection: offer)
    except UsageError:
        answer = None

    ended = isinstance(answer, Written)
    assert (owner.task.state == "running") == (not ended)
    assert (owner.lease is None) == ended


# -- the schema, the doctor --------------------------------------------------------------------


def test_a_store_says_which_schema_it_is(store: Store) -> None:
    assert store.version() == 1


def test_another_schema_is_refused_at_the_door(stores: Stores, store: Store) -> None:
    """case R64"""
    stores.change("insert into schema (version, applied_ms) values (99, 0)")
    try:
        with pytest.raises(SchemaMismatch):
            open_store(stores.url, env=stores.env)
    finally:
        stores.change("delete from schema where version = 99")


def test_the_doctor_finds_a_healthy_store_healthy(stores: Stores, store: Store) -> None:
    owner = start(store)
    owner.intend("pay")
    start(store).succeed()

    findings = list(store.checkup())

    assert findings
    assert truth.broken(findings) == []


BREAKAGES = {
    "a rewritten event": "update events set body = '{\"text\":\"forged\"}' where kind = 'note'",
    "a lost event": "delete from events where kind = 'note'",
    "a moved row": "update tasks set state = 'ready', due_ms = 0",
    "a lost lease": "delete from leases",
    "another epoch": "update tasks set epoch = 7",
    "a forged outcome": "update effects set state = 'applied'",
    "a forgotten failure": "update tasks set resumes = 3",
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_the_doctor_finds_what_is_broken(stores: Stores, store: Store, breakage: str) -> None:
    owner = start(store)
    owner.note()
    owner.intend("pay")
    healthy = stores.standby()

    stores.change(BREAKAGES[breakage])
    findings = list(store.checkup())

    stores.fail_over(healthy)
    said = truth.broken(findings)
    assert said, f"{breakage}, and the doctor says {findings}"
    assert any(owner.task_id in each for each in said)
