"""What many workers end together, and what they ask while there is nothing to do."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from outlast.core import limits
from outlast.core.clock import Env
from outlast.core.errors import OutlastError
from outlast.store.verbs import Store
from outlast.worker.holding import Holdings
from outlast.worker.lookout import Lookout
from outlast.worker.store_clock import StoreClock
from tests.store.world import AGENT, LIMITS, QUEUE, Owner

from . import rows
from .curve import Curve, Point
from .place import DONE, Place, claim, grown, process, write

SECONDS = 3.0
COUNTED = ("tasks", "claims", "empty", "failed")
Act = Callable[[Counter[str]], None]


def workers(place: Place, sizes: Sequence[int]) -> Curve:
    def measure(low: int, size: int) -> Point:
        idle = _at_once(place, size, _lookout)
        # More than they can end; numbered on from what those before them were given.
        rows.ready(place.sql, low * 1_000_000, low * 1_000_000 + 20_000)
        rows.settle(place.sql)
        busy = _at_once(place, size, _ender)
        place.sql.execute(b"delete from outlast.tasks where state = 'ready'")
        figures = {f"{name}_a_second": round(busy[name] / SECONDS, 1) for name in COUNTED}
        figures["statements_a_task"] = round(busy["statements"] / max(1, busy["tasks"]), 1)
        figures["idle_statements_a_second"] = round(idle["statements"] / SECONDS, 1)
        return Point(size, figures)

    said = (
        f"Threads of one Python process with a connection each, for {SECONDS:g} s: look-outs that "
        "find nothing; then claims of 10 tasks that are ended at once."
    )
    return grown(place, "workers", said, sizes, measure)


def _ender(store: Store, name: str) -> Act:
    """Claims, and ends what it is given."""

    def act(seen: Counter[str]) -> None:
        seen["claims"] += 1
        try:
            grants = store.claim(claim(name, 10))
            write(store, [Owner(store, grant) for grant in grants], DONE)
        except OutlastError:
            seen["failed"] += 1
        else:
            seen["tasks"] += len(grants)
            seen["empty"] += not grants

    return act


def _lookout(store: Store, name: str) -> Act:
    """A real look-out, that waits for its poll."""
    env = Env(random=random.Random(name))
    lookout = Lookout(
        process(name), {AGENT: LIMITS}, [QUEUE], Holdings(), lambda: store, env,
        StoreClock(env.clock), poll_ms=limits.POLL_MS, may_claim=lambda: True,
        hold=_nothing, start=_nothing, tell=_nothing,
    )  # fmt: skip
    return lambda _: time.sleep(lookout.tick() / 1_000)


def _nothing(*_: object) -> Any:
    raise AssertionError("nothing was to be had")


def _at_once(place: Place, size: int, make: Callable[[Store, str], Act]) -> Counter[str]:
    """What so many threads count in SECONDS, after each has acted once; and their statements."""
    together, ended = threading.Barrier(size + 1, timeout=60), threading.Event()
    counts = [Counter(dict.fromkeys(COUNTED, 0)) for _ in range(size)]

    def run(number: int) -> None:
        name = f"{make.__name__}-{size}-{number}"
        with place.store(name) as store:
            act = make(store, name)
            act(counts[number])
            together.wait()
            while not ended.is_set():
                act(counts[number])

    def seen() -> Counter[str]:
        return sum(counts, Counter(statements=place.ask(rows.STATEMENTS)))

    threads = [threading.Thread(target=run, args=[number]) for number in range(size)]
    for each in threads:
        each.start()
    together.wait()
    before = seen()
    time.sleep(SECONDS)
    after = seen()
    ended.set()
    for each in threads:
        each.join()
    return after - before
