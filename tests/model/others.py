"""Everybody but the workers: reaper, clients, operator, person, the world, and what breaks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import log as logs
from tests.model.database import Database, Effect, Request, Task, ending, numbered, settle, write
from tests.model.machine import (
    REAPED_LAPSED,
    RECEIPT_WINS,
    Move,
    Reaper,
    Scene,
    State,
    in_flight,
    spend,
    with_attempt,
    with_world,
    world_of,
)


def other_moves(scene: Scene, state: State) -> Iterator[Move]:
    for number, reaper in enumerate(state.reapers):
        yield from _reaper(scene, state, number, reaper)
    for number, task in enumerate(state.db.tasks):
        yield from _time(state, number, task)
        yield from _operator(scene, state, number, task)
        yield from _person(scene, state, number, task)
    yield from _clients(scene, state)
    yield from _world(scene, state)
    yield from _failover(state)


# -- the reaper ----------------------------------------------------------------------------------


def _reaper(scene: Scene, state: State, number: int, reaper: Reaper) -> Iterator[Move]:
    """Lists what has lapsed; locks one and looks again; declares it dead. Three moves."""
    if reaper.stage == "":
        if Reaper() in state.reapers[:number]:
            return  # two idle reapers are alike
        for place, task in enumerate(state.db.tasks):
            if task.lease is not None and task.lease.lapsed:
                listed = Reaper("listed", place, task.lease.grant)
                if len(state.reapers) > 1:
                    told = f"reaper {number}: lists task {place}"
                    yield told, _with_reaper(state, number, listed)
                elif not task.lock:  # alone, its list is fresh: one move less
                    yield from _reaper_locks(scene, state, number, listed)
    elif reaper.stage == "listed":
        yield from _reaper_locks(scene, state, number, reaper)
    else:
        yield _reaper_commits(scene, state, number, reaper)


def _with_reaper(state: State, number: int, reaper: Reaper) -> State:
    reapers = state.reapers
    return state._replace(reapers=(*reapers[:number], reaper, *reapers[number + 1 :]))


def _reaper_locks(scene: Scene, state: State, number: int, reaper: Reaper) -> Iterator[Move]:
    task = state.db.tasks[reaper.task]
    if task.lock:
        yield f"reaper {number}: finds it locked, goes on", _with_reaper(state, number, Reaper())
        return
    held = task.lease is not None and task.lease.grant == reaper.grant
    still = held and task.lease is not None and task.lease.lapsed
    if not (still or (held and "reap without a second look" in scene.broken)):
        yield f"reaper {number}: looks again, not lapsed", _with_reaper(state, number, Reaper())
        return
    db = state.db.with_task(reaper.task, task._replace(lock=f"reaper {number}"))
    quoting = reaper._replace(stage="locked", quote=task.log)
    yield (
        f"reaper {number}: locks task {reaper.task}, reads its head",
        _with_reaper(state._replace(db=db), number, quoting),
    )


def _reaper_commits(scene: Scene, state: State, number: int, reaper: Reaper) -> Move:
    task = state.db.tasks[reaper.task]
    read = task._replace(log=reaper.quote)
    final = ""
    if task.cancel:
        final = "task.cancelled"
    elif logs.fold(read.log).barren + 1 > scene.resumes_max:
        final = "task.failed"
    by = f"reaper {number}"
    group = ending(read, ["lease.expired"], final, by, scene.broken)
    db = state.db.with_task(reaper.task, task._replace(lock=""))
    db, reply = write(db, reaper.task, group, task.epoch, by, scene.broken)
    after = _with_reaper(state._replace(db=db), number, Reaper())
    if reply.word == "written" and not (task.lease and task.lease.lapsed):
        after = after._replace(wrong=REAPED_LAPSED)
    return f"{by}: declares task {reaper.task} dead: {reply.word}", after


def _time(state: State, number: int, task: Task) -> Iterator[Move]:
    if task.lease is not None and not task.lease.lapsed:
        owner = logs.fold(task.log).owner
        alive = any(w.attempt is not None and w.attempt.token == owner for w in state.workers)
        if not alive or state.left.lapses:
            lapsed = task._replace(lease=task.lease._replace(lapsed=True))
            after = state._replace(db=state.db.with_task(number, lapsed))
            yield (
                f"time: the lease of task {number} lapses",
                (spend(after, "lapses") if alive else after),
            )
    if task.state == "waiting" and state.left.timers and not task.lock:
        woken = state._replace(db=state.db.with_task(number, task._replace(state="ready")))
        yield f"time: the timer of task {number} fires", spend(woken, "timers")


# -- people --------------------------------------------------------------------------------------


def _operator(scene: Scene, state: State, number: int, task: Task) -> Iterator[Move]:
    if state.left.revokes and task.state == "running" and not task.lock:
        final = "task.cancelled" if task.cancel else ""
        group = ending(task, ["lease.revoked"], final, "operator", scene.broken)
        db, _ = write(state.db, number, group, task.epoch, "operator", scene.broken)
        yield f"operator: revokes task {number}", spend(state._replace(db=db), "revokes")


def _person(scene: Scene, state: State, number: int, task: Task) -> Iterator[Move]:
    """Settles a doubt with a receipt, or orders a new try (the reaper, for an observation)."""
    if task.state != "review" or task.lock:
        return
    for key, row in state.db.effects:
        mine = logs.fold(task.log).key(key)
        if mine is None or mine.state != "unknown" or row.lock:
            continue
        verdicts = []
        if row.state == "applied" or (row.task == number and world_of(state, key).applied):
            verdicts.append("applied")
        beaten = "not applied beats a receipt" in scene.broken and row.state == "applied"
        if row.task == number and (row.state == "unknown" or beaten):
            verdicts.append("again")
        for verdict in verdicts:
            yield _settles(scene, state, number, key, row, verdict)


def _settles(scene: Scene, state: State, number: int, key: str, row: Effect, verdict: str) -> Move:
    db = settle(state.db, number, key, verdict, "person", scene.broken)
    after = state._replace(db=db)
    if verdict == "again" and row.observed:
        after = after._replace(wrong=RECEIPT_WINS)
    return f"person: settles {key} for task {number}: {verdict}", after


def _clients(scene: Scene, state: State) -> Iterator[Move]:
    for verb, counter in (("signal", state.left.signals), ("cancel", state.left.cancels)):
        asked = getattr(scene.left, verb + "s") - counter
        if counter:
            request = Request(verb, f"client of {verb} {asked}", 0, number=asked)
            sent = spend(in_flight(state, numbered(request)), verb + "s")
            yield f"client: sends {verb} {asked}", sent
        if asked and state.left.late:
            request = Request(verb, f"client of {verb} {asked - 1}", 0, number=asked - 1)
            sent = spend(in_flight(state, numbered(request), copy=1), "late")
            yield f"client: sends {verb} {asked - 1} again", sent


# -- the world -----------------------------------------------------------------------------------


def _world(scene: Scene, state: State) -> Iterator[Move]:
    """A call arrives and acts; its caller hears of it, or hears an exception, or is no more."""
    for key, world in state.world:
        for packet in world.packets:
            sent_key, caller = packet
            gone = world._replace(packets=world.packets - {packet})
            acted = with_world(
                state,
                key,
                gone._replace(
                    applied=world.applied | {sent_key},
                    calls=world.calls + (scene.on_unknown == "probe"),
                ),
            )
            yield f"world: acts on {sent_key} for {caller}", _called(acted, caller, key, "called")
            waits = _called(state, caller, key, "doubt")
            if waits == state:
                yield f"world: a call on {sent_key} is lost", with_world(state, key, gone)
            elif state.left.exceptions:
                raised = spend(_called(acted, caller, key, "doubt"), "exceptions")
                yield f"world: acts on {sent_key}, {caller} hears an exception", raised
                yield f"world: {caller} hears an exception", spend(waits, "exceptions")


def _called(state: State, caller: str, key: str, phase: str) -> State:
    for number, worker in enumerate(state.workers):
        attempt = worker.attempt
        if attempt is not None and attempt.token == caller and attempt.phase == "calling":
            return with_attempt(state, number, attempt._replace(phase=phase))
    return state


# -- the database fails over ---------------------------------------------------------------------


def _failover(state: State) -> Iterator[Move]:
    """A standby stops following at any commit; later it becomes the primary, all after it lost."""
    if not state.left.failovers:
        return
    if state.standby is None:
        yield "standby: follows no further", state._replace(standby=_unlocked(state.db))
        return
    after = state._replace(
        db=state.standby,
        standby=None,
        open=frozenset(),
        reapers=(Reaper(),) * len(state.reapers),
    )
    for number, worker in enumerate(state.workers):
        attempt = worker.attempt
        waits = attempt is not None and attempt.sent >= 0
        if attempt is not None and waits and (attempt.sent, 0) not in state.flight:
            after = with_attempt(after, number, attempt._replace(silent=True))
    yield "failover: the standby is the database now", spend(after, "failovers")


def _unlocked(db: Database) -> Database:
    return Database(
        tuple(task._replace(lock="") for task in db.tasks),
        tuple((key, row._replace(lock="")) for key, row in db.effects),
    )
