"""What all pages share of a store: the deploy sentence, the counts, who holds what, a checkup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.model import Worker
from ...store.verbs import Counts, Finding, Held, Store
from ...view import gate
from ...view.fleet import judge, running
from ..remembered import Remembered

LOOK_S = 1.0
# A checkup folds logs and takes locks: not for each who reloads a page.
CHECKUP_S = 30.0
CHECKUP_TASKS = 100


class Fleet:
    """Asked of the store once for all who look."""

    def __init__(self) -> None:
        self.judged: Remembered[tuple[gate.Gate, int]] = Remembered(
            lambda store: judge(store, None), LOOK_S
        )
        self.counts: Remembered[Counts] = Remembered(lambda store: store.counts(), LOOK_S)
        self.held: Remembered[Mapping[str, Sequence[Held]]] = Remembered(_by_worker, LOOK_S)
        self.workers: Remembered[Sequence[Worker]] = Remembered(
            lambda store: store.workers(), LOOK_S
        )
        self.checkup: Remembered[Sequence[Finding]] = Remembered(
            lambda store: list(store.checkup(tasks=CHECKUP_TASKS)), CHECKUP_S
        )

    def forget(self) -> None:
        """Something was just ordered here: whoever ordered it wants to see it."""
        for each in (self.judged, self.counts, self.held, self.workers):
            each.forget()


def _by_worker(store: Store) -> dict[str, list[Held]]:
    found: dict[str, list[Held]] = {}
    for held in running(store):
        if held.lease is not None:
            found.setdefault(held.lease.worker, []).append(held)
    return found
