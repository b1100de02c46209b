"""Verbs on logs: append, the one gate for all that owners write; and read."""

from __future__ import annotations

from collections.abc import Sequence

from ..core import limits
from ..core.counters import FENCED, Count, count
from ..core.errors import UsageError
from ..core.ledger import OUTCOMES
from ..core.lifecycle import body_of, text_of
from ..core.model import Answer, Event, Offer, Task, Turned, Written
from .base import Verbs
from .database import Call, LockedOut, Row, Session, Unstorable, WrittenInPart
from .writing import (
    HINT,
    PLAIN,
    append_call,
    counter_calls,
    ends,
    event_of,
    follow_ups,
    lets_go,
    task_of,
)


class LogVerbs(Verbs):
    """Appending is fenced by the quote alone; no clock and no lease row is asked."""

    def append(self, offers: Sequence[Offer]) -> list[Answer]:
        if len(offers) > limits.APPEND_BATCH:
            raise UsageError(f"{len(offers)} offers in a batch, the limit is {limits.APPEND_BATCH}")
        if len({offer.task_id for offer in offers}) < len(offers):
            raise UsageError("two offers of one task in a batch; nothing was written")
        faults = [_fault(offer) for offer in offers]
        sound = [offer for offer, said in zip(offers, faults, strict=True) if not said]
        answers = iter(self._append_sound(sound))
        return [Turned("invalid", said) if said else next(answers) for said in faults]

    def _append_sound(self, offers: Sequence[Offer]) -> list[Answer]:
        if len(offers) == 1:
            return [self._append_alone(offers[0])]
        written_now = self._append_plain([offer for offer in offers if _is_plain(offer)])
        rest = [offer for offer in offers if offer.task_id not in written_now]
        try:
            answers = iter(self._append_together(rest) if rest else ())
        except (LockedOut, Unstorable, ValueError):
            # Whoever cannot be written must not keep the others from it.
            answers = iter([self._append_alone(offer) for offer in rest])
        return [written(o) if o.task_id in written_now else next(answers) for o in offers]

    def _append_plain(self, offers: Sequence[Offer]) -> set[str]:
        """By one statement; the tasks of those that were written."""
        if len(offers) < 2:
            return set()
        rows = [append_call(offer.entries[0])[1] for offer in offers]
        try:
            found = self.database.once("append_all", offers=text_of(rows))
        except (LockedOut, Unstorable, ValueError):
            return set()
        return {row["task_id"] for row in found}

    def stands(self, offer: Offer) -> Answer:
        # Not a bare read: the commit waits for the standby as that of the write itself would have.
        with self.database.transaction() as session:
            return standing_in(session, offer)

    def read(self, task_id: str, *, after: int = 0, limit: int = limits.READ_BATCH) -> list[Event]:
        rows = self.database.once("read_events", task_id=task_id, after=after, limit=limit)
        return [event_of(row) for row in rows]

    def granted(self, task_id: str, epoch: int) -> Event | None:
        rows = self.database.once("grant_of", task_id=task_id, epoch=epoch)
        return event_of(rows[0]) if rows else None

    def last(self, task_id: str, kind: str) -> Event | None:
        if kind:
            rows = self.database.once("last_event_of_kind", task_id=task_id, kind=kind)
        else:
            rows = self.database.once("last_event", task_id=task_id)
        return event_of(rows[0]) if rows else None

    # -- one offer ----------------------------------------------------------------------------

    def _append_alone(self, offer: Offer) -> Answer:
        for _ in range(limits.REAP_TRIES):
            try:
                if _is_plain(offer):
                    name, params = append_call(offer.entries[0])
                    if self.database.once(name, **params):
                        return written(offer)
                return self._append_together([offer])[0]
            except WrittenInPart:
                return Turned("lost", "a part of it is on the log, the rest does not follow")
            except LockedOut:
                continue
            except (Unstorable, ValueError) as error:
                return Turned("invalid", str(error))
        return Turned("again", "locked by others")

    # -- several, in one transaction ------------------------------------------------------------

    def _append_together(self, offers: Sequence[Offer]) -> list[Answer]:
        """Locks and inserts first; then the rows of those that returned, and the commit."""
        in_order = sorted(offers, key=lambda offer: offer.task_id)
        answers: dict[str, Answer] = {}
        with self.database.transaction() as session:
            tasks = _lock_those_let_go(session, in_order)
            answers.update(_gate(session, in_order, tasks))
            live = [offer for offer in in_order if offer.task_id not in answers]
            accepted = insert(session, live)
            for offer in live:
                if offer not in accepted:
                    answers[offer.task_id] = self._why_not(session, offer)
                else:
                    answers[offer.task_id] = written(offer)
            calls, counts = _rows_of(accepted, tasks)
            hints = [HINT] if any(o.last.kind == "lease.released" for o in accepted) else []
            results = session.send([*calls, *_counted(counts, in_order, answers), *hints])
            _refuse_foreign_keys(calls, results)
        return [answers[offer.task_id] for offer in offers]

    def _why_not(self, session: Session, offer: Offer) -> Answer:
        answer = standing_in(session, offer)
        session.send(refused_calls(offer, answer))
        return answer


