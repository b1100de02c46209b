"""Leases ended by others than the reaper: a crash that was seen, an order; and the look-out."""

from __future__ import annotations

from outlast.store.verbs import AgentLimits, Store
from tests.store.databases import Stores
from tests.store.world import (
    AGENT,
    OPERATOR,
    TTL,
    Owner,
    body,
    claim,
    grants,
    log,
    reap,
    start,
    submit,
)

# -- processes seen to die ---------------------------------------------------------------------


def test_a_process_that_was_seen_to_die_gives_its_tasks_back_at_once(
    stores: Stores, store: Store
) -> None:
    dead, other, alive = start(store, "dead"), start(store, "dead"), start(store, "alive")

    ended = store.crash("worker-dead", by="parent")

    assert sorted(ended) == sorted([dead.task_id, other.task_id])
    assert (dead.task.state, dead.task.reason, dead.task.resumes) == ("ready", "crashed", 1)
    assert log(store, dead.task_id)[-1].kind == "lease.released"
    assert body(log(store, dead.task_id)[-1])["reason"] == "crashed"
    assert alive.task.state == "running"
    assert claim(store, "new").grant.reason == "crashed"


def test_a_crash_told_twice_is_one_crash(stores: Stores, store: Store) -> None:
    owner = start(store)
    store.crash(owner.worker, by="parent")
    before = stores.state()

    assert store.crash(owner.worker, by="parent") == []
    assert stores.state() == before


def test_a_crash_spends_the_same_budget_as_an_expiry(stores: Stores, store: Store) -> None:
    submit(store)
    owner = claim(store, agents={AGENT: AgentLimits(max_resumes=0, max_expiries=50)})

    store.crash(owner.worker, by="parent")

    assert (owner.task.state, owner.task.reason) == ("failed", "abandoned")


# -- revoking ----------------------------------------------------------------------------------


def test_a_revoked_lease_is_due_again_at_its_old_expiry(stores: Stores, store: Store) -> None:
    owner = start(store)
    stores.move(3_000)

    task = store.revoke(owner.task_id, OPERATOR)

    assert (task.state, task.reason) == ("ready", "operator")
    assert task.due_ms == store.now_ms() + TTL - 3_000
    assert grants(store) == []
    said = log(store, owner.task_id)[-1]
    assert (said.kind, body(said)["by"], body(said)["why"]) == ("lease.revoked", "ann", "because")
    stores.move(TTL)
    assert claim(store, "new").grant.reason == "operator"


def test_a_lease_revoked_now_is_free_now(store: Store) -> None:
    owner = start(store)

    store.revoke(owner.task_id, OPERATOR, now=True)

    assert claim(store, "new").epoch == 2
    assert (owner.task.resumes, owner.task.expiries) == (0, 0)


def test_a_look_says_what_is_ready_and_what_has_lapsed(stores: Stores, store: Store) -> None:
    def look() -> tuple[int, bool, int | None]:
        seen = store.look(["default"], [AGENT])
        planned = None if seen.next_due_ms is None else seen.next_due_ms - seen.now_ms
        return seen.ready, seen.lapsed > 0, planned

    assert look() == (0, False, None)
    submit(store)
    submit(store, agent="other")
    submit(store, queue="other")
    assert look()[:2] == (1, False)
    owner = claim(store)
    assert look()[:2] == (0, False)
    owner.wait("sleep", until_ms=store.now_ms() + 500)
    assert look() == (0, False, 500)
    stores.move(500)
    assert look()[:2] == (0, True)
    reap(store)
    assert look()[:2] == (1, False)
    claim(store)
    stores.move(TTL + 1)
    assert look()[:2] == (0, True)


def test_a_look_says_when_the_next_task_is_due(store: Store) -> None:
    submit(store, delay_ms=9_000)

    seen = store.look(["default"], [AGENT])

    assert (seen.ready, seen.next_due_ms) == (0, seen.now_ms + 9_000)


def test_a_look_at_a_paused_queue_sees_nothing_ready(store: Store) -> None:
    submit(store)
    store.pause("default", OPERATOR)

    assert store.look(["default"], [AGENT]).ready == 0


def test_a_look_tells_for_how_long_a_suspect_has_waited(stores: Stores, store: Store) -> None:
    task = submit(store)
    assert store.look(["default"], [AGENT]).suspect_ms is None
    for _ in range(3):
        claim(store)
        stores.move(TTL + 1)
        reap(store)
        stores.move(600_000)

    due_ms = store.get(task.id).due_ms
    assert due_ms is not None
    assert store.look(["default"], [AGENT]).suspect_ms == store.now_ms() - due_ms


def test_a_row_that_cannot_be_read_fails_its_own_task_and_no_other(
    stores: Stores, store: Store
) -> None:
    """case R29: a corrupt input reaches the agent's worker, which ends that task and goes on."""
    sick, well = submit(store), submit(store)
    stores.change("update tasks set input = 'not json' where id = ?", sick.id)

    given = {grant.task.id: Owner(store, grant) for grant in grants(store, room=2)}
    given[sick.id].fail("bad_input")
    given[well.id].succeed()

    assert (store.get(sick.id).reason, store.get(well.id).state) == ("bad_input", "succeeded")
    stores.change("update tasks set input = ? where id = ?", sick.input, sick.id)
