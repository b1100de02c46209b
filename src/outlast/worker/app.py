"""An app is the agents that a worker knows, by name: `App`, `@app.agent`, `AgentSpec`."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import msgspec

from ..core import limits
from ..core.codec import ANY, Codec, types_of
from ..core.durations import Duration, duration_ms, optional_ms
from ..core.errors import BadSetting, NotSerializable, UnknownAgent, UsageError
from ..core.retry import Retry, retry_policy

Function = TypeVar("Function", bound=Callable[..., Any])


class BadInput(UsageError):
    """The input of a task does not fit its agent."""


@dataclass(frozen=True)
class Parameter:
    """An argument of an agent: how it is read, and whether it may be left out."""

    codec: Codec
    required: bool


@dataclass(frozen=True)
class AgentSpec:
    """An agent and its limits, times in milliseconds; None: no limit."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    retry: Retry
    timeout_ms: int | None
    step_timeout_ms: int | None
    stall_timeout_ms: int | None
    kill_after_ms: int
    max_resumes: int
    max_expiries: int
    parameters: Mapping[str, Parameter]
    takes_any: bool
    result: Codec | None
    state: Codec

    def bind(self, input_text: str) -> dict[str, Any]:
        """The arguments by name, decoded by their annotations. Raises BadInput."""
        try:
            raw = msgspec.json.decode(input_text, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise BadInput(f"the input of {self.name} is not a JSON object: {error}") from error
        self._refuse_strangers(raw)
        try:
            return {
                name: self._codec(name).read(each, f"the argument {name!r} of {self.name}")
                for name, each in raw.items()
            }
        except NotSerializable as error:
            raise BadInput(str(error)) from error

    def input_text(self, arguments: Mapping[str, Any]) -> str:
        """JSON text of the arguments, checked against the signature. Raises UsageError."""
        self._refuse_strangers(arguments)
        parts = {
            name: msgspec.Raw(
                self._codec(name).write(each, f"the argument {name!r} of {self.name}").encode()
            )
            for name, each in arguments.items()
        }
        return msgspec.json.encode(parts).decode()

    def result_text(self, value: Any) -> str:
        """JSON text of what the agent returned. Raises NotSerializable, PayloadTooLarge."""
        # Nobody in this process reads it again: without an annotation its own type will do.
        codec = self.result or Codec(type(value) if value is not None else None)
        return codec.write(value, f"the result of {self.name}")

    def _codec(self, name: str) -> Codec:
        parameter = self.parameters.get(name)
        return parameter.codec if parameter else Codec()

    def _refuse_strangers(self, arguments: Mapping[str, Any]) -> None:
        missing = [n for n, p in self.parameters.items() if p.required and n not in arguments]
        unknown = [n for n in arguments if n not in self.parameters and not self.takes_any]
        if missing or unknown:
            wrong = [f"lacks {name!r}" for name in missing] + [
                f"has no {name!r}" for name in unknown
            ]
            raise BadInput(
                f"the input does not fit {self.name}({', '.join(self.parameters)}): "
                f"it {' and '.join(wrong)}"
            )


class App:
    """A set of agents. `agents`: by the name under which tasks are submitted."""

    def __init__(self) -> None:
        self.agents: dict[str, AgentSpec] = {}

    @overload
    def agent(self, function: Function) -> Function: ...

    @overload
    def agent(
        self,
        function: None = None,
        *,
        name: str | None = None,
        retries: int = 0,
        backoff: Duration = "1s",
        backoff_max: Duration = "5m",
        timeout: Duration | None = None,
        step_timeout: Duration | None = None,
        stall_timeout: Duration | None = None,
        kill_after: Duration = limits.KILL_AFTER_MS / 1_000,
        max_resumes: int = limits.MAX_RESUMES,
        max_expiries: int = limits.MAX_EXPIRIES,
        state: Any = ANY,
    ) -> Callable[[Function], Function]: ...

    def agent(self, function: Any = None, **options: Any) -> Any:
        """Make a function an agent; its first parameter is the context.

        `retries`, `backoff`, `backoff_max`: what follows an error that the agent raises.
        `timeout`: of an attempt; `step_timeout`: of each step. `stall_timeout`: end an attempt that
        has recorded nothing for so long. `kill_after`: how long an attempt that must stop may take,
        before its worker ends itself. `max_resumes`: leases in a row that may end with their worker
        and without a result; `max_expiries`: in all. `state`: type of the checkpoints.
        """
        if function is not None:
            self._add(function, **options)
            return function

        def decorate(function: Function) -> Function:
            self._add(function, **options)
            return function

        return decorate

    def spec(self, name: str) -> AgentSpec:
        """The agent of that name. Raises UnknownAgent."""
        try:
            return self.agents[name]
        except KeyError:
            raise UnknownAgent(name, tuple(self.agents)) from None

    def _add(self, function: Callable[..., Any], **options: Any) -> None:
        spec = agent_spec(function, **options)
        if spec.name in self.agents:
            raise BadSetting(f"this app has an agent {spec.name!r} already; give one a name=")
        self.agents[spec.name] = spec
        with contextlib.suppress(AttributeError):  # a callable object with slots
            function.__outlast__ = spec  # type: ignore[attr-defined]


def agent_spec(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    retries: int = 0,
    backoff: Duration = "1s",
    backoff_max: Duration = "5m",
    timeout: Duration | None = None,
    step_timeout: Duration | None = None,
    stall_timeout: Duration | None = None,
    kill_after: Duration = limits.KILL_AFTER_MS / 1_000,
    max_resumes: int = limits.MAX_RESUMES,
    max_expiries: int = limits.MAX_EXPIRIES,
    state: Any = ANY,
) -> AgentSpec:
    """An agent from a function; its annotations say how arguments and result are read."""
    hints = types_of(function)
    parameters, takes_any = _parameters(function, hints)
    return AgentSpec(
        name=name or function.__name__,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        retry=retry_policy(retries, backoff, backoff_max),
        timeout_ms=optional_ms(timeout, "timeout"),
        step_timeout_ms=optional_ms(step_timeout, "step_timeout"),
        stall_timeout_ms=optional_ms(stall_timeout, "stall_timeout"),
        kill_after_ms=duration_ms(kill_after, "kill_after"),
        max_resumes=_count(max_resumes, "max_resumes"),
        max_expiries=_count(max_expiries, "max_expiries"),
        parameters=parameters,
        takes_any=takes_any,
        result=Codec(hints["return"]) if "return" in hints else None,
        state=Codec(state),
    )


def _parameters(
    function: Callable[..., Any], hints: Mapping[str, Any]
) -> tuple[dict[str, Parameter], bool]:
    signature = list(inspect.signature(function).parameters.values())
    if not signature or signature[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise BadSetting(
            f"the agent {function.__name__!r} takes no context: its first parameter must be one "
            "(`async def agent(ctx, ...)`)"
        )
    found: dict[str, Parameter] = {}
    takes_any = False
    for each in signature[1:]:
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            takes_any = True
        elif each.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
            raise BadSetting(
                f"the parameter {each.name!r} of the agent {function.__name__!r} cannot be given "
                "by name; the arguments of an agent are a mapping"
            )
        else:
            codec = Codec(hints.get(each.name, ANY))
            found[each.name] = Parameter(codec, each.default is inspect.Parameter.empty)
    return found, takes_any


def _count(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadSetting(f"{what} cannot be {value!r}: it is a count, 1 or more")
    return value
