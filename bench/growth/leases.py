"""What renewals and looks cost beside tasks that are held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle

from outlast.store.verbs import Renewal
from tests.store.world import AGENT, QUEUE

from ..stage import until
from . import rows
from .curve import Curve, Point
from .place import CALLS, WARM, Place, grown, median_ms, process


def held(place: Place, sizes: Sequence[int]) -> Curve:
    def measure(low: int, high: int) -> Point:
        rows.held(place.sql, low, high)
        rows.settle(place.sql)
        return _renewed(place, high)

    said = f"A renewal of all leases of a worker, {rows.PER_WORKER} at most; median of {CALLS}."
    return grown(place, "tasks held", said, sizes, measure)


def _renewed(place: Place, size: int) -> Point:
    leases: dict[str, list[Renewal]] = {}
    for name, task_id in place.sql.execute(b"select worker, task_id from outlast.leases"):
        leases.setdefault(name, []).append(Renewal(task_id, "f" * 64))
    turns = cycle(leases.items())
    with place.store() as store:
        for number in range(len(leases)):
            store.enlist(process(str(number)))
        # Each worker some times beforehand, until the rows have room on their pages.
        for _ in range(max(WARM, 3 * len(leases))):
            store.renew(*next(turns))
    # By now no page's first change after the checkpoint is left, which would log all of the page.
    before, wal_before = _hot(place), place.ask(rows.WAL)
    with place.store() as store:
        renew_ms = median_ms(lambda: store.renew(*next(turns)))
        wal = (place.ask(rows.WAL) - wal_before) / (WARM + CALLS)
        look_ms = median_ms(lambda: store.look([QUEUE], [AGENT]))
    updates, hot = (now - then for now, then in zip(_hot(place), before, strict=True))
    each = len(leases["worker-0"])
    said = {"grant": "f" * 64, "progress_ms_ago": 0, "doing": None}
    renewals = json.dumps({renewal.task_id: said for renewal in leases["worker-0"]})
    figures = {"renew_ms": renew_ms,
               "renew_us_a_lease": round(renew_ms * 1_000 / each, 1),
               "wal_bytes_a_renewal": round(wal), "wal_bytes_a_lease": round(wal / each),
               "hot_percent": round(100 * hot / updates, 1), "look_ms": look_ms}  # fmt: skip
    renewal = place.explained("renew", renewals=renewals)
    plans = {
        "renew_ms": renewal,
        "renew_us_a_lease": renewal,
        "wal_bytes_a_renewal": renewal,
        "look_ms": place.explained("look"),
    }
    return Point(size, figures, plans)


def _hot(place: Place) -> tuple[int, int]:
    """Updates of leases, and how many stayed in place; a session has told them once it is gone."""
    until("the store's session ends", lambda: place.ask(rows.SESSIONS) == 0)
    [(updates, hot)] = place.sql.execute(rows.HOT.encode()).fetchall()
    return updates, hot
