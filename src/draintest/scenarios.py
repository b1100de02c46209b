"""Scenarios: what is done to whom, at which point. Each is a function of its stage."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from . import program
from .faults import KILL, STOP, TERM
from .inspection import look_at_silence
from .processes import Process
from .program import Act
from .stage import Stage
from .waiting import pause

# How many of the random programs have one of their tasks cancelled.
CANCELS = 0.4
Play = Callable[[Stage], None]


@dataclass(frozen=True)
class Scenario:
    """One scenario. `needs`: offers of the target without which it cannot be played.

    `harms`: the faults that must land for its findings to count. `alone`: not beside others.
    `disk`: on a small disk of its own, which can be filled. `quick`: in the quick profile, too.
    """

    name: str
    play: Play
    harms: tuple[str, ...] = ()
    needs: frozenset[str] = frozenset()
    alone: bool = False
    disk: bool = False
    quick: bool = True
    facts: dict[str, Any] = field(default_factory=dict)


# -- every point, every fault ---------------------------------------------------------------------


def calm(stage: Stage) -> None:
    """No harm: what the others are compared with, and where the points are counted."""
    stage.submit(program.core())
    stage.worker()
    stage.until_rest()


def at_point(acts: list[Act], act: str, point: str, fault: str) -> Play:
    """Hold a worker's call at a point, harm the worker there, and see the task go on elsewhere."""

    def play(stage: Stage) -> None:
        hold_at = "before" if point == "answered" else point
        stage.witness.hold(stage.name, act, hold_at)
        stage.submit(acts)
        victim = stage.worker("victim")
        stage.until_held(act, hold_at)
        # The heir of a frozen worker has its name: names are no fence.
        heir = stage.worker("victim" if fault == STOP else "heir")
        stage.look_owners()
        if fault == STOP:
            # The heir is held in the same act, so that both are there when the frozen one wakes.
            stage.witness.hold(stage.name, act, "before")
        if point == "answered":
            _strike_after_answer(stage, fault, victim, act)
        else:
            stage.harm(fault, victim)
        _after(stage, fault, victim, heir, act)
        stage.until_rest()

    return play


def child_at_point(act: str, point: str) -> Play:
    """The command that does an act is killed; its worker lives, and knows that it failed."""

    def play(stage: Stage) -> None:
        acts = [each | {"child": each["name"] == act} for each in program.core()]
        stage.witness.hold(stage.name, act, point)
        stage.submit(acts)
        worker = stage.worker()
        held = stage.until_held(act, point)
        stage.harm_child(held, worker)
        stage.witness.let_go(stage.name, act)
        stage.until_rest()

    return play


def _strike_after_answer(stage: Stage, fault: str, victim: Process, act: str) -> None:
    number = {KILL: 9, TERM: 15, STOP: 19}[fault]
    stage.witness.strike(stage.name, act, number, victim.pid)
    stage.witness.let_go(stage.name, act, victim.pid)
    stage.harmed_by_world(fault, victim, act)


def _after(stage: Stage, fault: str, victim: Process, heir: Process, act: str) -> None:
    if fault == STOP:
        until_taken_over(stage, heir)
        stage.look_owners()
        stage.thaw(victim)
        stage.witness.let_go(stage.name, act, victim.pid)
        linger(stage, victim)
    stage.witness.let_go(stage.name, act)
    if fault == TERM:
        stage.until_exit(victim, stage.limits.grace_ms / 1000 + stage.limits.patience_s)
    if fault == STOP:
        linger(stage, victim)


def until_taken_over(stage: Stage, heir: Process) -> bool:
    """Wait until the heir acts, or the task rests without it."""
    deadline = time.monotonic() + stage.limits.patience_s
    while time.monotonic() < deadline:
        if stage.witness.records(stage.name, "world.came", pid=heir.pid):
            return True
        seen = stage.tasks() or [{"state": ""}]
        if all(task["state"] in ("review", "succeeded", "failed", "cancelled") for task in seen):
            return True
        pause(0.2)
    stage.tell("missing", act="", why="nobody took the task over")
    return False


def linger(stage: Stage, zombie: Process) -> None:
    """Give one that woke late the time to do what it must not."""
    zombie.wait(stage.limits.ttl_ms / 1000 / 2)


