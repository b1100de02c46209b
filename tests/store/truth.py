"""What must be true of a store at any moment, found out from its bare rows."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from outlast.core import ledger, lifecycle
from outlast.core.model import FINAL, Effect, Event, Task
from outlast.store.verbs import Finding, Store
from tests.store.databases import Row, Stores

FOLDED = (
    *("queue", "agent", "input", "key", "labels", "priority", "max_resumes", "max_expiries"),
    *("created_ms", "epoch", "failures", "resumes", "expiries", "handoffs", "result", "error"),
    *("head_seq", "head_digest", "head_ms", "started_ms", "finished_ms"),
)
# A wake is not on the log, so a waiting task may be ready: then these have moved.
WOKEN = ("state", "reason", "due_ms", "waiting_for")
OF_EFFECTS = (
    *("name", "tool", "fingerprint", "shared", "state", "tries", "intent_seq", "outcome_seq"),
    *("result", "error", "intended_ms", "settled_ms"),
)
BY_OTHERS = {"task.submitted", "lease.granted", "lease.expired", "lease.revoked", "effect.settled"}


class Told(NamedTuple):
    """What one log amounts to, once it has been found in order."""

    task: Task
    effects: dict[str, Effect]
    counts: Counter[tuple[str, str]]


def check(stores: Stores) -> None:
    """Hold every row against the logs; raises AssertionError with what is not true."""
    logs = read_logs(stores)
    tasks = {row["id"]: row for row in stores.rows("select * from tasks")}
    leases = {row["task_id"]: row for row in stores.rows("select * from leases")}
    assert logs.keys() == tasks.keys(), "a log without a task, or a task without a log"
    told = {task_id: read(events) for task_id, events in logs.items()}
    for task_id, events in logs.items():
        check_row(tasks[task_id], told[task_id].task)
        check_lease(tasks[task_id], leases.get(task_id), events)
    assert leases.keys() <= tasks.keys(), "a lease of no task"
    check_effects(stores.rows("select * from effects"), told)
    if not stores.pruned:
        check_counters(stores, told)


@lru_cache(maxsize=1_000)
def read(events: tuple[Event, ...]) -> Told:
    """Check a log by itself, and fold it."""
    check_chain(events)
    check_fence(events)
    check_end(events)
    counts: Counter[tuple[str, str]] = Counter()
    for name, labels, times in tell(events):
        counts[name, labels] += times
    return Told(lifecycle.fold(events), ledger.fold_effects(events), counts)


def read_logs(stores: Stores) -> dict[str, tuple[Event, ...]]:
    """Every log of the database, by task."""
    logs: dict[str, list[Event]] = {}
    statement = (
        "select task_id, seq, holder, kind, body, at_ms, digest from events order by task_id, seq"
    )
    for row in stores.rows(statement):
        logs.setdefault(row["task_id"], []).append(Event(**row))
    return {task_id: tuple(events) for task_id, events in logs.items()}


def check_chain(events: Sequence[Event]) -> None:
    """Recompute the digests, by the words of the design and not by the product's code."""
    before, at_ms = "0" * 64, 0
    for number, event in enumerate(events, 1):
        assert event.seq == number, f"a gap before {event}"
        assert event.at_ms >= at_ms, f"time went back at {event}"
        fields = (
            before,
            event.task_id,
            event.seq,
            event.holder,
            event.kind,
            event.body,
            event.at_ms,
        )
        texts = [str(field).encode() for field in fields]
        framed = b"".join(len(text).to_bytes(8, "big") + text for text in texts)
        assert event.digest == hashlib.sha256(framed).hexdigest(), f"broken chain at {event}"
        before, at_ms = event.digest, event.at_ms


def check_fence(events: Sequence[Event]) -> None:
    """An owner's event stands between its own grant and whatever ended its lease."""
    epoch = holder = 0
    for event in events:
        if event.kind == "lease.granted":
            assert holder == 0, f"{event} was granted over an owner"
            epoch += 1
            assert event.holder == epoch, f"{event} does not carry the next epoch"
        elif event.kind not in BY_OTHERS and event.holder != 0:
            assert event.holder == holder, f"{event} is not its owner's"
        holder = event.holder


def check_end(events: Sequence[Event]) -> None:
    """After a final event nothing but a settled doubt and an operator's order may follow."""
    ended = False
    doubts: set[str] = set()
    for event in events:
        if ended:
            assert event.kind in ("effect.settled", "task.reopened"), f"{event} after the end"
        if event.kind == "effect.intended" and not lifecycle.body_of(event).get("shared"):
            # (The doubt of a shared key may have gone over to another task.)
            doubts.add(lifecycle.body_of(event)["key"])
        elif event.kind in ledger.OUTCOMES or event.kind == "effect.settled":
            doubts.discard(lifecycle.body_of(event)["key"])
        elif event.kind.startswith("task.") and event.kind.removeprefix("task.") in FINAL:
            assert not doubts, f"{event}, and nothing is said of {doubts}"
            ended = True
        elif event.kind == "task.reopened":
            ended = False


