"""What the logs of watched tasks amount to, kept until they say more.

A log is a chain: where its last digest is the one that is known, so is all before it, and nothing
need be read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from ...core import limits
from ...core.model import Event
from ...store.verbs import Store
from ...view.shapes import Shape
from ...view.task import history as told

KEPT = 64
EVENTS_MAX = 20_000
STEPS_SHOWN = 50
VALUE_CHARACTERS = 600


class Span(msgspec.Struct, frozen=True):
    """The time of an epoch; `until_ms`: None while it lasts."""

    epoch: Shape
    from_ms: int
    until_ms: int | None


class History(msgspec.Struct, frozen=True):
    """`left_out`: events at the beginning of a very long log that were not read.

    `steps`: the last ones, of `steps_count`. `acknowledged`, `cancelled`: the events of that kind
    since the task was last opened again.
    """

    last_seq: int
    digest: str
    left_out: int
    spans: Sequence[Span]
    steps: Sequence[Shape]
    steps_count: int
    acknowledged: Event | None
    cancelled: Event | None


class Logs:
    """Histories by task; the ones that were not asked for in a while are forgotten."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, History] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, store: Store, task_id: str) -> History:
        last = store.last(task_id, "")
        with self._lock:
            known = self._kept.get(task_id)
        if known is None or last is None or known.digest != last.digest:
            known = _read(store, task_id, last.seq if last else 0)
        with self._lock:
            self._kept[task_id] = known
            self._kept.move_to_end(task_id)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return known


def _read(store: Store, task_id: str, last_seq: int) -> History:
    left_out = max(0, last_seq - EVENTS_MAX)
    events: list[Event] = []
    while page := store.read(
        task_id, after=events[-1].seq if events else left_out, limit=limits.READ_BATCH
    ):
        events += page
    steps, epochs = told(events)
    return History(
        last_seq=events[-1].seq if events else 0,
        digest=events[-1].digest if events else "",
        left_out=left_out,
        spans=_spans(events, epochs),
        steps=[_shortened(step) for step in steps[-STEPS_SHOWN:]],
        steps_count=len(steps),
        acknowledged=_newest(events, "cancel.acknowledged"),
        cancelled=_newest(events, "task.cancelled"),
    )


def _spans(events: Sequence[Event], epochs: Sequence[Shape]) -> list[Span]:
    """When each epoch began and ended: the same events that the view has put into words."""
    moments: list[tuple[int, int | None]] = []
    for event in events:
        if event.kind == "lease.granted":
            moments.append((event.at_ms, None))
        elif moments and moments[-1][1] is None and event.holder == 0:
            moments[-1] = (moments[-1][0], event.at_ms)
    return [
        Span(epoch, began_ms, ended_ms)
        for epoch, (began_ms, ended_ms) in zip(epochs, moments, strict=True)
    ]


def _shortened(step: Shape) -> Shape:
    # One more than is shown, so that whoever shows it sees that there is more.
    text = msgspec.json.encode(step["value"]).decode()
    return step | {"value": text[: VALUE_CHARACTERS + 1]}


def _newest(events: Sequence[Event], kind: str) -> Event | None:
    """The newest event of a kind since the task was last opened again."""
    for event in reversed(events):
        if event.kind == kind:
            return event
        if event.kind == "task.reopened":
            return None
    return None
