"""Every state against every verb: the move that the table allows, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import get_args

import pytest

from outlast.core.errors import NotAllowedNow
from outlast.core.lifecycle import ALLOWED
from outlast.core.model import FINAL, State, Task, Turned, Written
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import OPERATOR, TTL, Owner, effect, grants, reap, signal, start

STATES: tuple[str, ...] = get_args(State)

# -- a task in each state, with one effect in doubt ----------------------------------------------


def in_doubt(store: Store) -> Owner:
    owner = start(store)
    owner.intend("pay")
    return owner


def ready(store: Store) -> Owner:
    owner = in_doubt(store)
    owner.release("deadline")
    return owner


def running(store: Store) -> Owner:
    return in_doubt(store)


def waiting(store: Store) -> Owner:
    owner = in_doubt(store)
    owner.send(owner.offer(*owner.doubts(), owner.waiting("approval")))
    return owner


def review(store: Store) -> Owner:
    owner = in_doubt(store)
    owner.ask_a_person()
    return owner


def succeeded(store: Store) -> Owner:
    owner = in_doubt(store)
    owner.succeed()
    return owner


def failed(store: Store) -> Owner:
    owner = in_doubt(store)
    owner.fail()
    return owner


def cancelled(store: Store) -> Owner:
    owner = in_doubt(store)
    store.cancel(owner.task_id, OPERATOR, force=True)
    return owner


WORLDS: dict[str, Callable[[Store], Owner]] = {
    "ready": ready,
    "running": running,
    "waiting": waiting,
    "review": review,
    "succeeded": succeeded,
    "failed": failed,
    "cancelled": cancelled,
}

# -- each verb, asked; True if the store says that it did it --------------------------------------


def claim(stores: Stores, store: Store, owner: Owner) -> bool:
    return [grant.task.id for grant in grants(store, "new")] == [owner.task_id]


def renew(stores: Stores, store: Store, owner: Owner) -> bool:
    return owner.renew().state == "held"


def append(stores: Stores, store: Store, owner: Owner) -> bool:
    answer = owner.note()
    assert isinstance(answer, Written) or answer == Turned("lost", answer.detail)
    return isinstance(answer, Written)


def expire(stores: Stores, store: Store, owner: Owner) -> bool:
    stores.move(TTL + 1)
    return owner.task_id in reap(store).expired


def allowed(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except NotAllowedNow:
        return False
    return True


def revoke(stores: Stores, store: Store, owner: Owner) -> bool:
    return allowed(lambda: store.revoke(owner.task_id, OPERATOR))


def cancel(stores: Stores, store: Store, owner: Owner) -> bool:
    before = owner.task
    answer = store.cancel(owner.task_id, OPERATOR)
    assert answer.task == owner.task
    if before.ended:
        assert answer.state == ("cancelled" if before.state == "cancelled" else "ended")
        return False
    return answer.state in ("cancelled", "asked")


def send_signal(stores: Stores, store: Store, owner: Owner) -> bool:
    return allowed(lambda: signal(store, owner.task_id, "approval"))


def settle(stores: Stores, store: Store, owner: Owner) -> bool:
    return allowed(lambda: store.settle(owner.key("pay"), OPERATOR, applied=True, receipt=1))


def retry(stores: Stores, store: Store, owner: Owner) -> bool:
    return allowed(lambda: store.retry(owner.task_id, OPERATOR))


Asked = Callable[[Stores, Store, Owner], bool]
VERBS: dict[str, Asked] = {
    "claim": claim,
    "renew": renew,
    "append": append,
    "expire": expire,
    "revoke": revoke,
    "cancel": cancel,
    "signal": send_signal,
    "settle": settle,
    "retry": retry,
}

# Where the verb leads, if it leads away.
LEADS_TO = {
    ("claim", "ready"): "running",
    ("expire", "running"): "ready",
    ("revoke", "running"): "ready",
    ("cancel", "ready"): "cancelled",
    ("cancel", "waiting"): "cancelled",
    ("cancel", "review"): "cancelled",
    ("signal", "waiting"): "ready",
    ("settle", "review"): "ready",
    **{("retry", state): "ready" for state in ("review", *FINAL)},
}
CELLS = sorted(product(ALLOWED, STATES))


def test_the_table_knows_every_verb_and_the_tests_know_every_state() -> None:
    assert VERBS.keys() == ALLOWED.keys()
    assert tuple(WORLDS) == STATES
    assert all(state in ALLOWED[verb] for verb, state in LEADS_TO)


@pytest.mark.parametrize(("verb", "state"), CELLS, ids=[f"{v}-{s}" for v, s in CELLS])
def test_a_verb_moves_a_task_where_the_table_allows_it_and_else_changes_nothing(
    stores: Stores, store: Store, verb: str, state: str
) -> None:
    owner = WORLDS[state](store)
    assert owner.task.state == state
    before, events = stores.state(), owner.store.read(owner.task_id)

    done = VERBS[verb](stores, store, owner)

    assert done == (state in ALLOWED[verb])
    assert owner.task.state == LEADS_TO.get((verb, state), state)
    if not done:
        assert stores.state() == before
    elif (verb, state) in LEADS_TO:
        assert owner.task != folded_before(events)


def folded_before(events: object) -> Task:
    from outlast.core.lifecycle import fold

    return fold(events)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_state_is_final(stores: Stores, store: Store, state: str) -> None:
    """P8: all that workers can ask, one after the other, a hundred TTLs long."""
    owner = WORLDS[state](store)
    before = stores.state()

    for verb in ("append", "renew", "expire", "claim", "revoke", "cancel", "signal"):
        assert VERBS[verb](stores, store, owner) is False
    stores.move(100 * TTL)
    store.reap(since_ms=None)

    assert stores.state() == before
    assert effect(store, owner.key("pay")).state == "unknown"


@pytest.mark.parametrize("state", ["review", *sorted(FINAL)])
def test_a_retry_is_a_new_epoch_by_an_operators_order(store: Store, state: str) -> None:
    """case R44"""
    owner = WORLDS[state](store)

    task = store.retry(owner.task_id, OPERATOR)

    assert (task.state, task.reason, task.epoch) == ("ready", "operator", 1)
    assert (task.failures, task.resumes, task.result, task.finished_ms) == (0, 0, None, None)
    [grant] = grants(store, "new")
    assert (grant.lease.epoch, grant.reason) == (2, "operator")


def test_a_resume_of_what_is_owned_is_refused_with_who_owns_it(
    stores: Stores, store: Store
) -> None:
    """case R19"""
    owner = start(store, "old")
    before = stores.state()

    with pytest.raises(NotAllowedNow, match=r"host|worker-old"):
        store.retry(owner.task_id, OPERATOR)

    assert stores.state() == before
