"""The verdict on the demo: pure functions from what was seen to what holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import chain
from ..core.errors import BrokenChain
from ..core.lifecycle import body_of
from ..core.model import Event, Task

ACTS = frozenset({"step.done", "effect.intended", "effect.applied", "checkpoint"})


@dataclass(frozen=True)
class Worker:
    """A worker of the demo: what was done to it, and how it ended (minus the signal, if by one)."""

    letter: str
    pid: int
    harm: str
    exit_code: int | None


@dataclass(frozen=True)
class Seen:
    """All that is judged: the mailbox's record, log, row, workers, the doctor's word."""

    names: Sequence[str]
    letters: Sequence[str]
    events: Sequence[Event]
    task: Task
    workers: Sequence[Worker]
    refused: int
    doctor: Sequence[str]
    ttl_ms: int


@dataclass(frozen=True)
class Check:
    """One thing that had to hold, and what was seen."""

    what: str
    holds: bool
    seen: str


def judge(seen: Seen) -> list[Check]:
    """Every check; the demo passes if all hold."""
    return [
        _sent_once(seen),
        _ended(seen),
        _epochs(seen),
        _not_early(seen),
        _replayed(seen),
        _drained(seen),
        _fenced(seen),
        _verified(seen),
    ]


def _sent_once(seen: Seen) -> Check:
    counts = Counter(seen.letters)
    said = ", ".join(f"{name} {counts[name]}" for name in sorted({*seen.names, *counts}))
    holds = counts == Counter(seen.names)
    return Check("each e-mail reached the mailbox exactly once", holds, said)


def _ended(seen: Seen) -> Check:
    spent = f"{seen.task.failures} retries spent"
    holds = seen.task.state == "succeeded" and seen.task.failures == 0
    return Check("the task succeeded, and no retry was spent", holds, f"{seen.task.state}, {spent}")


def _epochs(seen: Seen) -> Check:
    epochs = [body_of(event)["epoch"] for event in _grants(seen)]
    holds = epochs == list(range(1, len(seen.workers) + 1))
    return Check("one owner after another, epochs rising by one", holds, f"epochs {epochs}")


def _not_early(seen: Seen) -> Check:
    """Who died without a word keeps its lease to the end: only the clock may take it."""
    expired = [event for event in seen.events if event.kind == "lease.expired"]
    early = [event for event in expired if event.at_ms < body_of(event)["expires_ms"]]
    late_ms = [event.at_ms - body_of(event)["expires_ms"] for event in expired]
    said = ", ".join(f"{ms / 1000:.1f} s after" for ms in late_ms) or "no lease expired"
    return Check("a dead owner's lease was taken only after it had expired",
                 len(expired) == 2 and not early, said)  # fmt: skip


def _replayed(seen: Seen) -> Check:
    """In every epoch after the first, `replay.finished` stands before the first new act."""
    replays = 0
    for grant in _grants(seen)[1:]:
        later = [event for event in seen.events if event.seq > grant.seq]
        first = next((e.kind for e in later if e.kind in ACTS or e.kind == "replay.finished"), "")
        replays += first == "replay.finished"
    wanted = len(seen.workers) - 1
    said = f"{replays} of {wanted} heirs read the log first"
    return Check("every heir replayed the log before it acted", replays == wanted, said)


def _drained(seen: Seen) -> Check:
    """The drained worker let go at a step boundary, left with 0, and the heir went on at once."""
    for event, following in zip(seen.events, seen.events[1:], strict=False):
        if event.kind == "lease.released" and body_of(event)["reason"] == "drain":
            gap_ms = following.at_ms - event.at_ms
            codes = [worker.exit_code for worker in seen.workers if worker.harm == "drained"]
            holds = following.kind == "lease.granted" and gap_ms <= 1_000 and codes == [0]
            said = f"heir after {gap_ms / 1000:.2f} s, exit code {codes[0] if codes else '?'}"
            return Check("the drain handed over at once", holds, said)
    return Check("the drain handed over at once", False, "no release on the log")


def _fenced(seen: Seen) -> Check:
    """The frozen worker woke beside its heir: nothing of its epoch may stand after the heir's."""
    newest, late = 0, 0
    for event in seen.events:
        if event.kind == "lease.granted":
            newest = max(newest, body_of(event)["epoch"])
        elif event.holder not in (0, newest):
            late += 1
    said = f"{late} lines written, {seen.refused} refused and kept as evidence"
    return Check("the thawed zombie wrote nothing", late == 0 and seen.refused > 0, said)


def _verified(seen: Seen) -> Check:
    try:
        count = chain.verify(seen.events, head=(seen.task.head_seq, seen.task.head_digest))
    except BrokenChain as broken:
        return Check("the log verifies, and the rows are its fold", False, str(broken))
    said = "; ".join(seen.doctor) or f"{count} events, no gap"
    return Check("the log verifies, and the rows are its fold", not seen.doctor, said)


def _grants(seen: Seen) -> list[Event]:
    return [event for event in seen.events if event.kind == "lease.granted"]
