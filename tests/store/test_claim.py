"""Giving leases: to whom, for what, how many, and what it says on the log."""

from __future__ import annotations

from collections import Counter
from threading import Barrier, Thread

import pytest

from outlast.core.limits import CLAIM_BATCH
from outlast.core.model import Grant
from outlast.store.verbs import AgentLimits, Store
from tests.store.databases import Stores
from tests.store.world import (
    AGENT,
    LIMITS,
    OPERATOR,
    TTL,
    ask,
    body,
    claim,
    enlisted,
    grants,
    kinds,
    log,
    reap,
    start,
    submit,
)


def test_a_grant_is_an_event_that_says_who_where_and_why(stores: Stores, store: Store) -> None:
    task = submit(store)
    stores.move(500)

    [grant] = grants(store, "old")

    event = log(store, task.id)[-1]
    assert grant.event == event
    assert (event.seq, event.kind, event.holder) == (2, "lease.granted", 1)
    said = body(event)
    assert (said["epoch"], said["worker"], said["host"], said["pid"]) == (
        1,
        "worker-old",
        "host",
        4711,
    )
    assert (said["build"], said["ttl_ms"], said["reason"]) == ("build-1", TTL, "first")
    assert (grant.task.state, grant.task.epoch) == ("running", 1)
    assert grant.task == store.get(task.id)
    assert (grant.lease.grant, grant.lease.epoch) == (event.digest, 1)
    assert grant.lease.expires_ms == grant.lease.granted_ms + TTL == store.now_ms() + TTL


def test_a_claimed_task_is_not_given_again(store: Store) -> None:
    start(store, "old")

    assert grants(store, "new") == []


def test_an_empty_store_gives_nothing(store: Store) -> None:
    assert grants(store) == []


def test_a_claim_takes_no_more_than_there_is_room_for(store: Store) -> None:
    for _ in range(5):
        submit(store)

    assert len(grants(store, room=3)) == 3
    assert len(grants(store, room=3)) == 2


def test_a_claim_without_room_takes_nothing(store: Store) -> None:
    submit(store)

    assert grants(store, room=0) == []


def test_a_claim_is_a_bounded_batch(store: Store) -> None:
    for _ in range(CLAIM_BATCH + 3):
        submit(store)

    assert len(grants(store, room=1_000)) == CLAIM_BATCH


def test_a_worker_is_given_what_it_knows_from_the_queues_it_serves(store: Store) -> None:
    submit(store, agent="other")
    submit(store, queue="slow")
    mine = submit(store)

    assert [each.task.id for each in grants(store, room=9)] == [mine.id]


def test_a_worker_of_several_queues_and_agents_is_given_all_of_them(store: Store) -> None:
    wanted = {submit(store, agent=a, queue=q).id for a in ("agent", "other") for q in ("a", "b")}

    given = grants(store, room=9, queues=["a", "b"], agents={"agent": LIMITS, "other": LIMITS})

    assert {each.task.id for each in given} == wanted


def test_the_limits_that_a_reaper_needs_are_written_on_the_task(store: Store) -> None:
    submit(store)

    [grant] = grants(store, agents={AGENT: AgentLimits(max_resumes=2, max_expiries=7)})

    assert (grant.task.max_resumes, grant.task.max_expiries) == (2, 7)
    assert store.get(grant.task.id) == grant.task


def test_a_task_of_which_an_old_attempt_still_runs_is_not_claimed(store: Store) -> None:
    """case R2, case R72"""
    owner = start(store)
    owner.release("trust")

    assert grants(store, except_ids=[owner.task_id]) == []
    assert claim(store, "new").epoch == 2


