"""A store that loses the request, or the answer, of one call of a verb."""

from __future__ import annotations

from collections import Counter
from typing import Any

from outlast.core.errors import Unavailable
from outlast.store.verbs import Store


class Losses:
    """Which call is lost, counted over all stores opened: the n-th of a verb (of any: "")."""

    def __init__(self, what: str = "", nth: int = 0, verb: str = "") -> None:
        self.what, self.nth, self.verb = what, nth, verb
        self.calls: list[str] = []
        self.lost = False
        self._seen: Counter[str] = Counter()

    def now(self, verb: str) -> str:
        """Whether this call is the one: "request", "answer" or ""."""
        self.calls.append(verb)
        self._seen[verb] += 1
        number = self._seen[verb] if self.verb else len(self.calls)
        if self.lost or (self.verb or verb, self.nth) != (verb, number):
            return ""
        self.lost = True
        return self.what


class LossyStore:
    """A store, with losses. `asks_again`: it sends the same once more by itself, as callers do."""

    def __init__(self, store: Store, losses: Losses, *, asks_again: bool = False) -> None:
        self._store, self._losses, self._asks_again = store, losses, asks_again

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name in ("close", "database", "hinted", "hints_come"):
            return verb

        def call(*words: Any, **options: Any) -> Any:
            lost = self._losses.now(name)
            if lost == "answer":
                verb(*words, **options)
            if lost and not self._asks_again:
                raise Unavailable(name, f"the {lost} was lost, by a test")
            return verb(*words, **options)

        return call
