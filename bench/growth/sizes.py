"""What is kept of a finished task and of a step, by table and index."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.store.world import Owner, new_task

from . import rows
from .curve import Curve, Point
from .place import DONE, STEP, Place, claim, write


def kept(place: Place, wanted: Sequence[int]) -> Curve:
    """`wanted`: how many tasks without steps, and how many with a hundred."""
    empty = rows.sizes(place.sql)
    short = _finished(place, wanted[0], 0)
    between_both = rows.sizes(place.sql)
    long = _finished(place, wanted[1], 100)
    full = rows.sizes(place.sql)
    place.sql.execute(b"vacuum")
    vacuumed = rows.sizes(place.sql)
    points = []
    for name in [*full, "all"]:
        first, second, third, last = (
            _size(at, name) for at in (empty, between_both, full, vacuumed)
        )
        a_task = (second - first) / short
        a_step = (third - second - a_task * long) / (long * 100)
        figures = {"bytes_a_task": round(a_task), "bytes_a_step": round(a_step, 1),
                   "kib": third // 1_024, "kib_after_vacuum": last // 1_024}  # fmt: skip
        if third > max(first, 1 << 16):
            points.append(Point(name, figures))
    said = (
        f"By verbs, 50 tasks at a time: {short:,} without a step, then {long:,} with a hundred "
        "steps of 100 bytes each; autovacuum as it came."
    )
    return Curve("table or index", said, points, grows=False)


def _size(sizes: dict[str, int], name: str) -> int:
    return sum(sizes.values()) if name == "all" else sizes[name]


def _finished(place: Place, tasks: int, steps: int) -> int:
    """Submit, claim, write and end tasks while there is time; how many."""
    done = 0
    with place.store() as store:
        while done < tasks and (not done or time.monotonic() < place.end):
            store.submit([new_task(store) for _ in range(50)])
            owners = [Owner(store, grant) for grant in store.claim(claim("old", 50))]
            for said in [*[STEP] * steps, DONE]:
                write(store, owners, said)
            done += len(owners)
    return done
