"""What looks and claims cost beside tasks that are ready, planned, or have come in a rush."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from outlast.store.verbs import Store
from tests.store.world import AGENT, QUEUE, Owner, Said

from . import rows
from .curve import Curve, Point
from .place import CALLS, HOUR_MS, WARM, Place, claim, grown, median_ms, ms, write

RELEASED: Said = ("lease.released", {"reason": "drain", "progressed": False})


def backlog(place: Place, sizes: Sequence[int]) -> Curve:
    said = f"Median of {CALLS} calls; what was claimed is released, so that the backlog stays."
    return _queue(place, sizes, rows.FIRST_DUE_MS, "ready tasks", said)


def planned(place: Place, sizes: Sequence[int]) -> Curve:
    due_ms = int(time.time() * 1_000) + 24 * HOUR_MS
    said = f"Median of {CALLS} calls; all tasks are due tomorrow, so that none is given."
    return _queue(place, sizes, due_ms, "planned tasks", said)


def burst(place: Place, sizes: Sequence[int]) -> Curve:
    """What a rush of tasks costs while the statistics do not know of it: for a minute or more."""
    rows.held(place.sql, 2_000_000, 2_001_000)
    rows.settle(place.sql)
    place.sql.execute(rows.UNWATCHED.encode())
    said = f"Median of {CALLS} calls; analysed before they came, when 1,000 ran and none was ready."
    return _queue(place, sizes, rows.FIRST_DUE_MS, "ready tasks", said, known=False)


def _queue(
    place: Place, sizes: Sequence[int], due_ms: int, by: str, said: str, *, known: bool = True
) -> Curve:
    with place.store() as store:

        def measure(low: int, high: int) -> Point:
            rows.ready(place.sql, low, high, due_ms=due_ms)
            if known:
                rows.settle(place.sql)
            return _looked_at(place, store, high)

        curve = grown(place, by, said, sizes, measure)
    if not known:
        return curve
    rows.forget(place.sql)
    with place.store() as store:
        last = _looked_at(place, store, f"{curve.points[-1].at:,}, never analysed")
    return replace(curve, points=[*curve.points, last])


def _looked_at(place: Place, store: Store, at: int | str) -> Point:
    figures = {"look_ms": median_ms(lambda: store.look([QUEUE], [AGENT]))}
    plans = {"look_ms": place.explained("look")}
    for room in (1, 10):
        name = f"claim_{room}_ms"
        figures[name] = _claims_ms(store, room)
        plans[name] = place.explained("pick_ready", room=room)
    return Point(at, figures, plans)


def _claims_ms(store: Store, room: int) -> float:
    """Each is let go again, unmeasured."""
    took = []
    for _ in range(WARM + CALLS):
        asked = claim("old", room)
        began = time.perf_counter()
        grants = store.claim(asked)
        took.append(time.perf_counter() - began)
        write(store, [Owner(store, grant) for grant in grants], RELEASED)
    return ms(took[WARM:])
