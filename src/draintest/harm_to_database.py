"""The second plane: scenarios that harm the database, a server before it, or the wire to it."""

from __future__ import annotations

import time
from random import Random

from . import program
from .faults import Missed, faketime_library
from .network import WAYS, can_drop
from .processes import Process
from .scenarios import Play, Scenario
from .stage import Stage
from .waiting import pause
from .wire import LOSE_ANSWER, LOSE_COMMIT

WIRE = frozenset({"wire"})
SERVER = frozenset({"server"})
FRONT = frozenset({"front"})
# How long each lasts, in leases.
LASTS = {"cut": 0.5, "pause": 0.5, "blackhole": 1.6, "one-way": 1.6}
# A minute ahead: every lease seems to have run out. An hour back: none seems to, for an hour.
STEPS_S = {"ahead": 60, "back": -3600}
SUBMITS_MAX = 300
LOSES = ("blackhole", "one-way")


def scenarios() -> list[Scenario]:
    """Each fault of the wire at one of two acts; each fault of the server, alone."""
    lost = [
        Scenario(f"wire-{fault}-{act}", _loses(fault, act), (fault,), WIRE, quick=act == "charge")
        for fault in (LOSE_COMMIT, LOSE_ANSWER)
        for act in ("plan", "charge", "ticket")
    ]
    lasting = [Scenario(f"wire-{fault}", _lasts(fault), (fault,), WIRE) for fault in LASTS]
    lasting.append(Scenario("wire-slow", _slow, ("slow",), WIRE, quick=False))
    server = [
        Scenario(
            f"database-{fault}",
            _server(fault),
            (f"database-{fault}",),
            SERVER,
            alone=True,
            quick=fault == "kill",
        )
        for fault in ("restart", "kill", "freeze")
    ]
    front = [
        Scenario(f"front-{fault}", _server(fault, "front"), (f"front-{fault}",), FRONT)
        for fault in ("restart", "kill", "freeze")
    ]
    clocks = [
        Scenario(f"database-clock-{way}", clock(by_s, library), ("database-clock",), SERVER,
                 alone=True, quick=False)
        for way, by_s in STEPS_S.items()
        if (library := faketime_library())
    ]  # fmt: skip
    drops = [
        Scenario(f"network-{way}", _drops(way), (way,), WIRE, alone=True, quick=False)
        for way in (WAYS if can_drop() else ())
    ]
    full = Scenario("database-disk", disk_full, ("disk",), alone=True, disk=True, quick=False)
    return [*lasting, *lost, *server, *front, *clocks, *drops, full]


def _loses(fault: str, act: str) -> Play:
    """What the worker writes next, after the answer that it waits for, is lost; or its answer."""

    def play(stage: Stage) -> None:
        victim = _held(stage, act)
        in_flight = stage.in_flight(victim)
        stage.began(fault, victim)
        stage.wire.lay(fault)
        stage.witness.let_go(stage.name, act)
        if not stage.wire.sprung.wait(stage.limits.patience_s):
            stage.missed(fault, victim, "nothing was written")
            raise Missed("nothing was written after the answer")
        stage.landed(fault, victim, {"lost_bytes": stage.wire.lost_bytes}, in_flight)
        stage.until_rest()

    return play


def _lasts(fault: str) -> Play:
    """The wire is cut, or holds or swallows everything, for a while; then it is whole again."""

    def play(stage: Stage) -> None:
        victim = _held(stage, "charge")
        in_flight = stage.in_flight(victim)
        stage.began(fault, victim)
        stage.wire.set(fault)
        from_s = time.monotonic()
        pause(LASTS[fault] * stage.limits.ttl_ms / 1000)
        stage.look_owners()
        stage.witness.let_go(stage.name, "charge")
        stage.wire.set("whole")
        proof = {"lost_bytes": stage.wire.lost_bytes, "seconds": time.monotonic() - from_s}
        if fault in LOSES and not stage.wire.lost_bytes:
            stage.missed(fault, victim, "nothing was sent meanwhile")
            raise Missed("no byte was lost")
        stage.landed(fault, victim, proof, in_flight)
        stage.until_rest()

    return play


def _slow(stage: Stage) -> None:
    """Each message takes longer, from the middle of the task to its end."""
    victim = _held(stage, "charge")
    in_flight = stage.in_flight(victim)
    stage.began("slow", victim)
    stage.wire.set("slow")
    stage.witness.let_go(stage.name, "charge")
    stage.until_act("ticket")
    stage.until_rest()
    if not stage.wire.delayed:
        stage.missed("slow", victim, "nothing was sent meanwhile")
        raise Missed("no message was delayed")
    stage.landed("slow", victim, {"delayed": stage.wire.delayed}, in_flight)
    stage.wire.set("whole")


