"""What a caller sends, checked before anything is sent: names, labels and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from . import limits
from .codec import Codec
from .durations import shown
from .errors import BadSetting, PayloadTooLarge
from .text import named

PLAIN = (type(None), bool, int, float, str, list, tuple, dict, set, frozenset, bytes, bytearray)
PLAIN_JSON = Codec()


def input_text(agent: str, arguments: Any) -> str:
    """An agent's arguments as JSON text; raises BadSetting, NotSerializable, PayloadTooLarge."""
    if not isinstance(arguments, Mapping):
        raise BadSetting(
            f"the input of {agent!r} is a {type(arguments).__name__}, and must be a mapping of its "
            'arguments by name, like {"repo": "a/b"}; nothing was written'
        )
    parts = {
        name("an argument's name", key): msgspec.Raw(
            payload_text(value, f"the argument {key!r} of {agent!r}").encode()
        )
        for key, value in arguments.items()
    }
    encoded = msgspec.json.encode(parts)
    if len(encoded) > limits.PAYLOAD_BYTES:
        raise PayloadTooLarge(f"the input of {agent!r}", len(encoded), limits.PAYLOAD_BYTES)
    return encoded.decode()


def payload_text(value: Any, what: str) -> str:
    """JSON text that gives `value` back; raises NotSerializable, PayloadTooLarge."""
    # A model or dataclass is rebuilt by the annotation of whoever reads it; its own type stands in.
    codec = PLAIN_JSON if isinstance(value, PLAIN) else Codec(type(value))
    return codec.write(value, what)


def name(what: str, value: Any, most: int = limits.NAME_CHARACTERS) -> str:
    """A name that any database stores; raises UsageError."""
    if not isinstance(value, str):
        raise BadSetting(f"{what} must be text, not a {type(value).__name__}; nothing was written")
    return named(what, value, most)


def key(value: Any) -> str:
    """A submit key; raises UsageError."""
    return name("the submit key", value, limits.KEY_CHARACTERS)


def labels(value: Mapping[str, str] | None) -> dict[str, str]:
    """Labels: names to texts; raises UsageError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadSetting(f"labels are a mapping, not a {type(value).__name__}; nothing was written")
    return {
        name("the name of a label", label): name(f"the label {label!r}", text)
        for label, text in value.items()
    }


def priority(value: Any) -> int:
    """A whole number, higher ones first; raises BadSetting."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > limits.PRIORITY_MAX:
        raise BadSetting(
            f"priority: {shown(value)} is no whole number from -{limits.PRIORITY_MAX} to "
            f"{limits.PRIORITY_MAX}; nothing was written"
        )
    return value
