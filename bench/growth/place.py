"""Where growth is measured: one database, a store on it, and what all measurements ask of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from outlast.core import limits
from outlast.core.model import Worker, Written
from outlast.store.open import open_store
from outlast.store.verbs import Claim, Store
from tests.store.world import AGENT, LIMITS, QUEUE, Owner, Said, new_token, worker

from . import rows
from .curve import Curve, Point

CALLS, WARM = 30, 12
HOUR_MS = 3_600_000
STEP: Said = ("step.done", {"key": "think", "args": "-", "result": "x" * 100, "try": 1})
DONE: Said = ("task.succeeded", {"result": "done"})
# What the statements of looks, claims and readings are asked.
ASKED = {"queue": QUEUE, "queues": f'{{"{QUEUE}":1}}', "agents": f'{{"{AGENT}":1}}', "held": 0,
         "except_ids": "{}", "suspect": limits.SUSPECT_RESUMES, "limit": limits.CLAIM_BATCH,
         "kind": "checkpoint"}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A database; `sql`: a connection for what no verb does. `end`: when to begin no more."""

    url: str
    sql: rows.Connection
    end: float

    @contextmanager
    def store(self, name: str = "old") -> Iterator[Store]:
        """A store, and a worker that it knows."""
        with closing(open_store(self.url, ttl_ms=HOUR_MS)) as store:
            store.enlist(process(name))
            yield store

    def ask(self, statement: str) -> Any:
        [[answer]] = self.sql.execute(statement.encode()).fetchall()
        return answer

    def explained(self, name: str, **values: Any) -> dict[str, Any]:
        return rows.explained(self.sql, name, {**ASKED, **values})


def grown(
    place: Place, by: str, said: str, sizes: Sequence[int], measure: Callable[[int, int], Point]
) -> Curve:
    """`measure` from the size before to the next, while there is time."""
    points: list[Point] = []
    for low, high in pairwise([0, *sizes]):
        if time.monotonic() > place.end:
            break
        points.append(measure(low, high))
    return Curve(by, said, points, sizes[len(points) :])


def process(name: str) -> Worker:
    return worker(name, slots=rows.PER_WORKER, ttl_ms=HOUR_MS)


def claim(name: str, room: int) -> Claim:
    return Claim(
        worker=process(name), queues=[QUEUE], agents={AGENT: LIMITS}, room=room, ttl_ms=HOUR_MS,
        token=new_token(), held=0,
    )  # fmt: skip


def write(store: Store, owners: Sequence[Owner], said: Said) -> None:
    """An event more on each log. Raises RuntimeError where one was not written."""
    offers = [owner.offer(said, at_ms=0) for owner in owners]
    for owner, offer, answer in zip(owners, offers, store.append(offers), strict=True):
        if not isinstance(answer, Written):
            raise RuntimeError(f"{said[0]} was answered with {answer}")
        owner.heard(offer, answer)


def median_ms(act: Callable[[], object], *, warm: int = WARM, calls: int = CALLS) -> float:
    took = []
    for _ in range(warm + calls):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return ms(took[warm:])


def ms(took: Sequence[float]) -> float:
    return round(statistics.median(took) * 1_000, 3)
