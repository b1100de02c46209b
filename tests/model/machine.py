"""The state of the whole system, and the network between its processes and the store.

Read next: ``attempts.py`` (what a worker does), ``others.py`` (reaper, clients, world, faults).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from tests.model import log as logs
from tests.model.database import (
    Broken,
    Database,
    Effect,
    Open,
    Reply,
    Request,
    Task,
    can_lock,
    claim,
    committed,
    locked,
    numbered,
    observe,
    opened,
    request_of,
    write,
)

# Promises that a single move can break: the move writes the name into ``State.wrong``.
TOLD_THE_TRUTH = "nobody is told 'lost' whose write stands"
CALLED_IN_TRUST = "no call is begun after trust is gone or a cancel was heard"
REAPED_LAPSED = "only a lapsed lease is declared dead"
RECEIPT_WINS = "a person's 'not applied' never overrides an observed 'applied'"

TRANSACTIONS = frozenset(["let go", "begin", "signal", "cancel"])


class Left(NamedTuple):
    """What may still happen: every fault and every order is counted."""

    crashes: int = 0
    lapses: int = 0  # a lease lapses although its owner lives
    mistrusts: int = 0  # an owner stops trusting a lease that is still good
    lost: int = 0  # answers that never arrive
    late: int = 0  # requests sent again while the first copy is still on its way
    failovers: int = 0
    drains: int = 0
    fails: int = 0  # the agent raises
    exceptions: int = 0  # a tool raises, whether or not the world has acted
    notes: int = 0  # a late `finally`
    revokes: int = 0
    signals: int = 0
    cancels: int = 0
    timers: int = 0


class Attempt(NamedTuple):
    task: int
    token: str
    epoch: int = 0
    quote: int = -1  # the log up to the last event that it may quote
    phase: str = "asking"  # asking, acting, call, calling, called, doubt, probe, gone
    trust: bool = True
    cancel_heard: bool = False
    sent: int = -1  # the number of a request without an answer
    silent: bool = False  # the answer to what was sent is lost: send it again


class Worker(NamedTuple):
    life: int = 0  # attempts so far, so that tokens never repeat
    attempt: Attempt | None = None


class Reaper(NamedTuple):
    stage: str = ""  # "", listed, locked
    task: int = -1
    grant: int = 0
    quote: int = -1


class World(NamedTuple):
    """What really happened outside, a key."""

    calls: int = 0
    applied: frozenset[str] = frozenset()
    packets: frozenset[tuple[str, str]] = frozenset()  # (world key, token of the caller)


class State(NamedTuple):
    db: Database
    workers: tuple[Worker, ...]
    reapers: tuple[Reaper, ...]
    left: Left
    open: frozenset[Open] = frozenset()
    flight: frozenset[tuple[int, int]] = frozenset()  # requests; which copy
    world: tuple[tuple[str, World], ...] = ()
    standby: Database | None = None
    wrong: str | None = None


Move = tuple[str, State]


@dataclass(frozen=True)
class Scene:
    """Who plays, what the agent does, how often each fault may strike, which rules are out."""

    scripts: tuple[tuple[str, ...], ...]  # a task, its acts
    on_unknown: str = "retry"  # retry, probe, ask
    workers: int = 2
    reapers: int = 1
    resumes_max: int = 9
    left: Left = field(default_factory=Left)
    prompt: bool = False  # a request arrives with the move that sends it: fewer ways to pause
    broken: Broken = frozenset()

    def first_state(self) -> State:
        keys = sorted({act for script in self.scripts for act in script if act.startswith("key")})
        return State(
            db=Database(
                tasks=tuple(Task(logs.new_log(number)) for number in range(len(self.scripts))),
                effects=tuple((key, Effect()) for key in keys),
            ),
            workers=(Worker(),) * self.workers,
            reapers=(Reaper(),) * self.reapers,
            left=self.left,
            world=tuple((key, World()) for key in keys),
        )


# -- small changes of a state ----------------------------------------------------------------------


def spend(state: State, fault: str) -> State:
    left = state.left
    return state._replace(left=left._replace(**{fault: getattr(left, fault) - 1}))


def with_worker(state: State, number: int, worker: Worker) -> State:
    workers = state.workers
    return state._replace(workers=(*workers[:number], worker, *workers[number + 1 :]))


def with_attempt(state: State, number: int, attempt: Attempt) -> State:
    return with_worker(state, number, state.workers[number]._replace(attempt=attempt))


def without_attempt(state: State, number: int) -> State:
    return with_worker(state, number, Worker(state.workers[number].life + 1))


def world_of(state: State, key: str) -> World:
    return next(world for name, world in state.world if name == key)


def with_world(state: State, key: str, world: World) -> State:
    worlds = tuple((name, world if name == key else old) for name, old in state.world)
    return state._replace(world=worlds)


def send(state: State, number: int, request: Request) -> State:
    attempt = state.workers[number].attempt
    assert attempt is not None
    sent = numbered(request)
    state = with_attempt(state, number, attempt._replace(sent=sent, silent=False))
    return in_flight(state, sent)


def in_flight(state: State, sent: int, copy: int = 0) -> State:
    return state._replace(flight=state.flight | {(sent, copy)})


# -- the network -----------------------------------------------------------------------------------


def deliveries(scene: Scene, state: State) -> Iterator[Move]:
    """A request arrives; now, late, or after another copy of itself."""
    for sent, copy in sorted(state.flight):
        request = request_of(sent)
        arrived = state._replace(flight=state.flight - {(sent, copy)})
        label = f"{told(sent)} arrives{' (a late copy)' if copy else ''}"
        if request.verb in TRANSACTIONS:
            db, tx = opened(state.db, request, scene.broken)
            waits = "" if tx.locked else ", waits for the lock"
            if tx not in state.open:
                yield label + waits, arrived._replace(db=db, open=state.open | {tx})
        else:
            db, reply = _at_once(state.db, request, scene.broken)
            yield from replied(scene, arrived._replace(db=db), sent, reply, label)


def _at_once(db: Database, request: Request, broken: Broken) -> tuple[Database, Reply]:
    if request.verb == "claim":
        return claim(db, request, broken)
    if request.verb == "observe":
        return observe(db, request.key), Reply("ok")
    return write(db, request.task, request.entries, request.epoch, request.by, broken)


def transactions(scene: Scene, state: State) -> Iterator[Move]:
    """An open transaction gets its lock, or commits."""
    for tx in sorted(state.open):
        request = request_of(tx.number)
        others = state.open - {tx}
        if not tx.locked:
            if can_lock(state.db, request):
                held = state._replace(
                    db=locked(state.db, request), open=others | {tx._replace(locked=True)}
                )
                yield f"{told(tx.number)} gets its lock", held
            continue
        db, reply = committed(state.db, tx, scene.broken)
        label = f"{told(tx.number)} commits"
        yield from replied(scene, state._replace(db=db, open=others), tx.number, reply, label)


def replied(scene: Scene, state: State, sent: int, reply: Reply, label: str) -> Iterator[Move]:
    """The sender hears the answer, if he still waits for it; or the answer is lost."""
    number = waiting_for(state, sent)
    told_so = f"{label}: {reply.word}"
    state = _judged(state, request_of(sent), reply)
    if number is None:
        yield told_so, state
        return
    yield told_so, heard(scene, state, number, reply)
    attempt = state.workers[number].attempt
    assert attempt is not None
    if state.left.lost and not attempt.silent:
        silent = with_attempt(state, number, attempt._replace(silent=True))
        yield told_so + ", the answer is lost", spend(silent, "lost")


def waiting_for(state: State, sent: int) -> int | None:
    for number, worker in enumerate(state.workers):
        if worker.attempt is not None and worker.attempt.sent == sent:
            return number
    return None


def _judged(state: State, request: Request, reply: Reply) -> State:
    if reply.word != "lost" or not request.entries:
        return state
    place = request.entries[0].seq
    for event in logs.events(state.db.tasks[request.task].log):
        mine = event.by == request.by and event.kind != "lease.granted"
        if event.seq == place and mine:
            return state._replace(wrong=TOLD_THE_TRUTH)
    return state


def heard(scene: Scene, state: State, number: int, reply: Reply) -> State:
    """What an attempt makes of an answer: its quote moves on, or it is over."""
    attempt = state.workers[number].attempt
    assert attempt is not None
    sent = request_of(attempt.sent)
    attempt = attempt._replace(sent=-1, silent=False)
    if reply.word == "granted":
        fold = logs.fold(reply.log)
        return with_attempt(
            state, number, attempt._replace(phase="acting", epoch=fold.epoch, quote=reply.log)
        )
    if reply.word == "nothing":
        return with_worker(state, number, state.workers[number]._replace(attempt=None))
    if reply.word == "busy":
        return with_attempt(state, number, attempt)
    if reply.word in ("lost", "over"):
        return _lost(scene, state, number, attempt, sent)
    phase = _phase_after(reply, attempt.phase)
    if phase == "gone" and not state.left.notes:
        return without_attempt(state, number)
    return with_attempt(state, number, attempt._replace(quote=reply.log, phase=phase))


def _phase_after(reply: Reply, phase: str) -> str:
    if reply.word == "fresh":
        return "call"
    if reply.word == "doubt":
        # (the second half is the broken order: probed first, then taken over)
        return phase.removeprefix("probed ") if phase.startswith("probed ") else "doubt"
    return "acting" if logs.fold(reply.log).state == "running" else "gone"


def _lost(scene: Scene, state: State, number: int, attempt: Attempt, sent: Request) -> State:
    if "quote by reading" in scene.broken and attempt.phase != "gone":
        head = state.db.tasks[attempt.task].log
        return with_attempt(state, number, attempt._replace(quote=head))
    state = without_attempt(state, number)
    if sent.entries and sent.entries[-1].kind == "effect.applied":
        known = Request("observe", sent.by, sent.task, key=str(sent.entries[-1].about[0]))
        return in_flight(state, numbered(known))
    return state


@cache
def told(sent: int) -> str:
    """A request in words, for the trace."""
    request = request_of(sent)
    kinds = " + ".join(entry.kind for entry in request.entries)
    place = f" {kinds} at {request.entries[0].seq}" if kinds else ""
    key = f" of {request.key}" if request.key else ""
    return f"{request.by}: {request.verb}{place}{key}, task {request.task},"
