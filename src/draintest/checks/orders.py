"""Orders: a cancel is answered and obeyed; a drain hands over in time, and spends nothing."""

from __future__ import annotations

from ..faults import TERM
from ..history import Record
from ..target import FINAL
from .case import Call, Case, Lease, Say

VISIBLE_MS = 1_000
LEAVES_MS = 1_500


def cancel(case: Case, say: Say) -> None:
    """C10: acknowledged in time; no effect admitted after; no process alive after the bound."""
    for asked in case.view.of("cancel.asked"):
        say.saw()
        task = asked["task"]
        answered = case.view.first("cancel.answered", task=task)
        if _ended_first(case, task, asked):
            continue  # cancel against success: the end was there before
        if answered is None:
            say.unsure("the order was not taken", asked)
            continue
        obeyed_ms = answered["t_ms"] + case.limits.cancel_ms
        late = [call for call in case.calls(task) if call.came["t_ms"] > obeyed_ms]
        if late:
            first = late[0].came
            said = (
                f"{first['act']} was begun {first['t_ms'] - asked['t_ms']:.0f} ms after the order"
            )
            overrun_ms = first["t_ms"] - obeyed_ms
            case.late(say, said, asked["t_ms"], first["t_ms"], overrun_ms, asked, first)
        seen = case.last_seen(task)
        if seen and seen["state"] not in ("cancelled",) and not late:
            say.fail(f"it was to be cancelled, and is {seen['state']}", asked, seen)
    _children(case, say)


def drain(case: Case, say: Say) -> None:
    """C11: claims nothing after the signal, leaves in time, holds nothing, repeats nothing."""
    for fault in case.landed(TERM):
        say.saw()
        _leaves(case, say, fault)
        for task in case.tasks:
            mine = [lease for lease in case.leases(task) if lease.pid == fault["pid"]]
            for lease in mine:
                _hands_over(case, say, fault, lease)
                _claims_nothing(case, say, fault, lease)
            if mine or any(call.pid == fault["pid"] for call in case.calls(task)):
                _spends_nothing(case, say, fault, task)
                if (
                    "C5" not in case.not_claimed
                ):  # who keeps no results begins again, drained or not
                    _repeats_nothing(case, say, fault, task)


def _ended_first(case: Case, task: str, asked: Record) -> bool:
    """Whether the task had ended by the time that the order had to be heard."""
    seen = case.last_seen(task)
    if case.view.first("cancel.refused", task=task) and seen and seen["state"] in FINAL:
        return True  # by the target's own word
    heard_ms = asked["t_ms"] + case.limits.cancel_ms
    ends = [event for event in case.log(task) if event["kind"] == "ended"]
    return any(
        event.get("state") != "cancelled" and case.ours_ms(event["at_ms"]) <= heard_ms
        for event in ends
    )


def _children(case: Case, say: Say) -> None:
    before, after = (case.view.first("family", moment=when) for when in ("before", "after"))
    if before is None or after is None:
        return
    if not before["below"]:
        say.unsure("the task had started no process", before)
        return
    left = sorted(set(before["below"]) & set(after["below"]))
    if left:
        say.fail(f"processes {left} of the cancelled task are alive", before, after)


def _leaves(case: Case, say: Say, fault: Record) -> None:
    ended = case.view.first("worker.ended", pid=fault["pid"])
    stayed = case.view.first("worker.stayed", pid=fault["pid"])
    from_ms = case.fallen_at_ms(fault)
    bound_ms = case.limits.grace_ms + LEAVES_MS
    if ended and ended["code"] < 0:
        say.fail(f"it died of the signal (exit code {ended['code']})", fault, ended)
    elif ended and ended["t_ms"] - from_ms > bound_ms:
        said = f"it left after {ended['t_ms'] - from_ms:.0f} ms; its grace is {bound_ms} ms"
        overrun_ms = ended["t_ms"] - from_ms - bound_ms
        case.late(say, said, from_ms, ended["t_ms"], overrun_ms, fault, ended)
    elif stayed and not ended:
        said = f"it has not left within {bound_ms} ms"
        overrun_ms = stayed["t_ms"] - from_ms - bound_ms
        case.late(say, said, from_ms, stayed["t_ms"], overrun_ms, fault, stayed)


def _hands_over(case: Case, say: Say, fault: Record, lease: Lease) -> None:
    left = case.view.first("worker.ended", pid=fault["pid"])
    if lease.how == "expired" and lease.ended:
        if left and case.ours_ms(lease.ended["at_ms"]) > left["t_ms"]:
            say.fail(f"it left without handing epoch {lease.epoch} over", fault, left, lease.ended)
            return
        said = f"its lease (epoch {lease.epoch}) ran out instead of being handed over"
        to_ms = case.ours_ms(lease.ended["at_ms"])
        overrun_ms = case.limits.ttl_ms * 2 / 3
        case.late(say, said, case.fallen_at_ms(fault), to_ms, overrun_ms, fault, lease.ended)
    elif not lease.how and left:
        say.fail(f"it left, and still holds epoch {lease.epoch}", fault, lease.granted)


def _claims_nothing(case: Case, say: Say, fault: Record, lease: Lease) -> None:
    granted_ms = case.ours_ms(lease.granted["at_ms"])
    overrun_ms = granted_ms - case.fallen_at_ms(fault) - VISIBLE_MS
    if overrun_ms > 0:
        from_ms = case.fallen_at_ms(fault)
        said = f"it took epoch {lease.epoch} after it was told to drain"
        case.late(say, said, from_ms, granted_ms, overrun_ms, fault, lease.granted)


def _spends_nothing(case: Case, say: Say, fault: Record, task: str) -> None:
    seen = case.last_seen(task)
    if seen and seen.get("failures"):
        say.fail(f"the drain has spent {seen['failures']} retries", fault, seen)


def _repeats_nothing(case: Case, say: Say, fault: Record, task: str) -> None:
    """What was answered while the worker still had time for it is on record."""
    had_until_ms = case.fallen_at_ms(fault) + case.limits.grace_ms - LEAVES_MS
    calls = case.calls(task)
    for call in calls:
        if call.pid != fault["pid"] or not call.answered:
            continue
        again = [c for c in calls if c.act == call.act and c.pid != call.pid and _later(c, call)]
        if again and call.answered["t_ms"] < had_until_ms and not _lost(case, fault):
            said = f"{call.act} was answered before the worker left, and was done again"
            say.fail(said, fault, call.answered, again[0].came)


def _lost(case: Case, fault: Record) -> bool:
    """Whether another finding tells already why it was done again: it did not hand over."""
    leases = [x for t in case.tasks for x in case.leases(t) if x.pid == fault["pid"]]
    return any(lease.how in ("expired", "") for lease in leases)


def _later(call: Call, than: Call) -> bool:
    return bool(call.came["t_ms"] > than.came["t_ms"])
