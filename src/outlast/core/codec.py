"""Values to JSON text and back, by their annotations: exactly, or not at all.

What an agent gets is always the decoded value, in the first life as on replay. A value that would
come back as something else is refused with NotSerializable before anything is written.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from . import limits
from .errors import NotSerializable, PayloadTooLarge

ANY: Any = Any


class Codec:
    """Writes and reads the values of one annotation; `Any`: plain JSON values only."""

    def __init__(self, annotation: Any = ANY) -> None:
        self.annotation = annotation
        self._decode = _decoder(annotation)

    def write(self, value: Any, what: str, limit_bytes: int = limits.PAYLOAD_BYTES) -> str:
        """JSON text of `value`. Raises NotSerializable, PayloadTooLarge."""
        return self.record(value, what, limit_bytes)[0]

    def record(
        self, value: Any, what: str, limit_bytes: int = limits.PAYLOAD_BYTES
    ) -> tuple[str, Any]:
        """JSON text of `value`, and the value as every later reader will see it."""
        encoded = encode(value, what)
        if len(encoded) > limit_bytes:
            raise PayloadTooLarge(what, len(encoded), limit_bytes)
        decoded = self._read(encoded, what)
        if not _same(value, decoded, encoded):
            raise NotSerializable(what, _difference(value, decoded))
        return encoded.decode(), decoded

    def read(self, text: str | bytes | msgspec.Raw, what: str = "a recorded value") -> Any:
        """The value that `text` stands for. Raises NotSerializable where it does not fit."""
        return self._read(bytes(text) if isinstance(text, msgspec.Raw) else text, what)

    def _read(self, text: str | bytes, what: str) -> Any:
        try:
            return self._decode(text)
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:
            raise NotSerializable(what, f"as {_name(self.annotation)}, {error}") from error


def encode(value: Any, what: str) -> bytes:
    """JSON of any value that has some; NaN, infinities and lone surrogates have none."""
    try:
        encoded = _encode(value)
        # msgspec writes null for what JSON has no number for; only then is it worth a look.
        if b"null" in encoded:
            _refuse_not_finite(msgspec.to_builtins(value, enc_hook=_to_plain), what)
    except UnicodeEncodeError as error:
        raise NotSerializable(what, "it holds half a character (a lone surrogate)") from error
    except OverflowError as error:
        raise NotSerializable(what, "it holds an integer of more than 64 bits") from error
    except RecursionError as error:
        raise NotSerializable(what, "it contains itself, or is nested too deeply") from error
    except NotSerializable:
        raise
    except Exception as error:  # whatever a foreign object does when it is asked for its fields
        raise NotSerializable(what, str(error) or type(error).__name__) from error
    return encoded


@functools.cache
def result_codec(function: Callable[..., Any]) -> Codec:
    """The codec of what `function` returns, by its annotation."""
    return Codec(types_of(function).get("return", ANY))


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, as types where they can be found; others are left out."""
    function = unwrapped(function)
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        function = getattr(function, "__call__", function)  # noqa: B004 - an object with __call__
    try:
        return typing.get_type_hints(function, localns=_closure(function), include_extras=True)
    except Exception:  # a name that exists for the type checker only
        raw = getattr(function, "__annotations__", {})
        return {name: kind for name, kind in raw.items() if not isinstance(kind, str)}


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside `functools.partial`s and decorators that say what they wrap."""
    while isinstance(function, functools.partial):
        function = function.func
    found: Callable[..., Any] = inspect.unwrap(function)
    return found


def fingerprint(args: Sequence[Any], keywords: dict[str, Any] | None = None) -> str:
    """A digest of arguments: the same for the same values, in any process, dicts in any order.

    What has no JSON (a client, a lock) counts by its type alone.
    """
    parts = [_canonical(each) for each in args]
    if keywords:
        parts += [f"{name}=".encode() + _canonical(each) for name, each in sorted(keywords.items())]
    told = b"".join([each for part in parts for each in (len(part).to_bytes(8, "big"), part)])
    return hashlib.sha256(told).hexdigest()[:32]


def call_fingerprint(function: Callable[..., Any], args: Sequence[Any]) -> str:
    """The fingerprint of a call, with what `functools.partial` adds to it."""
    keywords: dict[str, Any] = {}
    bound: tuple[Any, ...] = tuple(args)
    while isinstance(function, functools.partial):
        keywords = {**function.keywords, **keywords}
        bound = (*function.args, *bound)
        function = function.func
    return fingerprint(bound, keywords)


def _canonical(value: Any) -> bytes:
    try:
        return _encode_sorted(value)
    except Exception:  # any object may be an argument; it need not have JSON
        kind = type(value)
        return f"!{kind.__module__}.{kind.__qualname__}".encode()


def _decoder(annotation: Any) -> Callable[[str | bytes], Any]:
    if annotation is None:
        annotation = type(None)
    if annotation is inspect.Signature.empty or isinstance(annotation, typing.TypeVar):
        annotation = ANY
    try:
        return msgspec.json.Decoder(annotation, dec_hook=_from_plain).decode
    except (TypeError, NameError) as error:  # a union of models, for one
        return _pydantic_decoder(annotation, error)


def _pydantic_decoder(annotation: Any, error: Exception) -> Callable[[str | bytes], Any]:
    # Only where somebody has imported it: pydantic is not ours to load.
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None:
        try:
            return typing.cast(
                Callable[[str | bytes], Any], pydantic.TypeAdapter(annotation).validate_json
            )
        except Exception as refusal:  # it does not know the type either
            error = refusal

    def refuse(text: str | bytes) -> Any:
        raise ValueError(f"the annotation cannot be rebuilt from JSON: {error}")

    return refuse


def _to_plain(value: Any) -> Any:
    """For msgspec: what it does not know."""
    if hasattr(type(value), "model_dump") and hasattr(type(value), "model_validate_json"):
        return value.model_dump(mode="json")
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"{_name(type(value))} has no JSON")


_encode = msgspec.json.Encoder(enc_hook=_to_plain).encode
_encode_sorted = msgspec.json.Encoder(enc_hook=_to_plain, order="sorted").encode


def _from_plain(kind: Any, plain: Any) -> Any:
    """For msgspec: a type that it does not know."""
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(msgspec.json.encode(plain))
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(plain)
    raise ValueError(f"{_name(kind)} cannot be rebuilt from JSON")


def _refuse_not_finite(plain: Any, what: str) -> None:
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise NotSerializable(what, f"JSON has no number for {plain}")
    elif isinstance(plain, dict):
        for key, value in plain.items():
            _refuse_not_finite(key, what)
            _refuse_not_finite(value, what)
    elif isinstance(plain, list | tuple):
        for value in plain:
            _refuse_not_finite(value, what)


def _same(value: Any, decoded: Any, encoded: bytes) -> bool:
    try:
        if bool(value == decoded):
            return True
    except Exception:  # an object whose comparison raises has not been shown to be the same
        return False
    # Types that compare by identity are the same if they are of one type and read the same.
    by_identity = getattr(type(value), "__eq__", None) is object.__eq__
    if not by_identity or type(value) is not type(decoded):
        return False
    return _encode(decoded) == encoded


def _difference(value: Any, decoded: Any) -> str:
    if type(value) is not type(decoded):
        return f"a {_name(type(value))} would come back as a {_name(type(decoded))}"
    return f"a {_name(type(value))} inside would come back as something else"


def _name(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)


def _closure(function: Any) -> dict[str, Any]:
    """The names that a nested function sees, so that types defined beside it are found."""
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return {}
    found = {}
    for name, cell in zip(code.co_freevars, cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found
