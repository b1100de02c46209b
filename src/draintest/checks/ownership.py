"""Who owns a task: one at a time, taken over neither early nor never, and fenced out afterwards."""

from __future__ import annotations

from itertools import pairwise

from ..faults import KILL, STOP
from ..history import Record
from .case import LETS_GO, Call, Case, Lease, Say

AT_ONCE_MS = 1_000
# Fields of an event that say who wrote it; these are written by nobody's lease.
NOBODYS = ("submitted", "granted", "expired", "revoked", "settled", "reopened", "unknown")


def one_owner(case: Case, say: Say) -> None:
    """C1: at most one valid owner at any instant of the database's clock."""
    for task in case.tasks:
        for lease in case.leases(task):
            say.saw()
            if lease.overlaps:
                said = f"epoch {lease.overlaps['epoch']} was given while {lease.epoch} was held"
                say.fail(f"{said} by pid {lease.pid}", lease.granted, lease.overlaps)


def takeover(case: Case, say: Say) -> None:
    """C2: taken over only after expiry or release; then soon."""
    for task in case.tasks:
        leases = case.leases(task)
        for number, lease in enumerate(leases):
            if lease.how == "expired":
                say.saw()
                _not_early(case, say, task, lease)
                _not_from_the_living(case, say, lease)
            if lease.how == "released" and number + 1 < len(leases):
                _at_once(case, say, lease, leases[number + 1])
        for fault in case.landed(KILL, STOP):
            if task in fault["in_flight"]:
                _soon(case, say, task, fault)


def epochs(case: Case, say: Say) -> None:
    """C3: epochs rise by one, and none is given twice."""
    for task in case.tasks:
        granted = [lease.granted for lease in case.leases(task)]
        say.saw(len(granted))
        if granted and granted[0]["epoch"] != 1:
            say.fail(f"the first epoch is {granted[0]['epoch']}", granted[0])
        for before, after in pairwise(granted):
            if after["epoch"] != before["epoch"] + 1:
                say.fail(f"epoch {before['epoch']} is followed by {after['epoch']}", before, after)


def fence(case: Case, say: Say) -> None:
    """C4: no write of an old owner is accepted, nor of one that has let go."""
    for task in case.tasks:
        owner, ended = 0, None
        for event in case.log(task):
            if event["kind"] == "granted":
                say.saw(event["epoch"] > 1)
                owner, ended = event["epoch"], None
                continue
            if event["epoch"] and event["epoch"] != owner and event["kind"] not in NOBODYS:
                whose = f"epoch {owner} owned it" if owner else "nobody did"
                said = f"a write ({event['kind']}) of epoch {event['epoch']} was accepted when"
                say.fail(f"{said} {whose}", ended, event)
            elif event["kind"] in LETS_GO:
                owner, ended = 0, event
        _no_acts_of_the_dead(case, say, task)


def _not_early(case: Case, say: Say, task: str, lease: Lease) -> None:
    assert lease.ended is not None
    at_ms = lease.ended["at_ms"]
    seen = case.view.of("owner", task=task, epoch=lease.epoch)
    promised = max([lease.ended.get("expires_ms") or 0, *(owner["expires_ms"] for owner in seen)])
    if at_ms < promised:
        said = f"epoch {lease.epoch} was declared dead {promised - at_ms} ms before its lease ended"
        say.fail(said, lease.granted, lease.ended)


def _not_from_the_living(case: Case, say: Say, lease: Lease) -> None:
    assert lease.ended is not None
    if case.harmed(lease.pid) or case.died(lease.pid) or not lease.pid:
        return
    said = f"pid {lease.pid}, which nobody harmed, lost its lease (epoch {lease.epoch})"
    from_ms, to_ms = case.ours_ms(lease.granted["at_ms"]), case.ours_ms(lease.ended["at_ms"])
    # A heartbeat must have been late by about two thirds of the lease.
    overrun_ms = case.limits.ttl_ms * 2 / 3
    case.late(say, said, from_ms, to_ms, overrun_ms, lease.granted, lease.ended)


def _at_once(case: Case, say: Say, lease: Lease, heir: Lease) -> None:
    assert lease.ended is not None
    if lease.ended.get("reason") not in ("drain", "deadline"):
        return
    say.saw()
    # Only if somebody was there to take it, and had been for a while.
    released_ms = case.ours_ms(lease.ended["at_ms"])
    ready = case.view.first("worker.ready", pid=heir.pid)
    from_ms = max(released_ms, ready["t_ms"] if ready else released_ms)
    granted_ms = case.ours_ms(heir.granted["at_ms"])
    overrun_ms = granted_ms - from_ms - case.limits.poll_ms - AT_ONCE_MS
    if overrun_ms > 0:
        said = f"taken over {granted_ms - from_ms:.0f} ms after its release, not at once"
        case.late(say, said, from_ms, granted_ms, overrun_ms, lease.ended, heir.granted)


def _soon(case: Case, say: Say, task: str, fault: Record) -> None:
    """The heir's grant, within the bound of a reaper that may have been unsure once."""
    others = [ready for ready in case.view.of("worker.ready") if ready["pid"] != fault["pid"]]
    leases = case.leases(task)
    mine = [lease for lease in leases if lease.pid == fault["pid"]]
    if not others or not mine or case.view.first("cancel.asked", task=task):
        return
    say.saw()
    last = mine[-1]
    if last.how not in ("", "expired"):
        return
    from_ms = max(case.fallen_at_ms(fault), min(ready["t_ms"] for ready in others))
    heirs = leases[leases.index(last) + 1 :]
    bound_ms = case.limits.unsure_takeover_ms
    to_ms = case.ours_ms(heirs[0].granted["at_ms"]) if heirs else from_ms + 2 * bound_ms
    overrun_ms = to_ms - from_ms - bound_ms
    if overrun_ms <= 0:
        return
    if not heirs:
        said = "its owner is dead, and nobody has taken it over"
        case.late(say, said, from_ms, to_ms, overrun_ms, fault)
    else:
        said = f"taken over {to_ms - from_ms:.0f} ms after its owner fell (bound {bound_ms} ms)"
        case.late(say, said, from_ms, to_ms, overrun_ms, fault, heirs[0].granted)


def _no_acts_of_the_dead(case: Case, say: Say, task: str) -> None:
    """One late call may have been under way; a second shows that it goes on."""
    for lease in case.leases(task):
        heirs = [x for x in case.leases(task) if x.epoch > lease.epoch and x.pid != lease.pid]
        if not heirs or any(x.pid == lease.pid for x in case.leases(task) if x.epoch > lease.epoch):
            continue
        since_ms = case.ours_ms(heirs[0].granted["at_ms"])
        late = [c for c in case.calls(task) if c.pid == lease.pid and c.came["t_ms"] > since_ms]
        if len(late) > 1:
            said = f"pid {lease.pid} went on acting after epoch {heirs[0].epoch} was given"
            say.fail(said, heirs[0].granted, *_records(late))


def _records(calls: list[Call]) -> list[Record]:
    return [call.came for call in calls]
