"""The table of checks: number, promise, function, and what a target must offer to be judged so."""

from __future__ import annotations

from dataclasses import dataclass

from . import effects, orders, ownership, records, replay, tasks
from .case import Check


@dataclass(frozen=True)
class Entry:
    """One check of the table."""

    number: str
    promise: str
    check: Check
    needs: frozenset[str]


def _entry(number: str, promise: str, check: Check, *needs: str) -> Entry:
    return Entry(number, promise, check, frozenset(needs))


TABLE = (
    _entry("C1", "at most one owner at any instant", ownership.one_owner, "log"),
    _entry("C2", "taken over after expiry or release only, then soon", ownership.takeover, "log"),
    _entry("C3", "epochs rise by one", ownership.epochs, "log"),
    _entry("C4", "no write of an old owner is accepted", ownership.fence, "log"),
    _entry("C5", "replay comes before the first new act", replay.replay),
    _entry("C6", "a key is applied once, and stays the same", effects.keys, "keys"),
    _entry("C7", "what is in doubt is settled by its policy", effects.doubts, "review"),
    _entry("C8", "an acknowledged submit is never lost", tasks.not_lost),
    _entry("C9", "final is final", tasks.final, "log"),
    _entry("C10", "a cancel is answered and obeyed", orders.cancel, "cancel"),
    _entry("C11", "a drain hands over, in time, and spends nothing", orders.drain, "drain"),
    _entry("C12", "a task that kills its workers is given up", tasks.given_up, "budget", "log"),
    _entry("C13", "the metrics say what the log says", records.metrics, "metrics", "log"),
    _entry("C14", "the exported record can be verified", records.export, "export"),
    _entry("C15", "nothing is left behind", records.cleaned_up),
)
