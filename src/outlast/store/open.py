"""Open a store by its URL: `sqlite:PATH` or `postgresql://…`."""

from __future__ import annotations

from ..core.clock import Env
from .verbs import Store


def open_store(url: str, *, env: Env | None = None, owner: bool = False, check: bool = True) -> Store:
    """A store on a connection of its own, for one thread.

    `owner`: this connection writes for leases; it is bounded so that nobody waits for a frozen
    process. `check`: refuse a database whose schema is not ours (SchemaMismatch).
    Raises Unavailable, SchemaMismatch, BadSetting.
    """
    raise NotImplementedError
