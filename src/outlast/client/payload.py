"""What a caller sends, checked before anything is sent: names, labels and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core import codec, limits
from ..core.errors import BadSetting


def input_text(agent: str, arguments: Any) -> str:
    """An agent's arguments as JSON text; raises BadSetting, NotSerializable, PayloadTooLarge."""
    if not isinstance(arguments, Mapping):
        raise BadSetting(
            f"the input of {agent!r} is a {type(arguments).__name__}, and must be a mapping of its "
            'arguments by name, like {"repo": "a/b"}; nothing was written'
        )
    return payload_text(dict(arguments), f"the input of {agent!r}")


def payload_text(value: Any, what: str) -> str:
    """JSON text that gives `value` back; raises NotSerializable, PayloadTooLarge."""
    return codec.encode(value, what)


def name(value: Any, what: str, most: int = limits.NAME_CHARACTERS) -> str:
    """A name that any database stores: text, not empty, no NUL, not too long; raises BadSetting."""
    why = _fault(value, most)
    if why:
        raise BadSetting(f"{what} {why}; nothing was written")
    text: str = value
    return text


def key(value: Any) -> str:
    """A submit key; raises BadSetting."""
    return name(value, "the submit key", limits.KEY_CHARACTERS)


def labels(value: Mapping[str, str] | None) -> dict[str, str]:
    """Labels: names to texts; raises BadSetting."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadSetting(f"labels are a mapping, not a {type(value).__name__}; nothing was written")
    return {
        name(label, "the name of a label"): name(text, f"the label {label!r}")
        for label, text in value.items()
    }


def priority(value: Any) -> int:
    """A whole number that the database holds; raises BadSetting."""
    # Negative ones come after the ordinary, so that a flood of extra work can be put last.
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1_000_000:
        raise BadSetting(
            "priority must be a whole number from -1000000 to 1000000; nothing was written"
        )
    return value


def _fault(value: Any, most: int) -> str | None:
    if not isinstance(value, str):
        return f"must be text, not a {type(value).__name__}"
    if not value.strip():
        return "is empty"
    if len(value) > most:
        return f"has {len(value):,} characters, the limit is {most:,}"
    if "\x00" in value:
        return "has a NUL character in it, which databases do not store in names"
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "is not valid Unicode (a lone surrogate; were its bytes UTF-8?)"
    return None