# -- what an owner may not do while somebody waits for an answer -----------------------------------


def _gate(session: Session, offers: Sequence[Offer], tasks: dict[str, Task]) -> dict[str, Answer]:
    """Offers to turn away, asked in one round trip, of what is there under the tasks' locks.

    To let the task go, or to begin an effect, must not leave a cancel unread; to wait must not
    leave the signal unread; to end must not leave an intent unexplained. The owner reads, and
    offers something else. Only who may write is asked: an offer that was there before stays, a
    zombie's is refused as such.
    """
    gated = [offer for offer in offers if offer.task_id in tasks or _begins(offer)]
    answers = iter(session.send([call for offer in gated for call in _questions(offer)]))
    turned: dict[str, Answer] = {}
    for offer in gated:
        stands, asked, intents, signals = (next(answers) for _ in range(4))
        if may_yet_be_written(standing(offer, [event_of(row) for row in stands])):
            refusal = _refusal(offer, offer.task_id in tasks, asked[0], intents, bool(signals))
            if refusal:
                turned[offer.task_id] = refusal
    return turned


def _is_plain(offer: Offer) -> bool:
    """Whether it is one entry, which changes no other table: then the fence is all it needs."""
    return len(offer.entries) == 1 and offer.last.kind in PLAIN


def _begins(offer: Offer) -> bool:
    return any(entry.event.kind == "effect.intended" for entry in offer.entries)


def _questions(offer: Offer) -> list[Call]:
    task = {"task_id": offer.task_id}
    waits_for = body_of(offer.last).get("name") if offer.last.kind == "wait.started" else None
    return [
        standing_call(offer),
        ("look_gate", task),
        ("open_intents", task),
        ("signal_named", {**task, "name": waits_for or ""}),
    ]


def _refusal(
    offer: Offer, leaves: bool, asked: Row, intents: Sequence[Row], signalled: bool
) -> Turned | None:
    if leaves and ends(offer.entries):
        explained = {body_of(e.event).get("key") for e in offer.entries if e.event.kind in OUTCOMES}
        unsaid = [row["key"] for row in intents if row["key"] not in explained]
        return Turned("invalid", f"the effect {unsaid[0]!r} has no outcome") if unsaid else None
    if asked["cancel_ms"] is not None:
        return Turned("cancel_asked", asked["cancel_why"] or "")
    if leaves and offer.last.kind == "wait.started":
        until_ms = body_of(offer.last).get("until_ms")
        if signalled or (until_ms is not None and until_ms <= asked["now_ms"]):
            return Turned("signal_waiting", "what it would wait for is there")
    return None


def fault(offer: Offer) -> str:
    """Why nobody can write this, "" if it can be written."""
    # Loaded by who writes: a command that only reads starts without it.
    from ..core import bodies

    return bodies.fault(offer)


def _fault(offer: Offer) -> str:
    said = fault(offer)
    if said:
        return said
    intents = [body_of(e.event) for e in offer.entries if e.event.kind == "effect.intended"]
    return "a shared key is begun by `begin`" if any(b.get("shared") for b in intents) else ""


def may_yet_be_written(answer: Answer) -> bool:
    return isinstance(answer, Turned) and answer.why == "again"


def _refuse_foreign_keys(calls: Sequence[Call], results: Sequence[list[Row]]) -> None:
    for (name, params), rows in zip(calls, results, strict=False):
        if name == "put_intent" and not rows:
            raise Unstorable(f"the key {params['key']!r} is another's")


def written(offer: Offer) -> Written:
    return Written(offer.last.seq, offer.last.digest)