def check_row(row: Row, folded: Task) -> None:
    """The row is the fold of the log."""
    names = [*FOLDED, "doubts"]
    woken = folded.state == "waiting" and row["state"] == "ready"
    if woken:
        assert row["reason"] == "woken", row
    else:
        names += WOKEN
    different = {
        name: (row[name], getattr(folded, name))
        for name in names
        if row[name] != getattr(folded, name)
    }
    assert not different, f"row against fold of the log: {different} of {row}"
    if row["state"] in FINAL and row["state"] != "cancelled":
        return  # a request that came too late, or lost, may stay on the row
    if row["state"] != "running":
        assert row["cancel_ms"] is None or row["state"] == "cancelled", f"unread cancel: {row}"


def check_lease(row: Row, lease: Row | None, events: Iterable[Event]) -> None:
    """Running if and only if there is a lease, and the lease is that of the last grant."""
    assert (row["state"] == "running") == (lease is not None), f"{row} has the lease {lease}"
    if lease is None:
        return
    grant = [event for event in events if event.kind == "lease.granted"][-1]
    said = lifecycle.body_of(grant)
    assert lease["grant_digest"] == grant.digest, lease
    assert (lease["epoch"], lease["worker"]) == (row["epoch"], said["worker"]), lease
    assert lease["expires_ms"] >= lease["granted_ms"], lease


def check_effects(rows: list[Row], told: dict[str, Told]) -> None:
    """The ledger is the fold of the logs; a shared key is where the last one began it."""
    ledger_rows = {row["key"]: row for row in rows}
    for key, row in ledger_rows.items():
        if row["task_id"] in told:
            check_effect(row, told[row["task_id"]].effects[key])
    for log in told.values():
        assert log.effects.keys() <= ledger_rows.keys(), "an intent on a log that no ledger knows"
        for key, effect in log.effects.items():
            assert effect.shared or ledger_rows[key]["task_id"] == effect.task_id, effect


def check_effect(row: Row, folded: Effect) -> None:
    different = {
        name: (row[name], getattr(folded, name))
        for name in OF_EFFECTS
        if row[name] != getattr(folded, name)
    }
    assert not different, f"effect against fold of the log: {different} of {row}"


def check_counters(stores: Stores, told: dict[str, Told]) -> None:
    """Metric counters say what the logs say, whoever has died meanwhile."""
    counted: Counter[tuple[str, str]] = Counter()
    for row in stores.rows("select name, labels, value from counters"):
        labels = json.dumps(json.loads(row["labels"]), sort_keys=True)
        counted[row["name"], labels] += int(row["value"])
    expected = sum((log.counts for log in told.values()), Counter())
    series = {*expected, *(each for each in counted if each[0] in COUNTED)}
    wrong = {
        each: (counted[each], expected[each]) for each in series if counted[each] != expected[each]
    }
    assert not wrong, f"counters (row, log): {wrong}"


COUNTED = {
    "agent_task_resume_total",
    "agent_task_terminal_total",
    "agent_tool_effect_duplicate_total",
}
RESUMES = ("expired", "crashed", "drain", "operator")


def tell(events: Sequence[Event]) -> Iterable[tuple[str, str, int]]:
    """(name, labels, n): the counters that one log amounts to, by the words of the design."""
    task = lifecycle.born(events[0])
    tools: dict[str, str] = {}
    for event in events[1:]:
        task, said = lifecycle.after(task, event), lifecycle.body_of(event)
        if event.kind == "effect.intended":
            tools[said["key"]] = said["tool"]
        if event.kind == "lease.granted" and said["reason"] in RESUMES:
            in_a_row = {"drain": task.handoffs, "operator": 1}.get(said["reason"], task.resumes)
            nth = "3+" if in_a_row >= 3 else str(max(in_a_row, 1))
            yield _resumed(queue=task.queue, reason=said["reason"], nth=nth)
        elif event.kind in ENDS:
            yield _ended(queue=task.queue, state=task.state)
        elif event.kind == "replay.finished":
            for tool, times in (said.get("suppressed") or {}).items():
                yield _duplicate(times, tool=tool, disposition="suppressed")
        elif event.kind == "effect.reused":
            yield _duplicate(tool=said["tool"], disposition="suppressed")
        elif event.kind == "effect.applied" and said.get("adopted"):
            yield _duplicate(tool=tools[said["key"]], disposition="adopted")
        elif event.kind == "lease.released" and said.get("why") == "effect_conflict":
            yield _duplicate(tool=said["tool"], disposition="conflict")


ENDS = ("task.succeeded", "task.failed", "task.cancelled")


def _resumed(**labels: str) -> tuple[str, str, int]:
    return "agent_task_resume_total", json.dumps(labels, sort_keys=True), 1


def _ended(**labels: str) -> tuple[str, str, int]:
    return "agent_task_terminal_total", json.dumps(labels, sort_keys=True), 1


def _duplicate(times: int = 1, **labels: str) -> tuple[str, str, int]:
    return "agent_tool_effect_duplicate_total", json.dumps(labels, sort_keys=True), times


def check_what_the_store_says(store: Store) -> None:
    """`outlast doctor` finds nothing broken either."""
    said = broken(store.checkup())
    assert not said, said


def broken(findings: Iterable[Finding]) -> list[str]:
    """What a checkup says of broken tasks; that servers of tests are not durable is on purpose."""
    return [each.said for each in findings if each.state == "broken" and each.check != "durability"]
