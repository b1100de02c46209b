"""The store as values: rows, the fenced insert, and what each request does in its transaction.

Everything here is one committed step of a database. Where a transaction has several statements
and somebody may come between them, it is opened, waits for its lock and is committed in three
moves; see :class:`Open`.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model import log as logs
from tests.model.log import Act, Event

Broken = frozenset[str]


class Lease(NamedTuple):
    grant: int
    lapsed: bool


class Task(NamedTuple):
    log: int
    state: str = "ready"
    epoch: int = 0
    failures: int = 0
    handoffs: int = 0
    cancel: bool = False
    lease: Lease | None = None
    signals: tuple[tuple[int, bool], ...] = ()  # (id, consumed)
    lock: str = ""


class Effect(NamedTuple):
    state: str = ""
    task: int = -1
    grant: int = 0
    tries: int = 0  # intents since nobody had one
    observed: bool = False
    lock: str = ""


class Database(NamedTuple):
    tasks: tuple[Task, ...]
    effects: tuple[tuple[str, Effect], ...]

    def effect(self, key: str) -> Effect:
        return next(row for name, row in self.effects if name == key)

    def with_task(self, number: int, task: Task) -> Database:
        tasks = self.tasks
        return self._replace(tasks=(*tasks[:number], task, *tasks[number + 1 :]))

    def with_effect(self, key: str, row: Effect) -> Database:
        rows = tuple((name, row if name == key else old) for name, old in self.effects)
        return self._replace(effects=rows)


class Request(NamedTuple):
    """What a process asks of the store: frozen, so that it can be sent again."""

    verb: str
    by: str
    task: int
    epoch: int = 0
    entries: tuple[Event, ...] = ()
    instead: tuple[Event, ...] = ()  # if a cancel is asked; if the effect is done already
    key: str = ""
    number: int = 0


_requests: list[Request] = []
_request_numbers: dict[Request, int] = {}


def numbered(request: Request) -> int:
    """Frozen requests stand once in a table; a state carries the number (as with logs)."""
    number = _request_numbers.setdefault(request, len(_requests))
    if number == len(_requests):
        _requests.append(request)
    return number


def request_of(number: int) -> Request:
    return _requests[number]


class Open(NamedTuple):
    """A transaction between its statements.

    ``seen`` is what its first statement saw. A sound transaction never uses it: it looks again
    in a new statement once it has the lock.
    """

    number: int  # of the request
    locked: bool
    seen: tuple[object, ...] = ()


class Reply(NamedTuple):
    word: str  # written, lost, over, granted, nothing, busy, fresh, doubt, ok
    log: int = -1  # up to the last event of the sender, when something of his stands
    task: int = -1


# -- the fenced insert ---------------------------------------------------------------------------


def insert(
    task: Task, group: tuple[Event, ...], epoch: int, broken: Broken
) -> tuple[Task, tuple[Event, ...]]:
    """Append a group, one statement an entry; what the fence refuses is left out."""
    log, written = task.log, []
    as_epoch = epoch
    for place, entry in enumerate(group):
        seen = task.log if "two entries in one statement" in broken else log
        first = group[0] if "two entries in one statement" in broken else entry
        if _may_follow(seen, first, as_epoch, broken) and _place_is_free(log, entry, broken):
            log = logs.longer(log, entry)
            written.append(entry)
        if place == 0 and entry.holder == 0:
            as_epoch = 0  # who ended the lease goes on as nobody
    return task._replace(log=log), tuple(written)


def _may_follow(log: int, entry: Event, epoch: int, broken: Broken) -> bool:
    whole = logs.events(log)
    for quoted in reversed(whole):
        if quoted.seq == entry.seq - 1:
            return ("no quote" in broken or quoted.digest == entry.quotes) and (
                "no holder" in broken or quoted.holder == epoch
            )
    return False


def _place_is_free(log: int, entry: Event, broken: Broken) -> bool:
    if "no place" in broken:
        return all(event.digest != entry.digest for event in logs.events(log))
    return all(event.seq != entry.seq for event in logs.events(log))


# -- a group of entries and what follows from it -------------------------------------------------


def write(
    db: Database, number: int, group: tuple[Event, ...], epoch: int, by: str, broken: Broken
) -> tuple[Database, Reply]:
    """One transaction: insert, then change other rows for what this very insert has written."""
    task, written = insert(db.tasks[number], group, epoch, broken)
    db = db.with_task(number, task)
    follow = written
    if "follow-ups unguarded" in broken:
        follow = group
    elif "exists is guard" in broken:
        stand = {event.digest for event in logs.events(task.log)}
        follow = tuple(entry for entry in group if entry.digest in stand)
    for entry in follow:
        db = follow_up(db, number, entry, broken)
    return db, answer(task.log, group, by)


def answer(log: int, group: tuple[Event, ...], by: str) -> Reply:
    """What a refused writer is told: what stands at the place that he wanted."""
    whole = logs.upto(log, group[-1].digest)
    if whole is not None:
        return Reply("written", whole)
    return Reply("lost")


def follow_up(db: Database, number: int, entry: Event, broken: Broken) -> Database:
    kind, about = entry.kind, entry.about
    task = db.tasks[number]
    if kind.startswith("effect."):
        return _effect_row(db, number, kind, about)
    if kind == "lease.granted":
        lease = Lease(entry.digest, False)
        task = task._replace(state="running", epoch=task.epoch + 1, lease=lease)
    elif kind == "wait.ended":
        task = task._replace(signals=_consumed(task.signals, about, broken))
    elif kind == "wait.started":
        unread = any(not consumed for _, consumed in task.signals)
        task = task._replace(state="ready" if unread else "waiting", lease=None)
    elif kind in logs.FINAL_KINDS:
        task = task._replace(state=logs.FINAL_KINDS[kind], lease=None)
    elif kind in ("lease.released", "attempt.failed", "lease.expired", "lease.revoked"):
        task = _given_back(task, kind, about, broken)
    return db.with_task(number, task)


def _given_back(task: Task, kind: str, about: tuple[object, ...], broken: Broken) -> Task:
    drained = about == ("drain",)
    return task._replace(
        state="review" if about == ("review",) else "ready",
        lease=None,
        handoffs=task.handoffs + drained,
        failures=task.failures
        + (kind == "attempt.failed" or (drained and "drain spends a retry" in broken)),
    )


def _consumed(
    signals: tuple[tuple[int, bool], ...], about: tuple[object, ...], broken: Broken
) -> tuple[tuple[int, bool], ...]:
    if "consumed signal deleted" in broken:
        return tuple(pair for pair in signals if pair[0] not in about)
    return tuple((number, consumed or number in about) for number, consumed in signals)


def _effect_row(db: Database, number: int, kind: str, about: tuple[object, ...]) -> Database:
    key = str(about[0])
    row = db.effect(key)
    if kind == "effect.intended":
        grant = db.tasks[number].lease
        row = row._replace(
            state="intended",
            task=number,
            grant=grant.grant if grant else 0,
            tries=row.tries + 1,
        )
    elif kind == "effect.applied":
        row = row._replace(state="applied")
    elif kind == "effect.unknown" and row.task == number and row.state == "intended":
        row = row._replace(state="unknown")
    elif kind == "effect.settled":
        verdict = str(about[1])
        tries = 0 if verdict == "again" else row.tries
        row = row._replace(state=verdict, tries=tries)
        db = db.with_task(number, db.tasks[number]._replace(state="ready"))
    return db.with_effect(key, row)


# -- claims --------------------------------------------------------------------------------------


def claim(db: Database, request: Request, broken: Broken) -> tuple[Database, Reply]:
    """A ready task, or the grant that this very call has had before. Skips what is locked."""
    task = db.tasks[request.task]
    fold = logs.fold(task.log)
    if task.lease is not None and _given_before(fold.owner, request.by, broken):
        return db, Reply("granted", _upto(task.log, fold.grant), request.task)
    if task.state != "ready" or task.lock:
        return db, Reply("nothing")
    token = request.by
    if "claim without token" in broken:
        token = token.split(".")[0]  # what the body says all the same: the worker's name
    epoch = task.epoch + 1
    group = logs.entries(fold.last, [Act("lease.granted", epoch, (epoch, token))], request.by)
    db, reply = write(db, request.task, group, 0, request.by, broken)
    if reply.word != "written":
        return db, Reply("nothing")
    return db, Reply("granted", db.tasks[request.task].log, request.task)


def _given_before(owner: str, asks: str, broken: Broken) -> bool:
    if "claim known by the worker's name" in broken:
        return owner.split(".")[0] == asks.split(".")[0]
    return owner == asks


def _upto(log: int, mark: int) -> int:
    found = logs.upto(log, mark)
    assert found is not None, "the standing grant is on the log"
    return found


# -- transactions of several statements ----------------------------------------------------------


def opened(db: Database, request: Request, broken: Broken) -> tuple[Database, Open]:
    """The first statement begins: it sees what is committed now, then asks for its lock."""
    seen = _seen(db, request, broken)
    if _takes_no_lock(request, broken):
        return db, Open(numbered(request), True, seen)
    if can_lock(db, request):
        return locked(db, request), Open(numbered(request), True, seen)
    return db, Open(numbered(request), False, seen)


def _takes_no_lock(request: Request, broken: Broken) -> bool:
    return (request.verb == "signal" and "signal without lock" in broken) or (
        request.verb == "begin" and "begin without row lock" in broken
    )


def _seen(db: Database, request: Request, broken: Broken) -> tuple[object, ...]:
    task = db.tasks[request.task]
    if request.verb == "signal" and "signal without lock" in broken:
        return (task.state,)
    if request.verb == "begin" and "begin without row lock" in broken:
        return (db.effect(request.key),)
    if request.verb == "let go" and "wait looks in the same statement" in broken:
        return (task.signals,)
    if request.verb == "let go" and "cancel looked up in the same statement" in broken:
        return (task.cancel,)
    return ()


def can_lock(db: Database, request: Request) -> bool:
    return not db.tasks[request.task].lock and not (request.key and db.effect(request.key).lock)


def locked(db: Database, request: Request) -> Database:
    return _with_locks(db, request, request.by)


def _with_locks(db: Database, request: Request, lock: str) -> Database:
    db = db.with_task(request.task, db.tasks[request.task]._replace(lock=lock))
    if request.key:
        db = db.with_effect(request.key, db.effect(request.key)._replace(lock=lock))
    return db


def committed(db: Database, tx: Open, broken: Broken) -> tuple[Database, Reply]:
    """The statements after the lock, and the commit."""
    request = request_of(tx.number)
    if not _takes_no_lock(request, broken):
        db = _with_locks(db, request, "")
    if request.verb == "let go":
        return _let_go(db, tx, broken)
    if request.verb == "begin":
        return _begin(db, tx, broken)
    if request.verb == "signal":
        return _signal(db, tx, broken)
    return _cancel(db, request, broken)


def _let_go(db: Database, tx: Open, broken: Broken) -> tuple[Database, Reply]:
    request = request_of(tx.number)
    task = db.tasks[request.task]
    cancel = task.cancel
    if "cancel looked up in the same statement" in broken:
        cancel = bool(tx.seen[0])
    if "release ignores cancel" in broken:
        cancel = False
    group = request.entries
    if logs.upto(task.log, group[-1].digest) is None and cancel and request.instead:
        group = request.instead
    after, reply = write(db, request.task, group, request.epoch, request.by, broken)
    if reply.word == "lost" and request.instead:
        reply = answer(task.log, request.instead, request.by)
    if "wait looks in the same statement" in broken:
        after = _wait_by_what_was_seen(db, after, request.task, tx.seen)
    return after, reply


def _wait_by_what_was_seen(
    before: Database, after: Database, number: int, seen: tuple[object, ...]
) -> Database:
    task = after.tasks[number]
    if before.tasks[number].lease is None or logs.fold(task.log).state != "waiting":
        return after
    signals = seen[0]
    assert isinstance(signals, tuple)
    unread = any(not consumed for _, consumed in signals)
    return after.with_task(number, task._replace(state="ready" if unread else "waiting"))


def _begin(db: Database, tx: Open, broken: Broken) -> tuple[Database, Reply]:
    """Fresh, done, busy or in doubt: decided under the lock of the key's row."""
    request = request_of(tx.number)
    task = db.tasks[request.task]
    mine = logs.upto(task.log, request.entries[-1].digest)
    row = db.effect(request.key)
    if mine is not None:
        return db, _begun_before(task, row, request.task, mine, broken)
    if "begin without row lock" in broken:
        seen = tx.seen[0]
        assert isinstance(seen, Effect)
        row = seen
    if row.state == "applied":
        return write(db, request.task, request.instead, request.epoch, request.by, broken)
    if row.state in ("intended", "unknown") and _held_by_another(db, row, request.task):
        return db, Reply("busy")
    after, reply = write(db, request.task, request.entries, request.epoch, request.by, broken)
    if reply.word != "written":
        return after, reply
    return after, Reply("fresh" if row.state in ("", "again") else "doubt", reply.log)