def _server(fault: str, what: str = "database") -> Play:
    """The database, or the server before it, goes away and comes again, or stands still."""

    def play(stage: Stage) -> None:
        harmed = stage.server if what == "database" else stage.target.front()
        stage.witness.hold(stage.name, "charge", "before")
        stage.submit(program.core())
        stage.worker()
        stage.until_held("charge", "before")
        stage.worker()
        in_flight = stage.in_flight_anywhere()
        name = f"{what}-{fault}"
        stage.began(name, None)
        harm = {"restart": harmed.restart, "kill": harmed.kill}
        proof = harm[fault]() if fault in harm else harmed.freeze(1.0)
        if proof.get("started_before", "-") == proof.get("started_after", "+"):
            stage.missed(name, None, "the server's start time is the same")
            raise Missed(f"the {what} was not restarted")
        stage.landed(name, None, proof, in_flight)
        stage.witness.let_go(stage.name, "charge")
        stage.until_rest()

    return play


def _drops(way: str) -> Play:
    """The kernel drops a worker's packets for longer than a lease: nothing is acknowledged."""

    def play(stage: Stage) -> None:
        stage.witness.hold(stage.name, "charge", "applied")
        stage.submit(program.core())
        stage.behind_network()
        victim = stage.worker("victim")
        stage.until_held("charge", "applied")
        stage.before_network()
        stage.worker("heir")
        in_flight = stage.in_flight(victim)
        stage.began(way, victim)
        stage.network.drop(way)
        pause(1.6 * stage.limits.ttl_ms / 1000)
        stage.look_owners()
        stage.witness.let_go(stage.name, "charge")
        packets = stage.network.heal()
        if not packets:
            stage.missed(way, victim, "nothing was sent meanwhile")
            raise Missed("no packet was dropped")
        stage.landed(way, victim, {"packets": packets}, in_flight)
        stage.until_rest()

    return play


def clock(by_s: int, library: str) -> Play:
    """The database's clock is stepped while a task is in its owner's hands: it stays there."""

    def play(stage: Stage) -> None:
        stage.server.with_clock(library)
        try:
            stage.witness.hold(stage.name, "charge", "before")
            stage.submit(program.core())
            stage.worker()
            stage.until_held("charge", "before")
            stage.worker()
            stage.look_owners()
            in_flight = stage.in_flight_anywhere()
            stage.began("database-clock", None)
            proof = stage.server.step_clock(by_s)
            if abs(proof["shift_ms"]) < abs(by_s) * 900:
                stage.missed("database-clock", None, f"it reads {proof['shift_ms']} ms beside ours")
                raise Missed("the database's clock was not stepped")
            stage.tell("clock.stepped", shift_ms=by_s * 1000)
            stage.landed("database-clock", None, proof, in_flight)
            pause(1.5 * stage.limits.ttl_ms / 1000)
            stage.look_owners()
            stage.witness.let_go(stage.name, "charge")
            stage.until_rest()
        finally:
            stage.server.without_clock()

    return play


def disk_full(stage: Stage) -> None:
    """The disk is full for longer than a lease: what was acknowledged is there when it has room."""
    stage.witness.hold(stage.name, "plan", "applied")
    stage.submit(program.core())
    victim = stage.worker("victim")
    stage.until_held("plan", "applied")
    in_flight = stage.in_flight(victim)
    stage.began("disk", None)
    proof = stage.disk.fill()
    # Those that still succeed use up what is left in the pages of files that are there already.
    bulky = program.other("bulk", "sleep", ms=1, text=Random(1).randbytes(2_000).hex())
    refused = stage.submit_until_refused([bulky, program.effect("charge", "keyed")], SUBMITS_MAX)
    if not refused or proof["free_blocks"]:
        stage.missed("disk", None, f"{SUBMITS_MAX} tasks were stored though the disk is full")
        raise Missed("nothing was refused")
    stage.landed("disk", None, {**proof, "refused": refused}, in_flight)
    stage.witness.let_go(stage.name, "plan")
    pause(1.6 * stage.limits.ttl_ms / 1000)
    stage.disk.make_room()
    stage.tell("fault.ended", fault="disk", worker="", pid=0)
    stage.until_rest()


def _held(stage: Stage, act: str) -> Process:
    """A worker behind the wire, held in an act that the world has applied; and its heir."""
    stage.witness.hold(stage.name, act, "applied")
    stage.submit(program.core())
    stage.behind_wire()
    victim = stage.worker("victim")
    stage.until_held(act, "applied")
    stage.before_wire()
    stage.worker("heir")
    stage.look_owners()
    return victim