def standing(offer: Offer, events: Sequence[Event]) -> Answer:
    """What an offer that was not inserted means, from what stands at its quote and its place.

    Reading nothing proves nothing: only what another wrote, or the holder of the quoted event,
    says that the offer is lost.
    """
    first = offer.entries[0]
    at = {event.seq: event for event in events}
    quoted, next_one = at.get(first.event.seq - 1), at.get(first.event.seq)
    last = at.get(offer.last.seq)
    if last is not None and last.digest == offer.last.digest:
        return written(offer)  # and with it, by the digests, all before it
    if quoted is None or quoted.digest != first.quoted:
        return Turned("commits_lost", "the event it quotes is gone: commits were lost")
    if next_one is not None:
        return Turned("lost", f"{next_one.kind} stands in its place")
    if quoted.holder != first.epoch:
        return Turned("lost", f"the log is held by epoch {quoted.holder}")
    return Turned("again")


def standing_call(offer: Offer) -> Call:
    quoted_seq = offer.entries[0].event.seq - 1
    places = {"quoted_seq": quoted_seq, "last_seq": offer.last.seq}
    return "standing_events", {"task_id": offer.task_id, **places}


def standing_in(session: Session, offer: Offer) -> Answer:
    """`standing`, as this transaction sees it."""
    rows = session.send([standing_call(offer)])[0]
    return standing(offer, [event_of(row) for row in rows])


def was_fenced(answer: Answer) -> bool:
    return isinstance(answer, Turned) and answer.why in ("lost", "commits_lost")


def refused_calls(offer: Offer, answer: Answer) -> list[Call]:
    """Keep what the fence turned away: the proof that it was needed."""
    if not isinstance(answer, Turned) or not was_fenced(answer):
        return []
    observed = {
        "task_id": offer.task_id,
        "epoch": offer.epoch,
        "worker": offer.worker,
        "kind": "refused",
        "key": "",
        "count": len(offer.entries),
        "detail": f"{offer.last.kind}: {answer.detail}",
    }
    return [("observe", observed)]


def fenced_calls(offer: Offer, answer: Answer) -> list[Call]:
    """As `refused_calls`, counted too."""
    counts = [count(FENCED, len(offer.entries))] if was_fenced(answer) else []
    return [*refused_calls(offer, answer), *counter_calls(counts, offer.worker)]


def insert(session: Session, offers: Sequence[Offer]) -> list[Offer]:
    """Insert every entry, each by a statement of its own; the offers of which all were inserted.

    A statement carries one entry of a task: with two, the second could slip in behind an heir.
    """
    entries = [entry for offer in offers for entry in offer.entries]
    returned = iter(session.send([append_call(entry) for entry in entries]))
    accepted = []
    for offer in offers:
        results = [bool(next(returned)) for _ in offer.entries]
        if all(results):
            accepted.append(offer)
        elif any(results):
            raise WrittenInPart(offer.task_id)
    return accepted


def _lock_those_let_go(session: Session, offers: Sequence[Offer]) -> dict[str, Task]:
    leaving = [offer.task_id for offer in offers if lets_go(offer.entries)]
    rows = session.send([("lock_task", {"task_id": task_id}) for task_id in leaving])
    return {found[0]["id"]: task_of(found[0]) for found in rows if found}


def _rows_of(
    offers: Sequence[Offer], tasks: dict[str, Task]
) -> tuple[list[Call], dict[str, list[Count]]]:
    """Follow-up rows of accepted offers, sorted in the order of locks; counts by worker."""
    order = {
        "update_task": 0,
        "delete_lease": 1,
        "put_intent": 2,
        "put_outcome": 2,
        "consume_signal": 3,
        "put_news": 4,
    }
    calls: list[Call] = []
    counts: dict[str, list[Count]] = {}
    for offer in offers:
        more, counted = follow_ups(offer.entries, tasks.get(offer.task_id), offer.worker)
        calls += more
        counts.setdefault(offer.worker, []).extend(counted)
    by_key = sorted(calls, key=lambda call: (order[call[0]], str(call[1].get("key", ""))))
    return by_key, counts


def _counted(
    counts: dict[str, list[Count]], offers: Sequence[Offer], answers: dict[str, Answer]
) -> list[Call]:
    for offer in offers:
        if was_fenced(answers[offer.task_id]):
            counts.setdefault(offer.worker, []).append(count(FENCED, len(offer.entries)))
    return [
        call for worker, found in sorted(counts.items()) for call in counter_calls(found, worker)
    ]
