"""The verbs as messages: what a request over HTTP holds, and what its answer is.

Read from the protocol itself, so that the two cannot differ. A verb is one POST of a JSON object,
its arguments by name; the answer is the JSON of what the verb returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from ..core import errors
from ..core.errors import OutlastError, Unavailable
from .verbs import Store

# `transact` runs the caller's code in the store's transaction; the others concern one connection.
LOCAL = frozenset({"transact", "hinted", "hints_come", "close"})
# A page of a log, and a batch of appends, are at most this much body text.
PAGE_BYTES = 4 << 20
# The largest request: one payload and its fields, or a batch of small ones.
REQUEST_BYTES = 32 << 20
NOT_SENT, UNKNOWN, SENT = "not_dispatched", "unknown", "dispatched"


class Message(msgspec.Struct, frozen=True):
    """One verb: the type that its request is decoded to, and the type of its answer."""

    verb: str
    signature: inspect.Signature
    request: Any
    answer: Any

    def pack(self, args: Sequence[Any], named: Mapping[str, Any]) -> bytes:
        """The body of a request. Raises TypeError as the verb itself would."""
        bound = self.signature.bind(None, *args, **named).arguments
        bound.pop("self")
        return msgspec.json.encode(bound)

    def unpack(self, body: bytes) -> dict[str, Any]:
        """The arguments by name. Raises msgspec.ValidationError or DecodeError."""
        return msgspec.structs.asdict(msgspec.json.decode(body, type=self.request))


class Problem(msgspec.Struct, frozen=True):
    """An error as it travels. `code`: the name of the class, here and in Python.

    `execution_state`: `not_dispatched`: nothing was written; `unknown`: send it again, or look.
    """

    code: str
    message: str
    execution_state: str
    fields: Mapping[str, Any] = {}


@cache
def messages() -> Mapping[str, Message]:
    """Every verb that travels, by its name."""
    names = [name for name in dir(Store) if not name.startswith("_") and name not in LOCAL]
    return {name: _message(name) for name in names}


def _message(name: str) -> Message:
    method = getattr(Store, name)
    signature, hints = inspect.signature(method), get_type_hints(method)
    fields: list[Any] = []
    for parameter in list(signature.parameters.values())[1:]:
        field: tuple[Any, ...] = (parameter.name, hints[parameter.name])
        if parameter.default is not parameter.empty:
            field += (parameter.default,)
        fields.append(field)
    request = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    return Message(name, signature, request, _as_list(hints["return"]))


def _as_list(answer: Any) -> Any:
    """What is yielded one by one travels as a list."""
    return list[get_args(answer)[0]] if get_origin(answer) is Iterator else answer  # type: ignore[misc]


def problem(error: OutlastError) -> Problem:
    """What is told of an error to whoever asked from afar."""
    plain = {name: value for name, value in vars(error).items() if _is_plain(value)}
    state = UNKNOWN if isinstance(error, Unavailable) else NOT_SENT
    return Problem(type(error).__name__, str(error), state, plain)


def rebuilt(told: Problem) -> OutlastError:
    """The error again, of the same class where we know it."""
    known = getattr(errors, told.code, None)
    kind = known if isinstance(known, type) and issubclass(known, OutlastError) else OutlastError
    error = kind.__new__(kind)
    Exception.__init__(error, told.message)
    vars(error).update(told.fields)
    return error


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | bool)
