"""Classes of providers: what was offered to each, what was seen, and what nobody claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .checks.case import Case

OFFERED = {"retry": "at least once", "ask": "at most once", "probe": "once, by asking first"}


@dataclass(frozen=True)
class ClassOfProvider:
    """Effects of one kind of provider under one policy, over a whole run."""

    provider: str
    queryable: bool
    policy: str
    effects: int
    duplicates: int
    settled: int

    @property
    def exactly_once(self) -> bool:
        """Whether it may be claimed: only where the provider tells a repeat by its key."""
        return self.provider == "keyed"

    @property
    def said(self) -> str:
        asked = "queryable" if self.queryable else "not queryable"
        offered = "exactly once" if self.exactly_once else OFFERED[self.policy]
        claim = "claimed" if self.exactly_once else "not claimed"
        return (
            f"{self.provider}, {asked} ({self.policy}) → offered {offered} · seen {self.effects} "
            f"effects, {self.duplicates} duplicates, {self.settled} unknown and settled by a person"
            f" · exactly once: {claim}"
        )


def classes(cases: Iterable[Case]) -> tuple[ClassOfProvider, ...]:
    """Every class that the programs of these cases have used."""
    counts: dict[tuple[str, bool, str], list[int]] = {}
    for case in cases:
        for task in case.tasks:
            for act in case.acts(task):
                if act["kind"] == "effect":
                    kind = (act["provider"], bool(act["queryable"]), act["policy"])
                    _count(counts.setdefault(kind, [0, 0, 0]), case, task, act["name"])
    return tuple(ClassOfProvider(*kind, *count) for kind, count in sorted(counts.items()))


def _count(counts: list[int], case: Case, task: str, act: str) -> None:
    applied = sum(call.word == "applied" for call in case.calls(task, act))
    counts[0] += applied > 0
    counts[1] += max(0, applied - 1)
    counts[2] += len(case.view.of("settled", task=task, act=act)) > 0
