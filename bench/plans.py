"""What each page asks of PostgreSQL, and by which plans it was answered.

python -m bench.plans [--tasks 10000] [--running 1000] [--show]

The pages are asked of a real `outlast serve` whose sessions load auto_explain: every plan stands in
the database's log, with what it really read.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from . import pages
from .stage import postgres, prepare

PGOPTIONS = (
    "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 "
    "-c auto_explain.log_analyze=on -c auto_explain.log_buffers=on "
    "-c auto_explain.log_timing=off -c auto_explain.log_format=json"
)
PLAN = re.compile(r"duration: [\d.]+ ms  plan:\n((?:\t.*\n)+)")
LOOKS = 5
VIEWERS = 50


def run(tasks: int, running: int, show: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with postgres() as server:
        url = server.url()
        prepare(url)
        pages.fill(url, tasks, running)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("vacuum analyze")
        with pages.served(url, PGOPTIONS=PGOPTIONS) as address:
            pages.looked_at(address, "/", 1)
            for name, path in pages.paths(address).items():
                found[name] = _asked_for(address, path, server.log_path, show)
            found[f"{VIEWERS} viewers"] = _watched(address, server.log_path)
    return found


def _asked_for(address: str, path: str, log: Path, show: bool) -> dict[str, Any]:
    """Of one look: statements, blocks, and what was read without an index."""
    looks = []
    time.sleep(1.1)  # what all pages share is asked once a second: the first look shall pay for it
    for _ in range(LOOKS):
        before = log.stat().st_size
        pages.looked_at(address, path, 1)
        looks.append(_plans(log, before))
    plans = max(looks, key=len)
    if show:
        for plan in plans:
            print(f"\n== {path}\n{plan['Query Text']}\n{outline(plan['Plan'])}")
    return {
        "statements": len(plans),
        "statements, median look": statistics.median(map(len, looks)),
        "blocks": sum(blocks(plan["Plan"]) for plan in plans),
        "read in full": sorted({told for plan in plans for told in _scans(plan["Plan"])}),
    }


def _plans(log: Path, since: int) -> list[dict[str, Any]]:
    with log.open("rb") as file:
        file.seek(since)
        text = file.read().decode()
    return [json.loads(told) for told in PLAN.findall(text)]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def _scans(plan: dict[str, Any]) -> Iterator[str]:
    for node in nodes(plan):
        if node["Node Type"] == "Seq Scan":
            yield f"{node['Relation Name']}: {read(node)} rows"


def read(node: dict[str, Any]) -> int:
    rows = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return int(rows * node.get("Actual Loops", 1))


def blocks(plan: dict[str, Any]) -> int:
    return int(plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0))


def outline(plan: dict[str, Any], depth: int = 0) -> str:
    what = " ".join(str(plan[k]) for k in ("Node Type", "Index Name", "Relation Name") if k in plan)
    line = f"{'  ' * depth}{what}: {read(plan)} rows read, {blocks(plan)} blocks"
    return "\n".join([line, *(outline(below, depth + 1) for below in plan.get("Plans", ()))])


# -- many who watch --------------------------------------------------------------------------------


@contextmanager
def _streams(address: str, count: int) -> Iterator[None]:
    opened = []
    try:
        for _ in range(count):
            connection = http.client.HTTPConnection(address, timeout=30)
            connection.request("GET", "/live/home", headers={"Accept": "text/event-stream"})
            assert connection.getresponse().status == 200
            opened.append(connection)
        yield
    finally:
        for connection in opened:
            connection.close()


def _watched(address: str, log: Path) -> dict[str, float]:
    """Statements a second for one viewer and for many, of the same page."""
    rates = {}
    for count in (0, 1, VIEWERS):
        with _streams(address, count):
            time.sleep(2)
            before, began = log.stat().st_size, time.monotonic()
            time.sleep(10)
            rate = len(_plans(log, before)) / (time.monotonic() - began)
            rates[f"{count} watch: statements/s"] = round(rate, 1)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=1_000)
    parser.add_argument("--show", action="store_true", help="each plan, too")
    told = parser.parse_args()
    print(json.dumps(run(told.tasks, told.running, told.show), indent=2))


if __name__ == "__main__":
    main()
