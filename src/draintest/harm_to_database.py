"""Scenarios in which the database is harmed, or the wire to it: the second plane of faults."""

from __future__ import annotations

import time

from . import program
from .faults import Missed
from .processes import Process
from .scenarios import Play, Scenario
from .stage import Stage
from .waiting import pause
from .wire import LOSE_ANSWER, LOSE_COMMIT

WIRE = frozenset({"wire"})
SERVER = frozenset({"server"})
# How long each lasts, in leases.
LASTS = {"cut": 0.5, "pause": 0.5, "blackhole": 1.6}


def scenarios() -> list[Scenario]:
    """Each fault of the wire at one of two acts; each fault of the server, alone."""
    lost = [
        Scenario(f"wire-{fault}-{act}", _loses(fault, act), (fault,), WIRE)
        for fault in (LOSE_COMMIT, LOSE_ANSWER)
        for act in ("plan", "charge", "ticket")
    ]
    lasting = [Scenario(f"wire-{fault}", _lasts(fault), (fault,), WIRE) for fault in LASTS]
    server = [
        Scenario(f"database-{fault}", _server(fault), (f"database-{fault}",), SERVER, alone=True)
        for fault in ("restart", "kill", "freeze")
    ]
    return [*lasting, *lost, *server]


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
        if fault == "blackhole" and not stage.wire.lost_bytes:
            stage.missed(fault, victim, "nothing was sent meanwhile")
            raise Missed("no byte was lost")
        stage.landed(fault, victim, proof, in_flight)
        stage.until_rest()

    return play


def _server(fault: str) -> Play:
    def play(stage: Stage) -> None:
        stage.witness.hold(stage.name, "charge", "before")
        stage.submit(program.core())
        stage.worker()
        stage.until_held("charge", "before")
        stage.worker()
        in_flight = stage.in_flight_anywhere()
        name = f"database-{fault}"
        stage.began(name, None)
        harm = {"restart": stage.server.restart, "kill": stage.server.kill}
        proof = harm[fault]() if fault in harm else stage.server.freeze(1.0)
        if proof.get("started_before", "-") == proof.get("started_after", "+"):
            stage.missed(name, None, "the server's start time is the same")
            raise Missed("the database was not restarted")
        stage.landed(name, None, proof, in_flight)
        stage.witness.let_go(stage.name, "charge")
        stage.until_rest()

    return play


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
