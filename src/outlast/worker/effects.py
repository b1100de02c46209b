"""The gate of effects: every act on the outside world is begun on the log before it is done.

    asked ─► on record? ─── applied ──► answer
                │  └──────── in doubt ─► observed? · probe · same key again · a person
                ▼
    effect.intended ─► trust and cancel looked at again ─► the call ─► outcome

A tool's exception is no outcome: the remote may have committed and dropped the connection. Only
`NotDone`, and what the caller lists as such, says that nothing reached the world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ..core import limits
from ..core.errors import (
    EffectConflict,
    EffectUnknown,
    NotSerializable,
    PayloadTooLarge,
)
from ..core.failures import failure, rebuilt, tag
from ..core.model import Answer, Effect, Written
from ..core.replay import Call, Record
from ..core.retry import TryAgain, next_move
from ..store.verbs import Begun, EffectQuery
from .act import Act, Applied, numbered_act, takes_key, takes_more_than_key
from .calling import call
from .current import current_key
from .outcome import Doubt, Late, Review
from .reply import Reply
from .steps import read_back
from .stop import Cause
from .waits import sleep_under
from .writer import Draft, draft

if TYPE_CHECKING:
    from .attempt import Attempt


async def effect(
    attempt: Attempt,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    **options: Any,
) -> Any:
    """Number the call, and let the gate answer it; `options`: see `Context.effect`."""
    act, asked = numbered_act(attempt, name, function, args, **options)
    return await Gate(attempt, act).answer(asked)


class Gate:
    """Decides one effect: answer, act, or hand it to a person."""

    def __init__(self, attempt: Attempt, act: Act) -> None:
        self.attempt = attempt
        self.act = act
        self.tries = 0

    async def answer(self, asked: Call) -> Any:
        """By what the log has for it."""
        record = asked.record
        if not asked.fits:
            raise self._conflict()
        if record is None:
            self.attempt.check()
            return await self._begin()
        self.tries = record.tries
        if record.state == "applied":
            self.attempt.memory.count_suppressed(self.act.tool)
            return self._recorded(record)
        if record.state == "failed" and record.final:
            error = rebuilt(record.error or {})
            tag(error, self.act.name)
            raise error
        if record.state in ("open", "unknown"):
            return await self._resume_doubt(record)
        self.attempt.check()
        return await self._begin()

    def _recorded(self, record: Record) -> Any:
        if record.lost_result is not None:
            raise NotSerializable(self.act.what, record.lost_result)
        return read_back(self.attempt, self.act.name, self.act.codec, record.result)

    # -- beginning --------------------------------------------------------------------------------

    async def _begin(self) -> Any:
        """Intent first: then, if it is ours to act, the call."""
        while True:
            self.tries += 1
            if self.act.shared:
                begun = await self._begin_shared()
                if begun.state == "done":
                    return await self._reuse(begun.effect)
                if begun.state == "in_doubt":
                    return await self._resolve(since_ms=begun.since_ms, taken_over=True)
            else:
                await self._begin_own()
            done = await self._act()
            if done is not None:
                return done.value

    async def _begin_own(self) -> None:
        """Begin under a key that no other task can have."""
        attempt = self.attempt
        told = await attempt.first_act()
        asked = attempt.track(attempt.workplace.writer.append(attempt.pen, *told, self._intent()))
        asked.add_done_callback(lambda answer: self._note_intent(_result_of(answer)))
        answer = await attempt.hear(asked)
        attempt.accepted(answer, told)

    def _note_intent(self, answer: Answer | None) -> None:
        """The moment at which an intent is on the log, whether or not anybody still awaits it."""
        if isinstance(answer, Written):
            doubt = Doubt(self.act.key, self.act.name, self.act.tool, called=False)
            # One that is there already is older: that call may have been made.
            self.attempt.intents.setdefault(self.act.key, doubt)

    def _intent(self) -> Draft:
        act = self.act
        body = {
            "key": act.key,
            "name": act.name,
            "tool": act.tool,
            "fingerprint": act.fingerprint,
            "shared": int(act.shared),
            "try": self.tries,
        }
        return draft("effect.intended", body)

    async def _begin_shared(self) -> Begun:
        """Begin under a key that other tasks may use; wait while another is at it."""
        attempt = self.attempt
        wait_ms, waited_ms = limits.RESEND_MS, 0
        while True:
            told = await attempt.first_act()
            asked = attempt.track(
                attempt.workplace.writer.begin(attempt.pen, *told, self._intent())
            )
            asked.add_done_callback(lambda begun: self._note_intent(_answer_of(begun)))
            begun = await attempt.hear(asked)
            if begun.state == "turned":
                attempt.accepted(begun.answer, told)
            if begun.state in ("fresh", "in_doubt"):
                attempt.accepted(begun.answer, told)
                return begun
            attempt.untell(told)
            if begun.state == "conflict":
                raise self._conflict()
            if begun.state == "done":
                return begun
            # Busy: its owner is alive. Ask again soon, then by a timer that holds no worker.
            if waited_ms < limits.MOMENT_MS:
                await attempt.pause(wait_ms)
                waited_ms, wait_ms = waited_ms + wait_ms, wait_ms * 2
            else:
                await sleep_under(attempt, f"{self.act.name} busy", limits.BUSY_KEY_MS)

    async def _reuse(self, effect: Effect | None) -> Any:
        """Another task has done it: its result is ours."""
        result = effect.result if effect is not None else None
        if effect is not None and result is None and effect.observed is not None:
            observed = msgspec.json.decode(effect.observed, type=dict[str, msgspec.Raw])
            result = bytes(observed.get("result", msgspec.Raw(b"null"))).decode()
        raw = msgspec.Raw((result or "null").encode())
        body = {**self._names(), "fingerprint": self.act.fingerprint, "result": raw}
        await self.attempt.write(draft("effect.reused", body))
        self.attempt.check()
        return read_back(self.attempt, self.act.name, self.act.codec, raw)

    # -- acting -----------------------------------------------------------------------------------

    async def _act(self) -> _Done | None:
        """Call the tool and record the outcome; None: it was not done, and may be begun again."""
        attempt, act = self.attempt, self.act
        # Looked at again right before the call: the answer to the intent may have taken long.
        attempt.check(drain=False)
        attempt.intents[act.key] = Doubt(act.key, act.name, act.tool)
        try:
            value = await self._call()
        except act.not_done as error:
            return await self._not_done(error)
        except (Exception, SystemExit) as error:
            return await self._in_doubt(error)
        return _Done(await self._applied(value))

    async def _call(self) -> Any:
        act = self.act
        keywords = {"idempotency_key": act.key} if takes_key(act.function) else {}
        token = current_key.set(act.key)
        try:
            return await call(
                self.attempt,
                act.function,
                act.args,
                what=act.name,
                timeout_ms=act.timeout_ms,
                keywords=keywords,
                on_late=self._late,
            )
        finally:
            current_key.reset(token)

    async def _applied(self, value: Any, **more: Any) -> Any:
        """Record that it reached the world, with its result if that can be recorded at all."""
        text, decoded, error = self._encoded(value)
        body = self._applied_body(text, error, **more)
        try:
            await self._write_outcome(draft("effect.applied", body))
        except BaseException:
            # If it turns out that the lease was lost, this is what a zombie must report.
            self.attempt.late.append(Late(self.act.key, _raw(text)))
            raise
        if error is not None:
            raise error
        self.attempt.check()
        return decoded

    def _late(self, value: Any) -> None:
        """The tool returned after its attempt had been stopped: it is known to be applied."""
        if self.act.key not in self.attempt.intents:
            return
        text, _, error = self._encoded(value)
        drafted = draft("effect.applied", self._applied_body(text, error))
        self.attempt.intents.pop(self.act.key, None)
        self.attempt.late.append(Late(self.act.key, _raw(text), drafted))

    def _encoded(
        self, value: Any
    ) -> tuple[str | None, Any, NotSerializable | PayloadTooLarge | None]:
        try:
            text, decoded = self.act.codec.record(value, self.act.what)
        except (NotSerializable, PayloadTooLarge) as error:
            return None, None, error
        return text, decoded, None

    def _applied_body(
        self, text: str | None, error: NotSerializable | PayloadTooLarge | None, **more: Any
    ) -> dict[str, Any]:
        body = {**self._names(), **more}
        if error is not None:
            return {**body, "without_result": error.why}
        return {**body, "result": _raw(text)}

    async def _not_done(self, error: BaseException) -> _Done | None:
        """Nothing reached the world; None: again under its own policy, with the same key."""
        attempt = self.attempt
        move = next_move(self.act.policy, self.tries, error, attempt.workplace.env.random)
        final = not isinstance(move, TryAgain)
        body = {**self._names(), "error": failure(error), "final": final}
        await self._write_outcome(draft("effect.failed", body))
        if not isinstance(move, TryAgain):
            tag(error, self.act.name)
            raise error
        await attempt.pause(move.delay_ms)
        return None

    async def _write_outcome(self, outcome: Draft) -> None:
        attempt, key = self.attempt, self.act.key
        told = await attempt.first_act()
        # Before it is written: once queued it stands or falls with everything that follows it.
        doubt = attempt.intents.pop(key, None)
        asked = attempt.track(attempt.workplace.writer.append(attempt.pen, *told, outcome))

        def take_back(answer: Reply[Answer]) -> None:
            if doubt is not None and not isinstance(_result_of(answer), Written):
                attempt.intents.setdefault(key, doubt)

        asked.add_done_callback(take_back)
        answer = await attempt.hear(asked)
        attempt.accepted(answer, told)

    def _names(self) -> dict[str, Any]:
        return {"key": self.act.key, "name": self.act.name, "tool": self.act.tool}

    # -- doubts -----------------------------------------------------------------------------------

    async def _in_doubt(self, error: BaseException) -> _Done | None:
        """The tool raised: perhaps after the remote had committed."""
        attempt, act = self.attempt, self.act
        attempt.check(drain=False)
        if act.on_unknown == "ask":
            raise self._ask_a_person(error)
        if callable(act.on_unknown):
            found = await self._probed()
            if found is not None:
                return _Done(await self._applied(found.result, adopted=True))
        move = next_move(act.doubt_policy, self.tries, error, attempt.workplace.env.random)
        if not isinstance(move, TryAgain):
            # The intent stays open: whoever tries next knows that it is in doubt.
            raise error
        await attempt.pause(move.delay_ms)
        return None

    async def _resume_doubt(self, record: Record) -> Any:
        """A life before began it, and did not say how it ended."""
        attempt, act = self.attempt, self.act
        attempt.intents.setdefault(act.key, Doubt(act.key, act.name, act.tool))
        if record.state == "unknown":
            attempt.intents.pop(act.key, None)
        stop = attempt.holding.stop
        if not (act.on_unknown == "ask" and stop is not None and stop.cause is Cause.REVIEW):
            attempt.check()
        observed = await self._observed()
        if observed is not None:
            return await self._applied_as_observed(observed)
        if act.shared:
            return await self._begin()
        gone = attempt.memory.owner_gone
        return await self._resolve(
            since_ms=attempt.memory.ended_ms if gone else 0, taken_over=False
        )

    async def _resolve(self, *, since_ms: int, taken_over: bool) -> Any:
        """By policy: ask, probe, or act again. `taken_over`: a new intent is on the log already."""
        act = self.act
        if taken_over:
            self.attempt.intents[act.key] = Doubt(act.key, act.name, act.tool)
        if act.on_unknown == "ask":
            raise self._ask_a_person(None)
        if callable(act.on_unknown):
            await self._until_the_old_owner_is_gone(since_ms)
            found = await self._probed()
            if found is not None:
                return await self._applied(found.result, adopted=True)
        if taken_over:
            done = await self._act()
            if done is not None:
                return done.value
        return await self._begin()

    async def _until_the_old_owner_is_gone(self, since_ms: int) -> None:
        """A probe's "not applied" is worth nothing while a zombie may still act."""
        attempt = self.attempt
        while since_ms:
            now_ms = attempt.workplace.store_clock.now_ms()
            left_ms = since_ms + attempt.spec.kill_after_ms - now_ms
            if left_ms <= 0:
                return
            await attempt.pause(left_ms)

    async def _probed(self) -> Applied | None:
        """What the probe says: applied, or None. One that raises leaves the doubt to a person."""
        act, probe = self.act, self.act.on_unknown
        assert callable(probe)
        try:
            found = await call(
                self.attempt,
                probe,
                (act.key, *act.args) if takes_more_than_key(probe) else (act.key,),
                what=f"{act.name} (probe)",
                timeout_ms=act.timeout_ms,
            )
        except (Exception, SystemExit) as error:
            raise self._ask_a_person(error) from error
        if found is None or isinstance(found, Applied):
            return found
        return Applied(found)

    async def _observed(self) -> msgspec.Raw | None:
        """The result that a zombie of this task reported, if it knew of one."""
        query = EffectQuery(task_id=self.attempt.task.id, key=self.act.key)
        for found in await self.attempt.ask(lambda store: store.find_effects(query)):
            if found.observed is not None:
                said = msgspec.json.decode(found.observed, type=dict[str, msgspec.Raw])
                if bytes(said.get("applied", b"false")) == b"true":
                    return said.get("result", msgspec.Raw(b"null"))
        return None

    async def _applied_as_observed(self, result: msgspec.Raw) -> Any:
        body = {**self._names(), "result": result, "adopted": True, "observed": True}
        await self._write_outcome(draft("effect.applied", body))
        self.attempt.check()
        return read_back(self.attempt, self.act.name, self.act.codec, result)

    def _ask_a_person(self, cause: BaseException | None) -> BaseException:
        error = EffectUnknown(self.act.key, self.act.tool)
        error.__cause__ = cause
        review = Review("effect_unknown", error, (self.act.key,), self.act.tool)
        return self.attempt.hand_to_a_person(review)

    def _conflict(self) -> BaseException:
        error = EffectConflict(self.act.key, self.act.tool)
        return self.attempt.hand_to_a_person(Review("effect_conflict", error, (), self.act.tool))


@dataclass(frozen=True)
class _Done:
    """The effect has its result; wrapped, since None is one."""

    value: Any


def _result_of(asked: Reply[Answer]) -> Answer | None:
    return asked.result() if asked.exception() is None else None


def _answer_of(asked: Reply[Begun]) -> Answer | None:
    return asked.result().answer if asked.exception() is None else None


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())
