"""One task's log: chained events, and the fold that says what they mean.

A log is a number. Every log that the search has ever met stands once in a table, as the log
before it and its last event, together with its fold: a state of the search carries a number
instead of a list, and what a log means is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

# Promises that a log alone can break, in the order in which they are looked at.
FENCED = "only the owner writes: no event of an old attempt after a release, an end or a grant"
UNBROKEN = "the log has no gap and no fork"
FINAL = "a final state is final"
SHOWN = "every intent without outcome is shown unknown before a final event"
CONSUMED_ONCE = "a signal is consumed once"
REPLAYED_FIRST = "replay comes before the first new act"

FINAL_KINDS = {
    "task.succeeded": "succeeded",
    "task.failed": "failed",
    "task.cancelled": "cancelled",
}
FINALS = frozenset(FINAL_KINDS.values())
NOBODYS = frozenset(
    ["task.submitted", "lease.granted", "lease.expired", "lease.revoked", "effect.settled"]
)


class Event(NamedTuple):
    seq: int
    holder: int  # the epoch that may write the next one; 0 is nobody
    kind: str
    about: tuple[object, ...]
    at: int
    quotes: int  # the digest of the event before, as the writer knew it
    digest: int
    by: str  # who really wrote it. Only the promises look at this, never the protocol


class Key(NamedTuple):
    state: str  # intended, applied, unknown, again, reused
    grant: int
    orders: int  # how often a person has ordered a new try


class Fold(NamedTuple):
    last: Event
    state: str = "ready"
    epoch: int = 0
    grant: int = 0
    owner: str = ""  # whose call the standing grant answered
    failures: int = 0
    handoffs: int = 0
    barren: int = 0  # expiries since the last result
    results: int = 0
    waited: bool = False
    replayed: bool = True
    keys: tuple[tuple[str, Key], ...] = ()
    consumed: tuple[int, ...] = ()
    broken: str | None = None

    def key(self, name: str) -> Key | None:
        return next((key for own, key in self.keys if own == name), None)

    def open_intents(self) -> tuple[str, ...]:
        return tuple(name for name, key in self.keys if key.state == "intended")


_digests: dict[tuple[object, ...], int] = {}
_numbers: dict[tuple[int, Event], int] = {}
_logs: list[tuple[Event, ...]] = []
_folds: list[Fold] = []
_uptos: dict[tuple[int, int], int | None] = {}


def digest(
    quotes: int, seq: int, holder: int, kind: str, about: tuple[object, ...], at: int
) -> int:
    """A perfect hash: two digests are equal only if everything before them is."""
    return _digests.setdefault((quotes, seq, holder, kind, about, at), len(_digests) + 1)


class Act(NamedTuple):
    """An event that is still to be given its place."""

    kind: str
    holder: int
    about: tuple[object, ...] = ()


def entries(quoted: Event, acts: Sequence[Act], by: str, at: int = 0) -> tuple[Event, ...]:
    """Freeze some acts behind the quoted event: from here on they are the same bytes for ever."""
    frozen: list[Event] = []
    for kind, holder, about in acts:
        quotes, seq = quoted.digest, quoted.seq + 1
        mark = digest(quotes, seq, holder, kind, about, at)
        quoted = Event(seq, holder, kind, about, at, quotes, mark, by)
        frozen.append(quoted)
    return tuple(frozen)


def new_log(task: int) -> int:
    submitted = entries(
        Event(0, 0, "", (), 0, 0, 0, ""), [Act("task.submitted", 0, (task,))], by="client"
    )[0]
    return _number(-1, submitted, (submitted,), lambda: Fold(submitted))


def longer(log: int, event: Event) -> int:
    return _number(log, event, (*_logs[log], event), lambda: _fold(_folds[log], event))


def _number(log: int, event: Event, whole: tuple[Event, ...], meaning: Callable[[], Fold]) -> int:
    number = _numbers.get((log, event))
    if number is None:
        number = len(_logs)
        _numbers[log, event] = number
        _logs.append(whole)
        _folds.append(meaning())
    return number


def events(log: int) -> tuple[Event, ...]:
    return _logs[log]


def fold(log: int) -> Fold:
    return _folds[log]


def upto(log: int, mark: int) -> int | None:
    """The log that ends with the event of this digest, if it stands in ``log``."""
    key = (log, mark)
    if key not in _uptos:
        _uptos[key] = _search_upto(_logs[log], mark)
    return _uptos[key]


def _search_upto(whole: tuple[Event, ...], mark: int) -> int | None:
    if all(event.digest != mark for event in whole):
        return None
    shorter = _number(-1, whole[0], whole[:1], lambda: Fold(whole[0]))
    for event in whole[1:]:
        if _ends_with(shorter, mark):
            break
        shorter = longer(shorter, event)
    return shorter


def _ends_with(log: int, mark: int) -> bool:
    return _logs[log][-1].digest == mark


def _fold(before: Fold, event: Event) -> Fold:
    after = _meaning(before, event)._replace(last=event)
    if after.broken is None:
        after = after._replace(broken=_broken_by(before, event))
    return after


def _broken_by(before: Fold, event: Event) -> str | None:
    if (
        event.kind not in NOBODYS
        and event.by.startswith("worker")
        and (before.state != "running" or event.by != before.owner)
    ):
        return FENCED
    if event.seq != before.last.seq + 1 or event.quotes != before.last.digest:
        return UNBROKEN
    if before.state in FINALS:
        return FINAL
    if event.kind in FINAL_KINDS and before.open_intents():
        return SHOWN
    if event.kind == "wait.ended" and set(event.about) & set(before.consumed):
        return CONSUMED_ONCE
    if event.kind in _NEW_ACTS and not before.replayed:
        return REPLAYED_FIRST
    return None


_NEW_ACTS = frozenset(["step.done", "effect.intended", "wait.started"])


def _meaning(before: Fold, event: Event) -> Fold:
    kind, about = event.kind, event.about
    if kind == "lease.granted":
        epoch = before.epoch + 1
        return before._replace(
            state="running", epoch=epoch, grant=event.digest, owner=event.by, replayed=epoch == 1
        )
    if kind.startswith("effect."):
        return _effect(before, kind, str(about[0]), about)
    if kind == "replay.finished":
        return before._replace(replayed=True)
    if kind == "step.done":
        return before._replace(results=before.results + 1, barren=0)
    if kind == "wait.started":
        return before._replace(state="waiting", waited=True)
    if kind == "wait.ended":
        return before._replace(
            results=before.results + 1,
            barren=0,
            waited=False,
            consumed=(*before.consumed, *(n for n in about if isinstance(n, int))),
        )
    if kind in FINAL_KINDS:
        return before._replace(state=FINAL_KINDS[kind])
    return _let_go(before, kind, about)


def _let_go(before: Fold, kind: str, about: tuple[object, ...]) -> Fold:
    if kind == "lease.released":
        state = "review" if about == ("review",) else "ready"
        return before._replace(state=state, handoffs=before.handoffs + (about == ("drain",)))
    if kind == "attempt.failed":
        return before._replace(state="ready", failures=before.failures + 1)
    if kind == "lease.expired":
        return before._replace(state="ready", barren=before.barren + 1)
    if kind == "lease.revoked":
        return before._replace(state="ready")
    return before


def _effect(before: Fold, kind: str, name: str, about: tuple[object, ...]) -> Fold:
    old = before.key(name) or Key("", 0, 0)
    if kind == "effect.settled":
        verdict = str(about[1])
        new = Key(verdict, old.grant, old.orders + (verdict == "again"))
        return _with_key(before, name, new)._replace(state="ready")
    new = Key(kind.removeprefix("effect."), before.grant, old.orders)
    after = _with_key(before, name, new)
    if kind in ("effect.applied", "effect.reused"):
        return after._replace(results=before.results + 1, barren=0)
    return after


def _with_key(before: Fold, name: str, key: Key) -> Fold:
    others = [pair for pair in before.keys if pair[0] != name]
    return before._replace(keys=tuple(sorted([*others, (name, key)])))
