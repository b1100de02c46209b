"""What may stand in a name, a key or a reason: text that both databases keep as it is."""

from __future__ import annotations

from collections.abc import Iterable

from . import limits
from .errors import BadSetting, UsageError


def checked(what: str, text: str, limit: int = limits.NAME_CHARACTERS) -> str:
    """The text itself. Raises UsageError if a database would refuse or change it."""
    if "\0" in text:
        raise UsageError(
            f"{what} contains the character NUL, which cannot be stored; nothing was written"
        )
    if len(text) > limit:
        raise UsageError(
            f"{what} has {len(text):,} characters, the limit is {limit:,}; nothing was written"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} contains half a surrogate pair; nothing was written") from None
    return text


def named(what: str, text: str, limit: int = limits.NAME_CHARACTERS) -> str:
    """As `checked`, and a text that is not empty."""
    if not isinstance(text, str):
        raise UsageError(f"{what} must be text, not {type(text).__name__}; nothing was written")
    if not text.strip():
        raise UsageError(f"{what} is empty; nothing was written")
    return checked(what, text, limit)


def pairs(words: Iterable[str], what: str) -> dict[str, str]:
    """`NAME=VALUE` words as a dict; raises BadSetting. `what`: the flag or field they came in."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise BadSetting(f"{what}: {word!r:.60} is not NAME=VALUE; nothing was done")
        found[key] = value
    return found
