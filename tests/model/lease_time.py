"""Time alone: trust, renewals, amnesty and the waits, with the chain left out.

Time is a move, ``tick``. Nothing here knows a date: every number is what is left, or what has
passed, in ticks, so that the model is finite. The chain keeps the log right whatever the clocks
do (``machine.py``); this model says when a worker may *act*, and how long a dead one is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

TTL = 4
MARGIN = 1
KILL_AFTER = 2  # longer than the margin, as it may well be
UNSURE = TTL // 2  # a reaper that has not looked for longer is unsure, until it has for as long

ONE_TRUSTS = "at most one worker trusts a lease"
TRUST_IS_LEASED = "who trusts its lease has it, and it has not lapsed"
ONE_CALLS = "no heir probes or calls while a call of the old owner can be under way"
BOUNDED = "a lease is declared dead within 2 TTL + 2 reaps of its owner's last word"
HAD_ITS_CHANCE = "nobody is declared dead for an outage of the database"


class Lease(NamedTuple):
    grant: int
    left: int = TTL
    spared: bool = False
    age: int = 0  # since its owner was last heard of
    heard: int = 0  # of these, ticks in which the database could be reached


class Asked(NamedTuple):
    verb: str  # claim, renew
    age: int = 0  # since it was sent
    arrived: str = ""  # what the store has answered; it may be on its way for long
    again: bool = False


class Worker(NamedTuple):
    grant: int = 0  # the lease that it believes to have
    trust: int = 0
    given_up: int = 0  # the last lease that it had: a claim never answers with an older one
    untried: bool = False  # a grant whose claim was asked again: no trust before a renewal
    asked: Asked | None = None
    calling: int = -1  # ticks since its call should have been killed; -1: none is under way


class Time(NamedTuple):
    workers: tuple[Worker, ...]
    lease: Lease | None = None
    grants: int = 0
    gap: int = UNSURE + 1  # since the reaper has looked; the first look is an unsure one
    watched: int = 0  # how long it has looked without such a gap
    hold: int = 0  # no grants for so long
    cooling: int = 0  # the heir's calls wait for so long
    up: bool = True
    standby: tuple[Lease | None] | None = None
    outages: int = 0
    failovers: int = 0
    asks_again: int = 0
    declared: str = ""


@dataclass(frozen=True)
class Clockwork:
    """Who plays and which bounds hold."""

    workers: int = 2
    reap_every: tuple[int, int] = (1, 1)  # at least and at most so many ticks apart
    reaper_forgets: bool = False  # it crashes after every look
    outages: int = 0
    failovers: int = 0
    asks_again: int = 0
    grants: int = 2
    broken: frozenset[str] = frozenset()

    def first_state(self) -> Time:
        return Time(
            (Worker(),) * self.workers,
            outages=self.outages,
            failovers=self.failovers,
            asks_again=self.asks_again,
        )

    def age_max(self) -> int:
        """How old a lease may become without word from its owner; 0: not promised."""
        undisturbed = self.outages == 0 and self.failovers == 0
        return 2 * TTL + 2 * self.reap_every[1] if undisturbed else 0


Move = tuple[str, Time]


def moves(clock: Clockwork, now: Time) -> Iterator[Move]:
    for number, worker in enumerate(now.workers):
        yield from _worker(clock, now, number, worker)
    if now.up:
        yield from _reaper(clock, now)
    yield from _faults(clock, now)
    if _may_tick(clock, now):
        yield "tick", _tick(clock, now)


# -- a worker ------------------------------------------------------------------------------------


def _worker(clock: Clockwork, now: Time, number: int, worker: Worker) -> Iterator[Move]:
    if worker.asked is None:
        if worker.grant == 0 and now.lease is None and now.grants < clock.grants:
            yield f"worker {number}: asks for the task", _asks(now, number, worker, "claim")
        if worker.grant and (worker.trust or worker.untried):
            yield f"worker {number}: sends a renewal", _asks(now, number, worker, "renew")
    else:
        yield from _answers(clock, now, number, worker, worker.asked)
    yield from _calls(clock, now, number, worker)
    if worker.grant and not worker.trust and not worker.untried and worker.calling < 0:
        gone = worker._replace(grant=0, given_up=worker.grant if clock.failovers else 0)
        yield f"worker {number}: gives up without trust", _with(now, number, gone)


def _with(now: Time, number: int, worker: Worker) -> Time:
    workers = now.workers
    return now._replace(workers=(*workers[:number], worker, *workers[number + 1 :]))


def _asks(now: Time, number: int, worker: Worker, verb: str) -> Time:
    return _with(now, number, worker._replace(asked=Asked(verb)))


def _answers(
    clock: Clockwork, now: Time, number: int, worker: Worker, asked: Asked
) -> Iterator[Move]:
    if not asked.arrived:
        if now.up:
            yield _arrives(clock, now, number, worker, asked)
        yield f"worker {number}: drops the {asked.verb}", _dropped(now, number, worker, asked)
    else:
        yield _hears(clock, now, number, worker, asked)
    if asked.verb == "claim" and now.asks_again and now.up:
        again = Asked("claim", again=True)
        after = _with(now, number, worker._replace(asked=again))
        yield (
            f"worker {number}: hears nothing, asks again",
            after._replace(asks_again=now.asks_again - 1),
        )


def _dropped(now: Time, number: int, worker: Worker, asked: Asked) -> Time:
    return _with(now, number, worker._replace(asked=None))


def _arrives(clock: Clockwork, now: Time, number: int, worker: Worker, asked: Asked) -> Move:
    lease = now.lease
    if asked.verb == "claim":
        mine = lease is not None and lease.grant % 10 == number and lease.grant > worker.given_up
        if lease is None and now.hold == 0 and now.grants < clock.grants:
            grants = now.grants + 1
            lease = Lease(grants * 10 + number)
            now = now._replace(grants=grants, lease=lease)
        elif not mine:
            lease = None
        answer = str(lease.grant) if lease is not None else "nothing"
    else:
        by_name = lease is not None and lease.grant == worker.grant
        if lease is not None and (by_name or "renewal by task" in clock.broken):
            renewed = lease._replace(left=TTL, spared=False)
            if by_name:
                renewed = renewed._replace(age=0, heard=0)
            now = now._replace(lease=renewed)
        answer = "yours" if by_name else "lost"
    after = worker._replace(asked=asked._replace(arrived=answer))
    return f"worker {number}: its {asked.verb} arrives: {answer}", _with(now, number, after)


def _hears(clock: Clockwork, now: Time, number: int, worker: Worker, asked: Asked) -> Move:
    """Counted from before the request was sent: a slow answer must not lengthen our trust."""
    label = f"worker {number}: hears '{asked.arrived}'"
    since = 0 if "trust from the answer" in clock.broken else asked.age
    trust = max(0, TTL - MARGIN - since)
    worker = worker._replace(asked=None)
    if asked.arrived == "nothing":
        return label, _with(now, number, worker)
    if asked.verb == "claim":
        untried = asked.again and "trust from the second asking" not in clock.broken
        worker = worker._replace(
            grant=int(asked.arrived), trust=0 if untried else trust, untried=untried
        )
    elif asked.arrived == "lost":
        worker = worker._replace(trust=0, untried=False)
    elif worker.trust or worker.untried or "trust regained" in clock.broken:
        worker = worker._replace(trust=max(worker.trust, trust), untried=False)
    return label, _with(now, number, worker)


def _calls(clock: Clockwork, now: Time, number: int, worker: Worker) -> Iterator[Move]:
    looks = worker.trust > 0 or ("no second look" in clock.broken and worker.grant > 0)
    if worker.grant and worker.calling < 0 and looks and now.cooling == 0:
        calling = _with(now, number, worker._replace(calling=0))
        yield f"worker {number}: probes or calls the world", calling
    if worker.calling >= 0:
        ended = _with(now, number, worker._replace(calling=-1))
        yield f"worker {number}: its call has ended", ended


# -- the reaper ----------------------------------------------------------------------------------


def _reaper(clock: Clockwork, now: Time) -> Iterator[Move]:
    """Declares dead what has lapsed; when unsure, spares it: once, and on the lease itself."""
    if now.gap < clock.reap_every[0]:
        return
    slept = now.gap > UNSURE or clock.reaper_forgets
    watched = 0 if slept else min(UNSURE, now.watched + now.gap)
    unsure = slept or (watched < UNSURE and "one look makes sure" not in clock.broken)
    after = now._replace(gap=0, watched=watched)
    lease = now.lease
    if lease is None or lease.left:
        if after != now:
            yield "reaper: looks", after
        return
    spares = unsure and not lease.spared and "no amnesty" not in clock.broken
    if "amnesty kept in the reaper" in clock.broken and unsure:
        yield "reaper: is unsure, passes", after
    elif spares:
        spared = lease._replace(left=TTL, spared=True)
        yield "reaper: is unsure, spares the lease", after._replace(lease=spared)
    else:
        cooling = 0 if "probe at once" in clock.broken else KILL_AFTER + 1
        early = lease.heard < TTL // 2
        dead = after._replace(lease=None, cooling=cooling)
        yield "reaper: declares it dead", dead._replace(declared="early" if early else "")


# -- time and what breaks ------------------------------------------------------------------------


def _faults(clock: Clockwork, now: Time) -> Iterator[Move]:
    if now.up and now.outages:
        yield "the database is down", now._replace(up=False, outages=now.outages - 1)
    if not now.up:
        yield "the database is up", now._replace(up=True)
    if now.failovers and now.standby is None:
        yield "standby: follows no further", now._replace(standby=(now.lease,))
    if now.failovers and now.standby is not None:
        back = now._replace(lease=now.standby[0], standby=None, failovers=now.failovers - 1)
        yield "failover: grants wait", back._replace(gap=UNSURE + 1, hold=_hold(clock))


def _hold(clock: Clockwork) -> int:
    """A lost owner may trust for one TTL, and what it called may run until it is killed."""
    if "grants at once after failover" in clock.broken:
        return 0
    return TTL if "grants wait one TTL only" in clock.broken else TTL + KILL_AFTER


def _may_tick(clock: Clockwork, now: Time) -> bool:
    """What has a bound happens in time: the reaper's look, the end of a call that is killed."""
    latest = clock.reap_every[1]
    if now.up and now.gap >= latest and not (now.lease is None and now.gap > latest):
        return False
    return all(worker.calling < KILL_AFTER for worker in now.workers)


