"""What reading and appending cost on the long log of one task."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

from outlast.core import chain, limits
from outlast.core.lifecycle import text_of
from outlast.core.model import Event
from outlast.store.verbs import Store
from outlast.store.writing import append_call
from tests.store.world import Owner, new_task

from . import rows
from .curve import Curve, Point
from .place import CALLS, STEP, Place, claim, grown, median_ms, write


def log(place: Place, sizes: Sequence[int]) -> Curve:
    with place.store() as store:
        store.submit([new_task(store)])
        [grant] = store.claim(claim("old", 1))
        owner = Owner(store, grant)

        def measure(_: int, size: int) -> Point:
            more, body = max(0, size - owner.quote.seq), text_of(dict(STEP[1]))
            owner.quote = rows.events(place.sql, owner.quote, owner.epoch, more, body)
            rows.settle(place.sql)
            return _read_and_appended(place, owner, size)

        said = f"Steps of 100 bytes; medians of {CALLS} calls and 3 readings; Python's own memory."
        return grown(place, "events", said, sizes, measure)


def _read_and_appended(place: Place, owner: Owner, size: int) -> Point:
    store, task_id, quote = owner.store, owner.task_id, owner.quote

    def read() -> int:
        return chain.verify(_pages(store, task_id))

    read_ms = median_ms(read, warm=0, calls=3)
    tracemalloc.start()
    read()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one = chain.entry(quote, owner.epoch, holder=owner.epoch, kind="note", body="{}", at_ms=0)
    page = place.explained("read_events", task_id=task_id, after=size // 2, limit=limits.READ_BATCH)
    plans = {
        "read_and_verify_ms": page, "read_us_an_event": page,
        "append_ms": place.explained("append", **append_call(one)[1]),
        "last_checkpoint_ms": place.explained("last_event_of_kind", task_id=task_id),
    }  # fmt: skip
    figures = {
        "read_and_verify_ms": read_ms, "read_us_an_event": round(read_ms * 1_000 / quote.seq, 1),
        "peak_kib": round(peak / 1_024),
        "last_checkpoint_ms": median_ms(lambda: store.last(task_id, "checkpoint")),
        "append_ms": median_ms(lambda: write(store, [owner], STEP)),
    }  # fmt: skip
    return Point(size, figures, plans)


def _pages(store: Store, task_id: str) -> Iterator[Event]:
    after = 0
    while page := store.read(task_id, after=after):
        yield from page
        after = page[-1].seq
