"""Verbs on effects: begin under a shared key, settle, observe, list, and joined transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from ..core import limits
from ..core.counters import DUPLICATES, count
from ..core.errors import NotAllowedNow, UnknownEffect, UsageError
from ..core.lifecycle import body_of
from ..core.model import IN_DOUBT, Answer, Effect, Observation, Offer, Turned, Written
from .base import Verbs, keys_of
from .database import Session
from .log import (
    fault,
    fenced_calls,
    insert,
    may_yet_be_written,
    standing_in,
    was_fenced,
    written,
)
from .tasks import allow
from .verbs import Begun, EffectQuery, Order
from .writing import (
    Chapter,
    counter_calls,
    effect_of,
    follow_ups,
    intent_params,
    locked_task,
)


class EffectVerbs(Verbs):
    """What is known of acts on the outside world."""

    # -- begin --------------------------------------------------------------------------------

    def begin(self, offer: Offer) -> Begun:
        said = fault(offer)
        if offer.last.kind != "effect.intended" or not body_of(offer.last).get("shared"):
            said = "an effect is begun by an offer that ends in effect.intended of a shared key"
        if said:
            return Begun("turned", Turned("invalid", said), None)
        try:
            return self._with_patience("begin an effect", lambda: self._begin(offer))
        except _Decided as decided:
            return cast(Begun, decided.answer)

    def _begin(self, offer: Offer) -> Begun:
        intent = intent_params(offer.last)
        with self.database.transaction() as session:
            task = locked_task(session, offer.task_id)
            stands = standing_in(session, offer)
            if isinstance(stands, Written):
                return self._begun_before(session, offer)
            if not may_yet_be_written(stands):
                session.send(fenced_calls(offer, stands))
                return Begun("turned", stands, None)
            if task.cancel_ms is not None:
                return Begun("turned", Turned("cancel_asked", task.cancel_why or ""), None)
            fresh = bool(session.run("claim_key", **{**intent, "doubt_ms": None}))
            effect = effect_of(session.run("lock_effect", key=intent["key"])[0])
            state, since_ms = ("fresh", 0) if fresh else self._decide(session, offer, effect)
            if state not in ("fresh", "in_doubt"):
                raise _Decided(Begun(state, None, effect))  # type: ignore[arg-type]
            if not insert(session, [offer]):
                raise _Decided(Begun("turned", Turned("again"), None))
            doubt_ms = since_ms if state == "in_doubt" else None
            session.run("take_key", **_taken(offer, doubt_ms))
            calls, counts = follow_ups(offer.entries[:-1], None, offer.worker)
            session.send([*calls, *counter_calls(counts, offer.worker)])
            return Begun(state, written(offer), effect, since_ms)  # type: ignore[arg-type]

    def _decide(self, session: Session, offer: Offer, effect: Effect) -> tuple[str, int]:
        """How a key that is there stands, for this task. The row is locked."""
        if effect.fingerprint != body_of(offer.last)["fingerprint"]:
            return "conflict", 0
        if effect.state == "applied" or _observed_applied(effect):
            return "done", 0
        if effect.state in ("failed", "not_applied"):
            return "fresh", 0
        if effect.task_id != offer.task_id and session.run("get_lease", task_id=effect.task_id):
            return "busy", 0
        ended = session.run("lease_ended_after", task_id=effect.task_id, after=effect.intent_seq)
        return "in_doubt", ended[0]["at_ms"] if ended else effect.intended_ms

    def _begun_before(self, session: Session, offer: Offer) -> Begun:
        """The same offer once more: the answer that was lost.

        That it is on the log is no leave to act. An heir may have gone on from it, and a person
        ordered a new try: only while the key points at this intent, under this lease, is it ours.
        """
        effect = effect_of(session.run("lock_effect", key=body_of(offer.last)["key"])[0])
        lease = session.run("get_lease", task_id=offer.task_id)
        newest = (effect.task_id, effect.intent_seq) == (offer.task_id, offer.last.seq)
        if (
            not newest
            or effect.state != "intended"
            or not lease
            or lease[0]["epoch"] != offer.epoch
        ):
            return Begun(
                "turned", Turned("lost", "it was written, and others have gone on"), effect
            )
        if effect.doubt_ms is not None:
            return Begun("in_doubt", written(offer), effect, effect.doubt_ms)
        return Begun("fresh", written(offer), effect)

    # -- joined transactions --------------------------------------------------------------------

    def transact(self, work: Callable[[Any], Offer]) -> Answer:
        try:
            return self._transact(work)
        except _Decided as decided:
            answer = cast(Answer, decided.answer)
            if decided.offer is not None and was_fenced(answer):
                with self.database.transaction() as session:
                    session.send(fenced_calls(decided.offer, answer))
            return answer

    def _transact(self, work: Callable[[Any], Offer]) -> Answer:
        with self.database.transaction() as session:
            session.run("read_clock")  # begins it
            offer = work(session.connection)
            if not _in_transaction(session.connection):
                raise UsageError(
                    "the function ended the transaction itself; what it did is there, its record "
                    "is not. Leave commit and rollback to Outlast"
                )
            refusal = self._refusal(session, offer)
            if refusal:
                raise _Decided(refusal)
            if not insert(session, [offer]):
                raise _Decided(standing_in(session, offer), offer)
            calls, counts = follow_ups(offer.entries, None, offer.worker)
            session.send([*calls, *counter_calls(counts, offer.worker)])
        return written(offer)

    def _refusal(self, session: Session, offer: Offer) -> Answer | None:
        said = fault(offer) or ("it lets go" if offer.last.holder == 0 else "")
        if said:
            return Turned("invalid", said)
        seen = session.run("look_gate", task_id=offer.task_id)
        if seen and seen[0]["cancel_ms"] is not None:
            return Turned("cancel_asked", str(seen[0]["cancel_why"] or ""))
        return None

    # -- settle -------------------------------------------------------------------------------

    def settle(
        self,
        key: str,
        order: Order,
        *,
        applied: bool,
        receipt: Any = None,
        task_id: str | None = None,
    ) -> Effect:
        return self._with_patience(
            "settle", lambda: self._settle(key, order, applied, receipt, task_id)
        )

    def _settle(
        self, key: str, order: Order, applied: bool, receipt: Any, task_id: str | None
    ) -> Effect:
        before = self._effect(key)
        with self.database.transaction() as session:
            task = locked_task(session, before.task_id)
            effect = effect_of(session.run("lock_effect", key=key)[0])
            if effect.task_id != before.task_id or (task_id or effect.task_id) != effect.task_id:
                raise NotAllowedNow(
                    f"{key!r} belongs to task {effect.task_id} now; nothing was written"
                )
            allow("settle", task, session)
            _allow_settling(effect, applied)
            now_ms = session.run("read_clock")[0]["now_ms"]
            chapter = Chapter(session, task, now_ms)
            body = {
                "key": key,
                "name": effect.name,
                "tool": effect.tool,
                "applied": applied,
                "result": receipt,
                "by": order.by,
                "why": order.why,
                "ends_review": task.reason == "effect_unknown"
                and not self._other_doubts(session, effect, task.doubts),
            }
            chapter.add("effect.settled", body)
            chapter.close()
            return effect_of(session.run("get_effect", key=key)[0])

    def _other_doubts(self, session: Session, effect: Effect, doubts: str | None) -> bool:
        """Whether the review has doubts besides this one that are still open."""
        others = [key for key in msgspec.json.decode(doubts or "[]") if key != effect.key]
        for key in others:
            rows = session.run("get_effect", key=key)
            if not rows or rows[0]["state"] in IN_DOUBT:
                return True
        return False

    def _effect(self, key: str) -> Effect:
        rows = self.database.once("get_effect", key=key)
        if not rows:
            raise UnknownEffect(key)
        return effect_of(rows[0])

    # -- observe ------------------------------------------------------------------------------

    def observe(
        self,
        task_id: str,
        epoch: int,
        worker: str,
        key: str,
        *,
        applied: bool,
        result: Any = None,
        deduplicates: bool = False,
    ) -> None:
        def act() -> None:
            with self.database.transaction() as session:
                rows = session.run("lock_effect", key=key)
                text = msgspec.json.encode({"applied": applied, "result": result}).decode()
                if rows and applied:
                    self._observed(session, effect_of(rows[0]), worker, text, deduplicates)
                session.run("observe", task_id=task_id, epoch=epoch, worker=worker, kind="outcome",
                            key=key, count=1, detail=text)  # fmt: skip

        self._with_patience("observe", act)

    def _observed(
        self, session: Session, effect: Effect, worker: str, text: str, deduplicates: bool
    ) -> None:
        """*Applied* settles a doubt; where another try is known to be applied too, it was twice."""
        twice = effect.state == "applied" and effect.tries > 1 and effect.observed is None
        if twice and not deduplicates:
            counts = [count(DUPLICATES, tool=effect.tool, disposition="executed")]
            session.send(counter_calls(counts, worker))
        session.run("put_observed", key=effect.key, observed=text)

    # -- list ---------------------------------------------------------------------------------

    def find_effects(self, query: EffectQuery) -> list[Effect]:
        if query.in_doubt:
            rows = self.database.once(
                "effects_in_doubt", task_id=query.task_id, key=query.key, limit=query.limit
            )
        elif query.key is not None:
            rows = self.database.once("get_effect", key=query.key)
        elif query.task_ids:
            rows = self.database.once(
                "effects_of_tasks",
                tasks=keys_of(query.task_ids),
                any_state=int(not query.states),
                states=keys_of(query.states),
                limit=query.limit,
            )
        elif query.task_id is not None and not query.states:
            rows = self.database.once("effects_of_task", task_id=query.task_id)
        else:
            rows = self.database.once(
                "find_effects",
                task_id=query.task_id,
                any_state=int(not query.states),
                states=keys_of(query.states),
                limit=query.limit,
            )
        return [effect_of(row) for row in rows]

    def observations(self, task_id: str | None = None) -> list[Observation]:
        rows = self.database.once("read_observations", task_id=task_id, limit=limits.LIST_ROWS)
        return [Observation(**row) for row in rows]


class _Decided(Exception):
    """Leaves a transaction so that nothing of it is written, with the answer."""

    def __init__(self, answer: Any, offer: Offer | None = None) -> None:
        self.answer = answer
        self.offer = offer


def _taken(offer: Offer, doubt_ms: int | None) -> dict[str, Any]:
    intent = intent_params(offer.last, doubt_ms)
    return {k: v for k, v in intent.items() if k not in ("fingerprint", "shared")}


def _observed_applied(effect: Effect) -> bool:
    return effect.observed is not None and bool(msgspec.json.decode(effect.observed).get("applied"))


def _allow_settling(effect: Effect, applied: bool) -> None:
    if effect.state not in IN_DOUBT:
        raise NotAllowedNow(
            f"the effect {effect.key!r} is {effect.state}, not in doubt; nothing was written"
        )
    if not applied and _observed_applied(effect):
        raise NotAllowedNow(
            f"an observation says that {effect.key!r} was applied: {effect.observed}; "
            "nothing was written. Settle it as applied"
        )


def _in_transaction(connection: Any) -> bool:
    if hasattr(connection, "in_transaction"):
        return bool(connection.in_transaction)
    return int(connection.info.transaction_status) == 2  # psycopg: INTRANS