def _begun_before(task: Task, row: Effect, number: int, mine: int, broken: Broken) -> Reply:
    """Asked again: the intent stands, but only its row knows what it found and whether it counts.

    A row that points elsewhere means that the lease is over: then the intent is on the record
    and the call is not allowed, whatever the sender's clock says of its trust.
    """
    points_here = row.task == number and row.grant == logs.fold(mine).grant
    leased = task.lease is not None and task.lease.grant == row.grant
    if not (points_here and leased) and "begin asked again looks at the count alone" not in broken:
        return Reply("over")
    fresh = row.tries <= 1 or "begin asked again is fresh" in broken
    return Reply("fresh" if fresh else "doubt", mine)


def _held_by_another(db: Database, row: Effect, number: int) -> bool:
    lease = db.tasks[row.task].lease
    return row.task != number and lease is not None and lease.grant == row.grant


def _signal(db: Database, tx: Open, broken: Broken) -> tuple[Database, Reply]:
    request = request_of(tx.number)
    task = db.tasks[request.task]
    state = str(tx.seen[0]) if "signal without lock" in broken else task.state
    if any(number == request.number for number, _ in task.signals):
        return db, Reply("ok")
    task = task._replace(signals=tuple(sorted([*task.signals, (request.number, False)])))
    if state == "waiting":
        task = task._replace(state="ready")
    return db.with_task(request.task, task), Reply("ok")


