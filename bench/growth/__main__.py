"""How costs grow on PostgreSQL: with tasks ready, planned or held, long logs, many workers.

python -m bench.growth [--quick] [--only CURVE] [--json FILE]

Verbs are timed by a client on the same machine, each connection warm and its plans settled.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..__main__ import say
from ..stage import postgres, prepare
from . import crew, leases, log, queue, rows, sizes
from .curve import Curve, between, table
from .place import Place

SERVER = {"shared_buffers": "128MB", "max_wal_size": "4GB",
          "shared_preload_libraries": "pg_stat_statements"}  # fmt: skip
DURABLE = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"}
# What a curve is given, in full and in quick form, and the seconds after which it begins no more.
CURVES: dict[str, tuple[Callable[[Place, Sequence[int]], Curve], list[int], list[int], int]] = {
    "backlog": (queue.backlog, [100, 1_000, 10_000, 100_000, 1_000_000], [100, 1_000], 60),
    "planned": (queue.planned, [1_000, 100_000], [1_000], 30),
    "burst": (queue.burst, [100, 10_000, 100_000], [1_000], 30),
    "held": (leases.held, [10, 100, 1_000, 10_000], [10, 100], 60),
    "log": (log.log, [10, 100, 1_000, 10_000, 100_000], [10, 100, 1_000], 60),
    "workers": (crew.workers, [1, 2, 5, 10, 20, 50], [1, 2], 90),
    "kept": (sizes.kept, [20_000, 2_000], [200, 50], 100),
}


def run(quick: bool, only: Sequence[str] = ()) -> dict[str, Any]:
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
        "versions": {"python": platform.python_version(), "outlast": version("outlast")},
        "load_before": os.getloadavg(),
        "curves": {},
    }
    with postgres(SERVER) as server:
        [[found["versions"]["postgres"]]] = server.run("show server_version")
        for name in only or CURVES:
            url = server.create_database(name)
            server.run("create extension pg_stat_statements", database=name)
            prepare(url)
            say(name)
            with rows.beside(url) as sql:
                found["curves"][name] = _measured(name, Place(url, sql, time.monotonic()), quick)
            server.drop_database(url)
    found["load_after"] = os.getloadavg()
    return found


def _measured(name: str, place: Place, quick: bool) -> dict[str, Any]:
    act, full, small, limit_s = CURVES[name]
    durable = {each: place.ask(f"show {each}") for each in DURABLE}
    if durable != DURABLE:
        raise RuntimeError(f"these would be figures of a server that may forget: {durable}")
    curve = act(replace(place, end=place.end + limit_s), small if quick else full)
    told = {**curve.told(), "durable": durable, "seconds": round(time.monotonic() - place.end)}
    if name == "backlog":
        # The aim: with a million tasks waiting a claim takes at most twice as long as with 1,000.
        ratio = between(curve.points, "claim_1_ms", 1_000, 1_000_000)
        told["ratio"] = {"of": "claim_1_ms at 1,000,000 to that at 1,000", "is": ratio, "aim": 2}
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, under a minute")
    parser.add_argument("--only", action="append", choices=CURVES, help="this curve")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    said = parser.parse_args()
    found = run(said.quick, said.only or ())
    text = json.dumps(found, indent=2)
    if said.json:
        said.json.write_text(text + "\n")
    print(text)
    for name, told in found["curves"].items():
        print("\n" + table(name, told))
        if "ratio" in told:
            print("{of}: {is} times (aim: {aim})".format(**told["ratio"]))


if __name__ == "__main__":
    main()
