"""Steps, transactions, checkpoints, notes: what an agent does inside its own world."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ..core import limits
from ..core.codec import Codec, call_fingerprint, result_codec
from ..core.durations import Duration, optional_ms
from ..core.errors import NotAllowedNow, NotSerializable, UsageError
from ..core.failures import failure, rebuilt, tag
from ..core.replay import Call, Record, scoped
from ..core.retry import Retry, TryAgain, next_move, retry_policy
from ..core.text import named
from .calling import call
from .current import current_scope
from .timers import Timers
from .writer import Draft, draft

if TYPE_CHECKING:
    from .attempt import Attempt


async def step(
    attempt: Attempt,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    retries: int | None,
    backoff: Duration | None,
    backoff_max: Duration | None,
    timeout: Duration | None,
) -> Any:
    """Answer from the log, or run and record."""
    policy = retry_policy(retries, backoff, backoff_max)
    timeout_ms = optional_ms(timeout, "timeout") or attempt.spec.step_timeout_ms
    arguments = call_fingerprint(function, args)
    codec = result_codec(function)
    asked = numbered_step(attempt, name, arguments)
    if asked.record is not None and asked.record.answered:
        return recorded(attempt, asked.record, codec)
    attempt.check()
    value, tries = await _tried(attempt, asked, function, args, arguments, policy, timeout_ms)
    text, decoded = codec.record(value, f"the result of the step {asked.key!r}")
    await attempt.write(step_done(asked.key, arguments, text, tries))
    attempt.check()
    return decoded


async def transaction(
    attempt: Attempt,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    timeout: Duration | None,
) -> Any:
    """A step whose record is in the same transaction as what it did to the store's database."""
    arguments, codec = call_fingerprint(function, args), result_codec(function)
    asked = numbered_step(attempt, name, arguments)
    if asked.record is not None and asked.record.answered:
        return recorded(attempt, asked.record, codec)
    attempt.check()
    told = await attempt.first_act()
    decoded: list[Any] = []

    limit_ms = optional_ms(timeout, "timeout") or limits.TRANSACTION_MS

    def work(connection: Any) -> tuple[Draft, ...]:
        with Interrupted(attempt.workplace.timers, connection, limit_ms):
            value = function(connection, *args)
        text, seen = codec.record(value, f"the result of the transaction {asked.key!r}")
        decoded.append(seen)
        return (*told, step_done(asked.key, arguments, text, 1))

    attempt.open_calls += 1
    try:
        answer = await attempt.hear(attempt.workplace.writer.transact(attempt.pen, work))
        attempt.accepted(answer, told)
    finally:
        attempt.open_calls -= 1
    attempt.check()
    return decoded[-1]


class Interrupted:
    """Within `with`, what a connection does is broken off after so long; then TimeoutError.

    The writer's thread runs it, so everybody else's events wait for it meanwhile.
    """

    def __init__(self, timers: Timers, connection: Any, ms: int) -> None:
        self._timers, self._connection, self._ms = timers, connection, ms
        self._passed = False

    def __enter__(self) -> None:
        self._timer = self._timers.after(self._ms, self._fire)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._timer.cancel()
        if self._passed and error is not None:
            raise TimeoutError(f"the transaction took longer than {self._ms} ms") from error

    def _fire(self) -> None:
        self._passed = True
        # sqlite3 calls it interrupt, psycopg cancel; both may be called from another thread.
        stop = getattr(self._connection, "interrupt", None) or self._connection.cancel
        threading.Thread(target=stop, name="outlast-interrupt", daemon=True).start()


async def checkpoint(attempt: Attempt, state: Any) -> None:
    """State and the counts of all names, so that what follows has the keys it would have had."""
    attempt.check()
    attempt.check_restored("a checkpoint")
    if state is None:
        raise UsageError(
            "the state of a checkpoint cannot be None, which ctx.restored gives where there is no "
            "checkpoint; nothing was written. True will do"
        )
    if attempt.open_calls or current_scope.get():
        raise NotAllowedNow(
            "a checkpoint cannot be made while a step, effect, wait or gather of the task is open; "
            "nothing was written. Make it between them"
        )
    text = attempt.spec.state.write(state, "the state of a checkpoint")
    body = {"state": msgspec.Raw(text.encode()), "counts": attempt.memory.counts}
    await attempt.write(draft("checkpoint", body))
    attempt.check()


async def note(attempt: Attempt, text: str, data: Any) -> None:
    """Written where the agent is new; a replay has said it before."""
    attempt.check(drain=False)
    encoded = Codec().write(data, "the data of a note")
    if attempt.replaying:
        return
    await attempt.write(draft("note", {"text": text, "data": msgspec.Raw(encoded.encode())}))


def numbered_step(attempt: Attempt, name: str, arguments: str) -> Call:
    """The call with its key, and its record if that fits.

    The first of its name is answered whatever its arguments: code may change between two lives.
    """
    scoped_name = scoped(current_scope.get(), named("a step's name", name))
    asked = attempt.numbered("step", scoped_name, arguments)
    record = asked.record
    if record is not None and record.kind != "step":
        raise attempt.mismatch(asked.key, f"is on record as {_a(record.kind)}, not as a step")
    if not asked.fits and not asked.first:
        raise attempt.mismatch(asked.key, "is on record with other arguments")
    return asked


def recorded(attempt: Attempt, record: Record, codec: Codec) -> Any:
    """What the log answers: the recorded result, or the recorded error raised again."""
    if record.state == "failed":
        error = rebuilt(record.error or {})
        tag(error, record.key)
        raise error
    return read_back(attempt, record.key, codec, record.result)


def read_back(attempt: Attempt, key: str, codec: Codec, result: msgspec.Raw | None) -> Any:
    """A recorded result; one that the code can no longer read is for a person."""
    try:
        return codec.read(result if result is not None else b"null")
    except NotSerializable as error:
        why = f"is on record with a result that cannot be read {error.why}"
        raise attempt.mismatch(key, why) from error


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "effect" else f"a {kind}"


def step_done(key: str, arguments: str, text: str, tries: int) -> Draft:
    body = {"key": key, "args": arguments, "result": msgspec.Raw(text.encode()), "try": tries}
    return draft("step.done", body)


async def _tried(
    attempt: Attempt,
    asked: Call,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    arguments: str,
    policy: Retry,
    timeout_ms: int | None,
) -> tuple[Any, int]:
    """Run the function until it returns or no try is left; its value, and how many it took."""
    tries = asked.record.tries if asked.record is not None else 0
    while True:
        tries += 1
        try:
            return await call(attempt, function, args, what=asked.key, timeout_ms=timeout_ms), tries
        except Exception as error:
            move = next_move(policy, tries, error, attempt.workplace.env.random)
            attempt.check(drain=False)
            again = isinstance(move, TryAgain)
            body = {"key": asked.key, "args": arguments, "error": failure(error), "try": tries}
            await attempt.write(draft("step.failed", {**body, "final": not again}))
            if not isinstance(move, TryAgain):
                tag(error, asked.key)
                raise
        attempt.check()
        await attempt.pause(move.delay_ms)