def _cancel(db: Database, request: Request, broken: Broken) -> tuple[Database, Reply]:
    task = db.tasks[request.task]
    if task.state in logs.FINALS:
        return db, Reply("ok")
    if task.state == "running" and not (task.lease and task.lease.lapsed):
        return db.with_task(request.task, task._replace(cancel=True)), Reply("ok")
    ended = ["lease.expired"] if task.state == "running" else []
    group = ending(task, ended, "task.cancelled", request.by, broken)
    epoch = task.epoch if ended else 0
    return write(db, request.task, group, epoch, request.by, broken)


def ending(task: Task, first: list[str], final: str, by: str, broken: Broken) -> tuple[Event, ...]:
    """What one who is not the owner writes to end a task: every open intent is shown first."""
    fold = logs.fold(task.log)
    hidden = not final or "no unknown before final" in broken
    shown = () if hidden else fold.open_intents()
    acts = [Act(kind, 0, (by,)) for kind in first]
    acts += [Act("effect.unknown", 0, (key,)) for key in shown]
    if final:
        acts.append(Act(final, 0, (by,)))
    return logs.entries(fold.last, acts, by)


def observe(db: Database, key: str) -> Database:
    """What a zombie knows, kept without a fence. An *applied* settles a doubt."""
    row = db.effect(key)._replace(observed=True)
    if row.state in ("intended", "unknown", "again"):
        row = row._replace(state="applied")
    return db.with_effect(key, row)


def settle(db: Database, number: int, key: str, verdict: str, by: str, broken: Broken) -> Database:
    task = db.tasks[number]
    group = logs.entries(logs.fold(task.log).last, [Act("effect.settled", 0, (key, verdict))], by)
    return write(db, number, group, 0, by, broken)[0]