# -- time -----------------------------------------------------------------------------------------


def long_call(stage: Stage) -> None:
    """Nothing is wrong: a call takes two and a half leases. Nobody may take the task away."""
    stage.witness.hold(stage.name, "charge", "before")
    stage.submit(program.core())
    stage.worker()
    stage.worker()
    stage.until_held("charge", "before")
    _let_time_pass(stage, 2.5)
    stage.witness.let_go(stage.name, "charge")
    stage.until_rest()


def blocked(stage: Stage) -> None:
    """Careless code holds up its worker for two leases: a heartbeat must not need its loop."""
    busy = program.other("busy", "block", ms=2 * stage.limits.ttl_ms)
    plan, charge, email, _ = program.core()
    stage.submit([plan, email, busy, charge])
    stage.worker()
    stage.worker()
    stage.until_act("charge")
    stage.until_rest()


def clock_of_heir(library: str) -> Play:
    """Another worker's clock is ten minutes ahead: it may not think that leases have run out."""

    def play(stage: Stage) -> None:
        stage.witness.hold(stage.name, "charge", "before")
        stage.submit(program.core())
        stage.worker()
        stage.until_held("charge", "before")
        ahead = {"LD_PRELOAD": library, "FAKETIME": "+600", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        heir = stage.worker("heir", environment=ahead)
        stage.clock_stepped(heir, ahead)
        _let_time_pass(stage, 1.2)
        stage.witness.let_go(stage.name, "charge")
        stage.until_rest()

    return play


def _let_time_pass(stage: Stage, leases: float) -> None:
    for _ in range(4):
        pause(leases * stage.limits.ttl_ms / 4000)
        stage.look_owners()
    look_at_silence(stage)


# -- drain ----------------------------------------------------------------------------------------


def slow_drain(stage: Stage) -> None:
    """The call in hand takes longer than a lease, and less than the grace: it is waited for."""
    victim, _ = _draining(stage)
    pause(min(1.5 * stage.limits.ttl_ms, 0.6 * stage.limits.grace_ms) / 1000)
    stage.look_owners()
    stage.witness.let_go(stage.name, "charge")
    stage.until_exit(victim, stage.limits.grace_ms / 1000 + stage.limits.patience_s)
    stage.until_rest()


def endless_drain(stage: Stage) -> None:
    """The call in hand is never answered: the worker leaves when its grace is over."""
    victim, _ = _draining(stage)
    stage.until_exit(victim, stage.limits.grace_ms / 1000 + stage.limits.patience_s)
    stage.witness.let_go(stage.name, "charge")
    stage.until_rest()


def idle_drain(stage: Stage) -> None:
    """A worker that is draining takes nothing new, though it has room."""
    victim, _ = _draining(stage)
    stage.submit([program.step("later"), program.effect("afterwards", "keyed")])
    stage.until_act("afterwards")
    stage.witness.let_go(stage.name, "charge")
    stage.until_exit(victim, stage.limits.grace_ms / 1000 + stage.limits.patience_s)
    stage.until_rest()


def _draining(stage: Stage) -> tuple[Process, Process]:
    stage.witness.hold(stage.name, "charge", "before")
    stage.submit(program.core())
    victim = stage.worker("victim")
    stage.until_held("charge", "before")
    heir = stage.worker("heir")
    stage.look_owners()
    stage.harm(TERM, victim)
    return victim, heir


# -- cancel ---------------------------------------------------------------------------------------


def cancel_running(stage: Stage) -> None:
    """Cancelled in the middle of a call: nothing more is done after it."""
    stage.witness.hold(stage.name, "charge", "before")
    stage.submit(program.core())
    stage.worker()
    stage.until_held("charge", "before")
    # An owner that cannot stop may leave: somebody else then sees to it that the order is obeyed.
    stage.worker("heir")
    for task in stage.programs:
        stage.cancel(task)
    # The order reaches the owner with its next heartbeat at the latest.
    # Far enough beyond, that a slow machine is no excuse.
    pause(3 * stage.limits.cancel_ms / 1000)
    stage.witness.let_go(stage.name, "charge")
    stage.until_rest()
    pause(0.3)


def cancel_without_worker(stage: Stage) -> None:
    """Nobody is there to answer: the task is cancelled all the same."""
    for task in [stage.submit(program.core())]:
        stage.cancel(task)
    stage.until_rest()


def cancel_orphan(stage: Stage) -> None:
    """The owner is dead and no worker is alive: the order is carried out once the lease is over."""
    stage.witness.hold(stage.name, "charge", "before")
    task = stage.submit(program.core())
    victim = stage.worker("victim")
    stage.until_held("charge", "before")
    stage.harm(KILL, victim)
    stage.witness.let_go(stage.name, "charge")
    stage.cancel(task)
    pause(stage.limits.ttl_ms / 1000)
    look_at_silence(stage)
    stage.worker("heir")
    stage.until_rest()


def cancel_with_child(stage: Stage) -> None:
    """A task that started a process is cancelled: the process is gone with it."""
    acts = [program.step("plan"), program.other("child", "spawn", s=120), *program.core()[1:]]
    stage.witness.hold(stage.name, "charge", "before")
    task = stage.submit(acts)
    worker = stage.worker()
    stage.until_held("charge", "before")
    stage.worker("heir")
    stage.family(worker, "before")
    stage.cancel(task)
    pause(stage.limits.cancel_ms / 1000)
    stage.witness.let_go(stage.name, "charge")
    stage.until_rest()
    pause(0.5)
    stage.family(worker, "after")


# -- what is bad for workers ----------------------------------------------------------------------


def poison(stage: Stage) -> None:
    """A task that kills whoever runs it is given up, and its neighbours come to their end."""
    stage.submit([program.step("start"), program.other("poison", "die")])
    neighbour = stage.submit([program.step("plan"), program.effect("charge", "keyed")])
    stage.tell("poisoned", neighbour=neighbour, budget=stage.limits.resumes)
    lives = stage.limits.resumes + 8
    deadline = time.monotonic() + stage.limits.patience_s * 8
    for _ in range(lives):
        worker = stage.worker(patient=False)
        while worker.code is None and not stage.until_state(("succeeded", "failed"), 0.3):
            if time.monotonic() > deadline:
                return
        if worker.code is None:
            return
        stage.tell("worker.ended", worker=worker.name, pid=worker.pid, code=worker.code)


def many_submits(stage: Stage) -> None:
    """Twenty tasks, their worker killed in the middle: each acknowledged one ends."""
    stage.witness.hold(stage.name, "gate", "before")
    for number in range(20):
        first = program.step("gate" if number == 7 else "plan")
        stage.submit([first, program.effect(f"charge{number}", "keyed")])
    victim = stage.worker("victim")
    stage.until_held("gate", "before")
    stage.worker("heir")
    stage.harm(KILL, victim)
    stage.witness.let_go(stage.name, "gate")
    stage.until_rest()


# -- chance ---------------------------------------------------------------------------------------


def by_chance(seed: int, kinds: tuple[str, ...]) -> Play:
    """Random programs, random faults at random points; then heal, and demand progress."""

    def play(stage: Stage) -> None:
        chance = Random(seed)
        for _ in range(chance.randint(1, 3)):
            epochs = "epochs" in stage.target.offers
            stage.submit(program.random_program(chance, epochs=epochs))
        workers = [stage.worker() for _ in range(2)]
        for _ in range(chance.randint(1, 3)):
            pause(chance.uniform(0.05, 0.6))
            victim = chance.choice(workers)
            workers.remove(victim)
            _harm_by_chance(stage, chance.choice(kinds), victim)
            workers.append(stage.worker())
        if "cancel" in stage.target.offers and chance.random() < CANCELS:
            stage.cancel_if_open(chance.choice(list(stage.programs)))
        stage.until_rest()

    return play


def _harm_by_chance(stage: Stage, fault: str, victim: Process) -> None:
    stage.harm(fault, victim, idle=True)
    if fault == STOP:
        pause(1.4 * stage.limits.ttl_ms / 1000)
        stage.thaw(victim)
    if fault == TERM:
        stage.until_exit(victim, stage.limits.grace_ms / 1000 + stage.limits.patience_s)
