"""A page: its name, which is its templates', and what it looks at in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...store.verbs import Store
from ..asked import Asked
from .fleet import Fleet

Facts = dict[str, Any]


class Page(msgspec.Struct, frozen=True):
    """`look` gives what `NAME.html` shows, `now_ms` among it; `knows`: words of the address.

    `live`: whether the fragment `live/NAME.html` is sent again when it changes.
    """

    name: str
    path: str
    look: Callable[[Fleet, Store, Asked], Facts]
    knows: tuple[str, ...] = ()
    live: bool = True
