"""What `outlast doctor` looks at: durability in force, rows against logs, locks, the clock."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import asdict

from ..core import chain, limits
from ..core.errors import BrokenChain
from ..core.ledger import fold_effects
from ..core.lifecycle import fold
from ..core.model import Effect, Event, Lease, Task
from .database import Database, LockedOut
from .verbs import Finding
from .writing import effect_of, event_of, lease_of, task_of

# Not on the log: requests, wakes, what zombies said.
OFF_THE_LOG = frozenset({"cancel_by", "cancel_why", "cancel_ms"})


def checkup(database: Database, tasks: int) -> Iterator[Finding]:
    """One finding a check; `tasks`: how many of the newest are folded and compared."""
    yield from _durability(database)
    # Before what needs a lock: who holds it must be known then.
    yield _locks(database)
    yield _leases(database)
    try:
        yield from _logs(database, tasks)
    except LockedOut as error:
        yield Finding("log", "warn", f"not compared to the end: {error}")


def _locks(database: Database) -> Finding:
    blockers = database.blockers()
    said = "; ".join(f"pid {pid} ({what})" for pid, what in blockers)
    return Finding("locks", "warn" if blockers else "ok", said or "nobody waits for a lock")


def _durability(database: Database) -> Iterator[Finding]:
    settings = database.settings()
    said = ", ".join(f"{name}={value}" for name, value in settings.items() if value)
    weak = settings.get("fsync") == "off" or settings.get("full_page_writes") == "off"
    if database.dialect == "sqlite":
        weak = settings.get("synchronous") != "2" or settings.get("journal_mode") != "wal"
    yield Finding("durability", "broken" if weak else "ok", said)


def _leases(database: Database) -> Finding:
    rows = database.once("leases_without_task")
    if not rows:
        return Finding("leases", "ok", "running tasks have a lease, and only they")
    said = "; ".join(f"task {row['task_id']} is {row['state']}" for row in rows[:5])
    return Finding("leases", "broken", f"{len(rows)} tasks and leases do not agree: {said}")


def _logs(database: Database, limit: int) -> Iterator[Finding]:
    """Chain, task row, lease row and effect rows of each task against its log."""
    rows = database.once(
        "find_tasks", any_state=1, states="{}", queue=None, agent=None, key=None, since_ms=None,
        label=None, text=None, after=None, limit=limit,
    )  # fmt: skip
    wrong = 0
    for row in rows:
        for said in differences(database, row["id"]):
            wrong += 1
            if wrong <= limits.LIST_ROWS:
                yield Finding("log", "broken", f"task {row['id']}: {said}")
    if not wrong:
        yield Finding("log", "ok", f"the rows of {len(rows)} tasks are what their logs amount to")


def differences(database: Database, task_id: str) -> list[str]:
    """How the rows of one task differ from the fold of its log."""
    with database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
        found = session.run("lock_task", task_id=task_id)
        if not found:
            return []
        task = task_of(found[0])
        events: list[Event] = []
        while page := session.run("read_events", task_id=task_id, after=len(events), limit=2_000):
            events += [event_of(row) for row in page]
        leases = [lease_of(row) for row in session.run("get_lease", task_id=task_id)]
        effects = [effect_of(row) for row in session.run("effects_of_task", task_id=task_id)]
    try:
        chain.verify(events, head=(task.head_seq, task.head_digest))
        folded = fold(events)
    except (BrokenChain, ValueError) as error:
        return [str(error)]
    wrong = _task_differences(task, folded)
    wrong += _lease_differences(leases, folded, events)
    return wrong + _effect_differences(effects, fold_effects(events))


def _task_differences(task: Task, folded: Task) -> list[str]:
    stored, wanted = asdict(task), asdict(folded)
    ignored = set(OFF_THE_LOG)
    if task.reason == "woken" and task.state == "ready" and folded.state == "waiting":
        ignored |= {"state", "reason", "due_ms"}
    return [
        f"{name} is {stored[name]!r}, its log says {wanted[name]!r}"
        for name in wanted
        if name not in ignored and stored[name] != wanted[name]
    ]


def _lease_differences(leases: list[Lease], folded: Task, events: list[Event]) -> list[str]:
    if folded.state != "running":
        return ["it has a lease, its log has none"] if leases else []
    if not leases:
        return ["it has no lease, its log has one"]
    grants = [event for event in events if event.kind == "lease.granted"]
    same = (leases[0].grant, leases[0].epoch) == (grants[-1].digest, folded.epoch)
    return [] if same else [f"its lease is of epoch {leases[0].epoch}, its log's of {folded.epoch}"]


def _effect_differences(effects: list[Effect], folded: dict[str, Effect]) -> list[str]:
    """A shared key may have moved to another task; every row here must be what this log says."""
    wrong = []
    for effect in effects:
        wanted = folded.get(effect.key)
        if wanted is None:
            wrong.append(f"its effect {effect.key!r} is not on its log")
            continue
        stored = asdict(effect)
        for name in ("state", "tries", "intent_seq", "outcome_seq", "result", "error", "tool",
                     "fingerprint", "name"):  # fmt: skip
            if stored[name] != asdict(wanted)[name]:
                wrong.append(f"effect {effect.key!r}: {name} is {stored[name]!r}, "
                             f"its log says {asdict(wanted)[name]!r}")  # fmt: skip
    missing = {k for k, e in folded.items() if not e.shared} - {e.key for e in effects}
    return wrong + [f"its effect {key!r} has no row" for key in sorted(missing)]
