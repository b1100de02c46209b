"""An exception as it stands on the log, and the exception that a replay raises for it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from typing import Any

import msgspec

from . import limits

Failure = dict[str, Any]
_TAG = "_outlast_key"


def failure(error: BaseException) -> Failure:
    """{type, message, args, traceback}: what a person, and a replay, must know of an error."""
    kind = type(error)
    said: Failure = {
        "type": kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}",
        "message": _clean(_message(error)),
    }
    arguments = _plain(error.args)
    if arguments is not None:
        said["args"] = arguments
    if error.__traceback__ is not None:
        said["traceback"] = _clean("".join(traceback.format_exception(error)))
    return said


def rebuilt(said: Failure) -> Exception:
    """The recorded error again: of its own class where that is loaded, else a RuntimeError."""
    kind = _class(str(said.get("type", "")))
    message = str(said.get("message", ""))
    if kind is not None:
        arguments = said.get("args")
        try:
            return kind(*(arguments if arguments is not None else [message]))
        except Exception:  # a class with a constructor of its own
            error = kind.__new__(kind)
            error.args = (message,)
            return error
    return RuntimeError(f"{said.get('type')}: {message}")


def tag(error: BaseException, key: str) -> None:
    """Note on an error under which key it is on the log."""
    try:
        setattr(error, _TAG, key)
    except AttributeError:  # a class with slots
        return


def tagged(error: BaseException) -> list[str]:
    """The keys of the recorded failures that this error is, or came from."""
    return sorted({key for each in _family(error) if (key := getattr(each, _TAG, None))})


def _family(error: BaseException) -> Iterator[BaseException]:
    waiting, seen = [error], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def _class(name: str) -> type[Exception] | None:
    # Only what this process has loaded itself: a log must not be able to import anything.
    module_name, _, qualified = name.rpartition(".")
    while True:
        module = sys.modules.get(module_name or "builtins")
        if module is not None:
            found: Any = module
            for part in qualified.split("."):
                found = getattr(found, part, None)
            loaded = isinstance(found, type) and issubclass(found, Exception)
            return found if loaded else None
        if not module_name:
            return None
        module_name, _, rest = module_name.rpartition(".")
        qualified = f"{rest}.{qualified}"


def _plain(arguments: tuple[Any, ...]) -> list[Any] | None:
    try:
        encoded = msgspec.json.encode(arguments)
        plain = msgspec.json.decode(encoded)
    except Exception:  # an argument may be anything
        return None
    if plain != list(arguments) or len(encoded) > limits.ERROR_CHARACTERS:
        return None
    return list(plain)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a __str__ that raises must not hide the error
        return f"({type(error).__qualname__}, whose message cannot be read)"


def _clean(text: str) -> str:
    """Text that every database takes: no half characters, and the end of what is too long."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limits.ERROR_CHARACTERS:
        return text
    return "… " + text[-limits.ERROR_CHARACTERS :]
