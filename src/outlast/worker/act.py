"""One effect as an agent asks for it: its two keys, its policies, its tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..core import limits
from ..core.codec import Codec, call_fingerprint, result_codec, unwrapped
from ..core.durations import Duration, optional_ms
from ..core.errors import BadSetting, NotDone
from ..core.replay import Call, scoped
from ..core.retry import Retry, retry_policy
from ..core.text import named
from .current import current_scope

if TYPE_CHECKING:
    from .attempt import Attempt

# Where the tool honours the key, or can be asked, a lost connection need not end the attempt.
DOUBT_RETRY = Retry(retries=3, give_up_on=())

OnUnknown = Literal["ask", "retry"] | Callable[..., Any]


@dataclass(frozen=True)
class Applied:
    """What a probe returns to say that the effect happened, where its result may be None."""

    result: Any = None


@dataclass(frozen=True)
class Act:
    """One effect as it was asked for. `key`: its idempotency key; `name`: its key in replay."""

    name: str
    key: str
    shared: bool
    tool: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    fingerprint: str
    on_unknown: OnUnknown
    not_done: tuple[type[BaseException], ...]
    policy: Retry
    doubt_policy: Retry
    timeout_ms: int | None
    codec: Codec

    @property
    def what(self) -> str:
        return f"the result of the effect {self.name!r}"


def numbered_act(
    attempt: Attempt,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    *,
    key: str | None,
    tool: str | None,
    on_unknown: OnUnknown,
    not_done: tuple[type[BaseException], ...],
    retries: int | None,
    backoff: Duration | None,
    backoff_max: Duration | None,
    timeout: Duration | None,
) -> tuple[Act, Call]:
    """The effect with its keys, and what the log has for it. Raises UsageError."""
    if not callable(on_unknown) and on_unknown not in ("ask", "retry"):
        raise BadSetting(f'on_unknown cannot be {on_unknown!r}: "ask", "retry" or a probe function')
    fingerprint = call_fingerprint(function, args)
    if key is not None:
        named("an idempotency key", key, limits.KEY_CHARACTERS)
    replay_name = scoped(current_scope.get(), named("an effect's name", name))
    asked = attempt.numbered("effect", replay_name, fingerprint, key or "")
    act = Act(
        name=asked.key,
        key=key
        or named("an idempotency key", f"{attempt.task.id}/{asked.key}", limits.KEY_CHARACTERS),
        shared=key is not None,
        tool=named("a tool's name", tool or _name_of(function)),
        function=function,
        args=args,
        fingerprint=fingerprint,
        on_unknown=on_unknown,
        not_done=(NotDone, *not_done),
        policy=retry_policy(retries, backoff, backoff_max, default=Retry(give_up_on=())),
        doubt_policy=retry_policy(retries, backoff, backoff_max, default=DOUBT_RETRY),
        timeout_ms=optional_ms(timeout, "timeout") or attempt.spec.step_timeout_ms,
        codec=result_codec(function),
    )
    return act, asked


def _name_of(function: Callable[..., Any]) -> str:
    function = unwrapped(function)
    return str(getattr(function, "__name__", type(function).__name__))


def takes_key(function: Callable[..., Any]) -> bool:
    try:
        return "idempotency_key" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built in C
        return False


def takes_more_than_key(probe: Callable[..., Any]) -> bool:
    """Whether a probe is asked with the arguments of the effect too: `probe(key, *args)`."""
    try:
        parameters = list(inspect.signature(probe).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    return len(required) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)
