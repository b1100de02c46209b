"""The idea in one screen: each event carries a digest of itself and of the one before.

To write event n+1 you must quote event n, be its holder, and find place n+1 free.
The chain detects editing; it does not prevent it, and it cannot see a cut-off tail: tasks and
exports carry the head for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from .errors import BrokenChain
from .model import Entry, Event, Task

ZEROS = "0" * 64


def digest(
    before: str, task_id: str, seq: int, holder: int, kind: str, body: str, at_ms: int
) -> str:
    """SHA-256 as 64 hex characters, over each field as 8-byte big-endian length + UTF-8."""
    parts = []
    for field in (before, task_id, str(seq), str(holder), kind, body, str(at_ms)):
        encoded = field.encode()
        parts += [len(encoded).to_bytes(8, "big"), encoded]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class Quote(msgspec.Struct, frozen=True):
    """What a writer must say of the last event to write the next one."""

    task_id: str
    seq: int
    digest: str
    at_ms: int

    @classmethod
    def of(cls, event: Event) -> Quote:
        return cls(event.task_id, event.seq, event.digest, event.at_ms)

    @classmethod
    def of_head(cls, task: Task) -> Quote:
        """The last event of a task that has no owner, from its row."""
        return cls(task.id, task.head_seq, task.head_digest, task.head_ms)

    @classmethod
    def start(cls, task_id: str) -> Quote:
        """What stands before event 1."""
        return cls(task_id, 0, ZEROS, 0)


def entry(quote: Quote, epoch: int, *, holder: int, kind: str, body: str, at_ms: int) -> Entry:
    """The next event after `quote`, offered by `epoch`; time never goes back along a log."""
    at_ms = max(at_ms, quote.at_ms)
    seq = quote.seq + 1
    stamp = digest(quote.digest, quote.task_id, seq, holder, kind, body, at_ms)
    event = Event(quote.task_id, seq, holder, kind, body, at_ms, stamp)
    return Entry(event, quote.digest, epoch)


def follow(before: str, event: Event) -> str:
    """The digest of an event that stands after the one with digest `before`. Raises BrokenChain."""
    wanted = digest(
        before, event.task_id, event.seq, event.holder, event.kind, event.body, event.at_ms
    )
    if wanted != event.digest:
        raise BrokenChain(event.task_id, event.seq, "its digest is not that of its content")
    return wanted


def verify(events: Iterable[Event], *, head: tuple[int, str] | None = None) -> int:
    """Recompute every digest of one task's log from event 1; return how many events there are.

    `head`: (seq, digest) of an event that must be among them, so that a cut-off or rewritten tail
    shows. Raises BrokenChain, naming the first event that does not follow.
    """
    before, count, seen_head = ZEROS, 0, head is None
    for event in events:
        count += 1
        if event.seq != count:
            raise BrokenChain(event.task_id, event.seq, f"event {count} was expected here")
        follow(before, event)
        if head == (event.seq, event.digest):
            seen_head = True
        before = event.digest
    if not seen_head and head is not None:
        raise BrokenChain("(head)", head[0], "the head that was recorded is not on this log")
    return count
