"""What a page is asked for: the words of its address that it knows, none longer than a name."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from starlette.requests import Request

from ..core import limits
from ..core.errors import BadSetting
from ..core.text import checked

WORDS_MAX = 20


class Asked(msgspec.Struct, frozen=True):
    """(name, value) pairs in their order; empty values are left out."""

    words: tuple[tuple[str, str], ...] = ()

    def one(self, name: str) -> str | None:
        """The last value of a name; None: it was not said."""
        return next((value for key, value in reversed(self.words) if key == name), None)

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.words if key == name)

    def number(self, name: str, otherwise: int) -> int:
        """A number from 0 on. Raises BadSetting."""
        text = self.one(name)
        if text is None:
            return otherwise
        if not (text.isascii() and text.isdecimal() and int(text) <= limits.INTEGER_MAX):
            raise BadSetting(f"{name}: {text!r:.40} is no number; nothing was looked up")
        return int(text)

    def but(self, **changes: str | int | None) -> tuple[tuple[str, str], ...]:
        """The words with some set anew; None: left out."""
        kept = [(name, value) for name, value in self.words if name not in changes]
        return (*kept, *((n, str(v)) for n, v in changes.items() if v is not None))


def asked_of(request: Request, known: Iterable[str]) -> Asked:
    """Raises UsageError where a value cannot be a name or a key."""
    names = set(known)
    words = [
        (name, checked(name, value.strip(), limits.KEY_CHARACTERS))
        for name, value in (*request.query_params.multi_items(), *request.path_params.items())
        if name in names and value.strip()
    ]
    if len(words) > WORDS_MAX:
        raise BadSetting("the address says more than a page can be asked for; nothing was done")
    return Asked(tuple(words))
