"""What must hold in every state, looked at from outside: nothing here is known to the protocol."""

from __future__ import annotations

from tests.model import log as logs
from tests.model.database import Effect, Task
from tests.model.machine import Scene, State

LEASED = "running if and only if leased"
FOLDED = "task, lease and effect rows are the fold of the log"
DRAIN_IS_FREE = "a drain spends no retry"
KEPT = "every acknowledged event is there, unless commits were lost"
ONE_WRITER = "at most one attempt can write"
WAKES = "no task waits with an unread signal"
CANCEL_READ = "no cancel request lies unread where no owner will answer it"
APPLIED_ONCE = "a world that honours keys acts at most once"
ASKED_ONCE = "a world that does not is called (asked: acts) once, and once more for each order"
ONE_HOLDER = "at most one leaseholder probes or calls under a key"


def check(scene: Scene, state: State) -> str | None:
    """The first promise that this state breaks."""
    if state.wrong is not None:
        return state.wrong
    for task in state.db.tasks:
        broken = logs.fold(task.log).broken or _rows(state, task)
        if broken is not None:
            return broken
    return _effects(scene, state) or _attempts(scene, state)


def ended(state: State) -> bool:
    """The goal: every task has come to its end."""
    return all(task.state in logs.FINALS for task in state.db.tasks)


def _rows(state: State, task: Task) -> str | None:
    fold = logs.fold(task.log)
    if (task.state == "running") != (task.lease is not None):
        return LEASED
    if task.failures != fold.failures:
        return DRAIN_IS_FREE
    if task.state in ("ready", "waiting", "review") and task.cancel:
        return CANCEL_READ
    woken = fold.state == "waiting" and task.state == "ready"
    if not woken and task.state != fold.state:
        return FOLDED
    if (task.epoch, task.handoffs) != (fold.epoch, fold.handoffs):
        return FOLDED
    if task.lease is not None and task.lease.grant != fold.grant:
        return FOLDED
    if task.state == "waiting" and any(not consumed for _, consumed in task.signals):
        return WAKES
    return None


def _effects(scene: Scene, state: State) -> str | None:
    for key, row in state.db.effects:
        if not _row_is_folded(state, key, row):
            return FOLDED
    for key, world in state.world:
        if len(world.applied) > 1:
            return APPLIED_ONCE
        if scene.on_unknown != "retry" and world.calls > 1 + _orders(state, key):
            return ASKED_ONCE
    return None


def _row_is_folded(state: State, key: str, row: Effect) -> bool:
    if row.state == "":
        return all(logs.fold(task.log).key(key) is None for task in state.db.tasks)
    mine = logs.fold(state.db.tasks[row.task].log).key(key)
    if mine is None:
        return False
    reused = mine.state == "reused" and row.state == "applied"
    observed = row.observed and row.state == "applied"
    return mine.state == row.state or reused or observed


def _orders(state: State, key: str) -> int:
    keys = [logs.fold(task.log).key(key) for task in state.db.tasks]
    return sum(own.orders for own in keys if own is not None)


def _attempts(scene: Scene, state: State) -> str | None:
    writers = [0] * len(state.db.tasks)
    acting: dict[str, int] = {}
    for worker in state.workers:
        attempt = worker.attempt
        if attempt is None or attempt.phase == "asking":
            continue
        task = state.db.tasks[attempt.task]
        quoted = logs.fold(attempt.quote)
        if scene.left.failovers == state.left.failovers and (
            logs.upto(task.log, quoted.last.digest) is None
        ):
            return KEPT
        head = logs.fold(task.log).last
        if head.digest == quoted.last.digest and head.holder == attempt.epoch:
            writers[attempt.task] += 1
        leased = task.lease is not None and task.lease.grant == quoted.grant
        if leased and attempt.phase in ("probe", "call", "calling"):
            key = scene.scripts[attempt.task][quoted.results]
            acting[key] = acting.get(key, 0) + 1
    if any(count > 1 for count in writers):
        return ONE_WRITER
    return ONE_HOLDER if any(count > 1 for count in acting.values()) else None
