"""The table: which actors, how many, which bounds; and which rule taken out breaks what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.model import lease_time, machine, promises
from tests.model import log as logs
from tests.model.attempts import worker_moves
from tests.model.lease_time import Clockwork, Time
from tests.model.machine import Left, Move, Scene, State, deliveries, transactions
from tests.model.others import other_moves
from tests.model.search import Found, search

Script = tuple[str, ...]
STEP: Script = ("step", "end")
STEPS: Script = ("step", "step", "end")
PAIR: Script = ("pair", "(second)", "end")
WAIT: Script = ("wait", "end")
WAITS: Script = ("wait", "wait", "end")
EFFECT: Script = ("key", "end")


LIMIT = 3_000_000


def run(scene: Scene | Clockwork, limit: int = LIMIT) -> Found[Any]:
    """Search one configuration to its end, or to the first violation."""
    if isinstance(scene, Clockwork):
        return _run_time(scene, limit)
    return _run_protocol(scene, limit)


def _run_time(clock: Clockwork, limit: int) -> Found[Time]:
    return search(
        clock.first_state(),
        lambda now: lease_time.moves(clock, now),
        lambda now: lease_time.check(clock, now),
        limit,
        goal=lease_time.free_again,
    )


def _run_protocol(scene: Scene, limit: int) -> Found[State]:
    def moves(state: State) -> Iterator[Move]:
        for label, after in worker_moves(scene, state):
            if scene.prompt and len(after.flight) > len(state.flight):
                for then, arrived in deliveries(scene, after):
                    yield f"{label}; {then}", arrived
            else:
                yield label, after
        yield from deliveries(scene, state)
        yield from transactions(scene, state)
        yield from other_moves(scene, state)

    def check(state: State) -> str | None:
        return promises.check(scene, state)

    return search(scene.first_state(), moves, check, limit, goal=promises.ended)


SMALL: dict[str, Scene] = {
    "hand-over": Scene((STEP,), left=Left(crashes=1, lapses=1, lost=1)),
    "late": Scene((STEP,), left=Left(lapses=1, late=1, lost=1)),
    "two reapers": Scene((STEP,), reapers=2, left=Left(lapses=1, revokes=1)),
    "batch": Scene((PAIR,), left=Left(lapses=1, late=1)),
    "drain": Scene((STEP,), left=Left(drains=1, fails=1, notes=1, lost=1)),
    "failover": Scene((STEP,), left=Left(failovers=1, late=1)),
    "wait": Scene((WAIT,), left=Left(signals=1, timers=1, lapses=1)),
    "two waits": Scene((WAITS,), prompt=True, left=Left(signals=2, late=1)),
    "cancel": Scene((STEP,), left=Left(cancels=1, drains=1, lapses=1)),
    "cancel of a wait": Scene((WAIT,), prompt=True, left=Left(cancels=1, signals=1, lost=1)),
    "retry": Scene((EFFECT,), prompt=True, left=Left(crashes=1, lapses=1, exceptions=1)),
    "probe": Scene((EFFECT,), "probe", prompt=True, left=Left(crashes=1, lapses=1, exceptions=1)),
    "ask": Scene((EFFECT,), "ask", prompt=True, left=Left(lapses=1, lost=1)),
    "shared": Scene((EFFECT, EFFECT), "ask", prompt=True, left=Left(mistrusts=1)),
    "shared probe": Scene((EFFECT, EFFECT), "probe", prompt=True, left=Left(crashes=2)),
    "abandon": Scene((EFFECT,), resumes_max=0, left=Left(lapses=1, cancels=1)),
}


LARGE: dict[str, Scene] = {
    "three workers": Scene((STEP,), workers=3, prompt=True, left=Left(crashes=1, lapses=2, lost=1)),
    "two steps": Scene((STEPS,), left=Left(crashes=1, lapses=1, lost=1)),
    "reapers and revoke": Scene((STEP,), reapers=2, left=Left(lapses=1, revokes=1, cancels=1)),
    "failover and crash": Scene(
        (STEP,), prompt=True, left=Left(failovers=1, late=1, crashes=1, lost=1)
    ),
    "failover of an effect": Scene((EFFECT,), prompt=True, left=Left(failovers=1, crashes=1)),
    "wait and drain": Scene(
        (WAIT,), prompt=True, left=Left(signals=1, timers=1, lapses=1, drains=1)
    ),
    "wait, late": Scene((WAIT,), prompt=True, left=Left(signals=1, late=1, lapses=1)),
    "cancel, answer lost": Scene((STEP,), left=Left(cancels=1, drains=1, lapses=1, lost=1)),
    "cancel in a call": Scene(
        (EFFECT,), "ask", prompt=True, left=Left(cancels=1, crashes=1, drains=1)
    ),
    "ask, twice in doubt": Scene(
        (EFFECT,), "ask", prompt=True, left=Left(lapses=1, mistrusts=1, lost=1)
    ),
    "retry, answer lost": Scene(
        (EFFECT,), prompt=True, left=Left(crashes=1, lapses=1, exceptions=1, lost=1)
    ),
    "shared, lapsing": Scene((EFFECT, EFFECT), "ask", prompt=True, left=Left(lapses=1)),
    "shared, probed": Scene((EFFECT, EFFECT), "probe", prompt=True, left=Left(crashes=1, lapses=1)),
}

SMALL_TIME: dict[str, Clockwork] = {
    "time": Clockwork(),
    "time: reaper crashes": Clockwork(reaper_forgets=True),
    "time: claim asked again": Clockwork(workers=1, asks_again=1, grants=1),
    "time: outage": Clockwork(workers=1, outages=1, grants=1),
}

LARGE_TIME: dict[str, Clockwork] = {
    "time: slow reaper": Clockwork(reap_every=(3, 3)),
    "time: claims asked again": Clockwork(asks_again=1),
    "time: outage and rival": Clockwork(outages=1, grants=1),
    "time: failover": Clockwork(failovers=1),
}


@dataclass(frozen=True)
class Twin:
    """The protocol without one of its rules, and the promise that must be seen to break."""

    without: str
    scene: Scene | Clockwork
    promise: str

    def broken_scene(self) -> Scene | Clockwork:
        return replace(self.scene, broken=frozenset([self.without]))


TWINS: tuple[Twin, ...] = (
    # the chain
    Twin("no quote", SMALL["failover"], logs.FENCED),
    Twin("no holder", SMALL["drain"], logs.FENCED),
    Twin("no place", SMALL["late"], logs.UNBROKEN),
    Twin("release keeps its holder", SMALL["drain"], logs.FENCED),
    # rule 1
    Twin("follow-ups unguarded", SMALL["late"], promises.FOLDED),
    Twin("exists is guard", SMALL["drain"], promises.FOLDED),
    # rule 2
    Twin("two entries in one statement", SMALL["batch"], logs.FENCED),
    # rule 3
    Twin("quote by reading", SMALL["failover"], promises.ONE_WRITER),
    # rule 4
    Twin("sent again in other bytes", SMALL["late"], machine.TOLD_THE_TRUTH),
    Twin("another entry for the same number", SMALL["late"], machine.TOLD_THE_TRUTH),
    Twin("claim without token", SMALL["failover"], logs.FENCED),
    Twin("claim known by the worker's name", SMALL["hand-over"], logs.FENCED),
    # rule 5
    Twin("wait looks in the same statement", SMALL["wait"], promises.WAKES),
    Twin("signal without lock", SMALL["wait"], promises.WAKES),
    Twin("release ignores cancel", SMALL["cancel"], promises.CANCEL_READ),
    Twin("cancel looked up in the same statement", SMALL["cancel"], promises.CANCEL_READ),
    Twin("reap without a second look", SMALL["two reapers"], machine.REAPED_LAPSED),
    # signals, drain, replay
    Twin("consumed signal deleted", SMALL["two waits"], logs.CONSUMED_ONCE),
    Twin("drain spends a retry", SMALL["drain"], promises.DRAIN_IS_FREE),
    Twin("no replay before the first act", SMALL["hand-over"], logs.REPLAYED_FIRST),
    # effects
    Twin("epoch in the key", SMALL["retry"], promises.APPLIED_ONCE),
    Twin("begin without row lock", SMALL["shared"], promises.ONE_HOLDER),
    Twin("begin asked again is fresh", SMALL["ask"], promises.ASKED_ONCE),
    Twin("probe before take-over", SMALL["shared probe"], promises.ASKED_ONCE),
    Twin("no second look before the call", SMALL["ask"], machine.CALLED_IN_TRUST),
    Twin("no unknown before final", SMALL["abandon"], logs.SHOWN),
    Twin("not applied beats a receipt", SMALL["ask"], machine.RECEIPT_WINS),
    # trust and amnesty
    Twin("trust from the answer", SMALL_TIME["time"], lease_time.TRUST_IS_LEASED),
    Twin(
        "trust from the second asking",
        SMALL_TIME["time: claim asked again"],
        lease_time.TRUST_IS_LEASED,
    ),
    Twin("trust regained", SMALL_TIME["time"], lease_time.TRUST_IS_LEASED),
    Twin("no second look", SMALL_TIME["time"], lease_time.ONE_CALLS),
    Twin("probe at once", SMALL_TIME["time"], lease_time.ONE_CALLS),
    Twin("renewal by task", SMALL_TIME["time"], lease_time.BOUNDED),
    Twin("no amnesty", SMALL_TIME["time: outage"], lease_time.HAD_ITS_CHANCE),
    Twin("one look makes sure", SMALL_TIME["time: outage"], lease_time.HAD_ITS_CHANCE),
    Twin("amnesty kept in the reaper", SMALL_TIME["time: reaper crashes"], lease_time.BOUNDED),
    Twin("grants at once after failover", LARGE_TIME["time: failover"], lease_time.ONE_TRUSTS),
)

# The same, where the way to the violation is long.
LARGE_TWINS: tuple[Twin, ...] = (
    Twin(
        "begin asked again looks at the count alone",
        LARGE["ask, twice in doubt"],
        promises.ASKED_ONCE,
    ),
    Twin("grants wait one TTL only", LARGE_TIME["time: failover"], lease_time.ONE_CALLS),
)