def _tick(clock: Clockwork, now: Time) -> Time:
    lease = _older(clock, now.lease, now.up)
    standby = None if now.standby is None else (_older(clock, now.standby[0], now.up),)
    return now._replace(
        workers=tuple(_worker_older(worker) for worker in now.workers),
        lease=lease,
        standby=standby,
        gap=min(now.gap + 1, UNSURE + 2),
        hold=max(0, now.hold - 1),
        cooling=max(0, now.cooling - 1),
    )


def _older(clock: Clockwork, lease: Lease | None, up: bool) -> Lease | None:
    """What no promise of this clockwork looks at is not counted: it would only split states."""
    if lease is None:
        return None
    age = min(lease.age + 1, clock.age_max() + 1) if clock.age_max() else 0
    heard = min(TTL, lease.heard + up) if clock.outages else TTL
    return lease._replace(left=max(0, lease.left - 1), age=age, heard=heard)


def _worker_older(worker: Worker) -> Worker:
    asked = worker.asked
    if asked is not None:
        asked = asked._replace(age=min(TTL, asked.age + 1))
    trust = max(0, worker.trust - 1)
    calling = worker.calling + (worker.calling >= 0 and worker.trust == 0)
    return worker._replace(asked=asked, trust=trust, calling=calling)


# -- promises ------------------------------------------------------------------------------------


def check(clock: Clockwork, now: Time) -> str | None:
    trusting = [worker for worker in now.workers if worker.trust]
    if len(trusting) > 1:
        return ONE_TRUSTS
    if clock.failovers == now.failovers:
        for worker in trusting:
            lease = now.lease
            if lease is None or lease.grant != worker.grant or lease.left == 0:
                return TRUST_IS_LEASED
    if sum(worker.calling >= 0 for worker in now.workers) > 1:
        return ONE_CALLS
    if clock.age_max() and now.lease and now.lease.age > clock.age_max():
        return BOUNDED
    return HAD_ITS_CHANCE if now.declared and clock.outages else None


def free_again(now: Time) -> bool:
    """The goal: no lease, nobody believes in one."""
    return now.lease is None and all(worker.grant == 0 for worker in now.workers)
