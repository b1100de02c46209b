"""What tests of workers share: a harness for an app, and a world that counts what reaches it."""

from __future__ import annotations

from collections import Counter

import pytest

from outlast.testing import outlast_harness

__all__ = ["outlast_harness"]


class World:
    """The outside: how often each act reached it, under which keys."""

    def __init__(self) -> None:
        self.acts: Counter[str] = Counter()
        self.keys: dict[str, list[str]] = {}

    def act(self, what: str, idempotency_key: str) -> str:
        self.acts[what] += 1
        self.keys.setdefault(what, []).append(idempotency_key)
        return f"{what} done"

    def find(self, key: str) -> str | None:
        """What a provider answers that is asked by key."""
        for what, keys in self.keys.items():
            if key in keys:
                return f"{what} done"
        return None


@pytest.fixture
def world() -> World:
    return World()