def test_a_claim_asked_again_gives_the_same_leases(stores: Stores, store: Store) -> None:
    """case R73"""
    for _ in range(3):
        submit(store)
    lost = ask(store, room=2)
    given = store.claim(lost)
    stores.move(TTL // 2)

    again = store.claim(lost)

    assert sorted(again, key=by_id) == sorted(given, key=by_id)
    assert len(grants(store, room=9)) == 1, "the second asking took nothing more"


def test_a_claim_asked_again_gives_back_no_lease_that_has_ended_meanwhile(
    stores: Stores, store: Store
) -> None:
    """case R73"""
    submit(store)
    lost = ask(store)
    [grant] = store.claim(lost)
    stores.move(TTL + 1)
    reap(store)
    heir = claim(store, "new")

    assert store.claim(lost) == []
    assert heir.lease is not None
    assert (heir.lease.worker, grant.lease.epoch) == ("worker-new", 1)


def test_each_way_to_end_a_lease_is_the_reason_of_the_next(stores: Stores, store: Store) -> None:
    owner = start(store)
    reasons = []
    for reason in ("drain", "deadline", "trust", "unstarted", "retry"):
        owner.retry() if reason == "retry" else owner.release(reason)
        owner = claim(store)
        reasons.append(owner.grant.reason)
    stores.move(TTL + 1)
    reap(store)
    owner = claim(store)
    reasons.append(owner.grant.reason)
    store.revoke(owner.task_id, OPERATOR, now=True)
    owner = claim(store)
    reasons.append(owner.grant.reason)
    owner.wait("sleep", until_ms=store.now_ms() + 1)
    stores.move(1)
    reap(store)
    reasons.append(claim(store).grant.reason)

    assert reasons == [
        "drain",
        "drain",
        "expired",
        "expired",
        "retry",
        "expired",
        "operator",
        "woken",
    ]


def test_an_unstarted_claim_goes_back_untouched(store: Store) -> None:
    """case R38"""
    owner = start(store)

    owner.release("unstarted")

    task = owner.task
    assert (task.state, task.reason) == ("ready", "first")
    assert (task.failures, task.resumes, task.expiries, task.handoffs) == (0, 0, 0, 0)
    assert claim(store, "new").grant.reason == "first"


def test_a_new_process_with_the_same_name_is_another_owner(stores: Stores, store: Store) -> None:
    """case R10"""
    dead = start(store, "dead")
    assert (enlisted(store, "dead").host, enlisted(store, "dead").pid) == (
        enlisted(store, "reborn").host,
        enlisted(store, "reborn").pid,
    )
    assert grants(store, "reborn") == []
    stores.move(TTL + 1)
    assert list(reap(store).expired) == [dead.task_id]

    assert claim(store, "reborn").epoch == 2


def test_a_paused_queue_gives_nothing_until_it_goes_on(store: Store) -> None:
    submit(store)
    submit(store, queue="other")
    store.pause("default", OPERATOR)

    assert store.paused() == ["default"]
    assert [g.task.queue for g in grants(store, queues=["default", "other"], room=9)] == ["other"]

    store.unpause("default")
    assert (store.paused(), len(grants(store))) == ([], 1)


def test_pausing_twice_is_pausing(store: Store) -> None:
    store.pause("default", OPERATOR)
    store.pause("default", OPERATOR)

    assert store.paused() == ["default"]
    store.unpause("default")
    store.unpause("default")
    assert store.paused() == []


def suspect(stores: Stores, store: Store) -> str:
    """A task that has ended three leases in a row without a result."""
    task = submit(store)
    for _ in range(3):
        claim(store, "victim")
        stores.move(TTL + 1)
        reap(store)
        stores.move(600_000)
    assert store.get(task.id).resumes == 3
    return task.id


def test_a_suspect_is_given_only_to_a_worker_that_holds_nothing(
    stores: Stores, store: Store
) -> None:
    """case R28, case R86"""
    task_id = suspect(stores, store)

    assert grants(store, "busy", held=1) == []
    [alone] = grants(store, "idle", held=0, room=9)
    assert alone.task.id == task_id


@pytest.mark.parametrize("priority", [-1, 0, 1])
def test_a_suspect_is_the_only_one_that_is_given(
    stores: Stores, store: Store, priority: int
) -> None:
    """case R28, case R86"""
    task_id = suspect(stores, store)
    for _ in range(3):
        submit(store, priority=priority)

    together = [
        {each.task.id for each in grants(store, f"idle-{n}", held=0, room=9)} for n in range(4)
    ]

    assert {task_id} in together
    assert all(given == {task_id} for given in together if task_id in given)


def test_a_result_clears_the_suspicion(stores: Stores, store: Store) -> None:
    suspect(stores, store)
    owner = claim(store, "idle")
    owner.step()
    owner.release("drain")

    assert owner.task.resumes == 0
    assert claim(store, "busy", held=1).epoch == 5


def test_workers_that_claim_at_once_never_share_a_task(stores: Stores, store: Store) -> None:
    for _ in range(40):
        submit(store)
    names = [f"w{number}" for number in range(4)]
    claims = {name: [ask(store, name, room=3) for _ in range(6)] for name in names}
    given: dict[str, list[Grant]] = {name: [] for name in names}
    together = Barrier(len(names))

    def work(name: str) -> None:
        mine = stores.open()
        together.wait()
        for each in claims[name]:
            given[name] += mine.claim(each)

    threads = [Thread(target=work, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    taken = Counter(grant.task.id for grants in given.values() for grant in grants)
    assert len(taken) == 40
    assert set(taken.values()) == {1}


def test_a_claim_leaves_the_rest_of_the_log_alone(store: Store) -> None:
    owner = start(store)
    owner.step()
    before = log(store, owner.task_id)
    owner.release()

    claim(store, "new")

    assert log(store, owner.task_id)[: len(before)] == before
    assert kinds(store, owner.task_id)[len(before) :] == ["lease.released", "lease.granted"]


def by_id(grant: Grant) -> str:
    return grant.task.id
