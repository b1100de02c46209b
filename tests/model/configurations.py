"""The table: which actors, how many, which bounds; and which rule taken out breaks what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.model import log as logs
from tests.model import promises
from tests.model.attempts import worker_moves
from tests.model.machine import Left, Move, Scene, State, deliveries, transactions
from tests.model.others import other_moves
from tests.model.search import Found, search

Script = tuple[str, ...]
STEP: Script = ("step", "end")
STEPS: Script = ("step", "step", "end")
PAIR: Script = ("pair", "(second)", "end")
WAIT: Script = ("wait", "end")
EFFECT: Script = ("key", "end")


def run(scene: Scene, limit: int = 3_000_000) -> Found[State]:
    def moves(state: State) -> Iterator[Move]:
        yield from worker_moves(scene, state)
        yield from deliveries(scene, state)
        yield from transactions(scene, state)
        yield from other_moves(scene, state)

    def check(state: State) -> str | None:
        return promises.check(scene, state)

    return search(scene.first_state(), moves, check, limit, goal=promises.ended)


SMALL: dict[str, Scene] = {
    "hand-over": Scene((STEP,), left=Left(crashes=1, lapses=1, lost=1)),
    "late": Scene((STEP,), left=Left(lapses=1, late=1, lost=1)),
    "two reapers": Scene((STEP,), reapers=2, left=Left(lapses=2)),
    "batch": Scene((PAIR,), left=Left(lapses=1, late=1)),
    "drain": Scene((STEP,), left=Left(drains=1, fails=1, notes=1, lost=1)),
    "failover": Scene((STEP,), left=Left(failovers=1, late=1)),
    "wait": Scene((WAIT,), left=Left(signals=1, late=1, lapses=1)),
    "cancel": Scene((STEP,), left=Left(cancels=1, drains=1, lost=1, lapses=1)),
    "retry": Scene((EFFECT,), left=Left(crashes=1, lapses=1, exceptions=1)),
    "probe": Scene((EFFECT,), on_unknown="probe", left=Left(crashes=1, lapses=1, exceptions=1)),
    "ask": Scene((EFFECT,), on_unknown="ask", left=Left(crashes=1, lapses=1, exceptions=1)),
    "shared": Scene((EFFECT, EFFECT), on_unknown="ask", left=Left(crashes=1)),
    "abandon": Scene((EFFECT,), resumes_max=0, left=Left(lapses=1, cancels=1)),
}
