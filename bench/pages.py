"""The dashboard with 10,000 tasks of which 1,000 are running: first byte, size, and who watches.

python -m bench.pages [--tasks 10000] [--running 1000]
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from outlast.core.model import Worker
from outlast.store.verbs import AgentLimits, Claim, Store

from .stage import OUTLAST, client_and_store, databases, prepare

LOOKS = 20
PAGES = {
    "home": "/",
    "by state": "/?state=succeeded&state=ready",
    "by label": "/?label=number=77",
    "by text": "/?text=needle",
    "effects": "/effects",
    "workers": "/workers",
    "api": "/api/v1/tasks?limit=50",
}
HOUR_MS = 3_600_000


def run(url: str, tasks: int = 10_000, running: int = 1_000) -> dict[str, dict[str, float]]:
    """Medians of each page: ms to the first byte and to the last, and its size in KiB."""
    fill(url, tasks, running)
    with served(url) as address:
        return {name: looked_at(address, path, LOOKS) for name, path in paths(address).items()}


def fill(url: str, tasks: int, running: int) -> None:
    with client_and_store(url) as (client, store):
        for begin in range(0, tasks, 1_000):
            client.submit_many([("agent", {"n": n}) for n in range(begin, begin + 1_000)])
        client.submit("agent", {"text": "needle"}, labels={"number": "77"})
        _hold(store, running)


def _hold(store: Store, count: int) -> None:
    """Have workers hold so many of them."""
    held = 0
    while held < count:
        row = Worker(
            id=f"worker-{held}", host=f"host-{held}", pid=held, build=f"b{held % 5}",
            queues='["default"]', agents='["agent"]', slots=50, ttl_ms=HOUR_MS, grace_ms=25_000,
            state="active", started_ms=0, beat_ms=0,
        )  # fmt: skip
        given = store.claim(
            Claim(
                worker=store.enlist(row), queues=["default"], agents={"agent": AgentLimits(5, 50)},
                room=50, ttl_ms=HOUR_MS, token=f"token-{held}", held=0,
            )
        )  # fmt: skip
        held += len(given)


@contextmanager
def served(url: str, **environ: str) -> Iterator[str]:
    """HOST:PORT of a real server."""
    environ = {**os.environ, "OUTLAST_DB": url, **environ}
    server = subprocess.Popen(
        [OUTLAST, "serve", "--port", "0"], env=environ, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        yield urlsplit(server.stderr.readline().strip().rpartition(" ")[2]).netloc
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=30)


def paths(address: str) -> dict[str, str]:
    """Each page under its name; the task's is that of the newest one with an owner."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/api/v1/tasks?state=running&limit=1")
    [task] = json.loads(connection.getresponse().read())["items"]
    connection.close()
    return {**PAGES, "task": f"/tasks/{task['id']}"}


def looked_at(address: str, path: str, looks: int) -> dict[str, float]:
    firsts, wholes, size = [], [], 0
    for _ in range(looks):
        connection = http.client.HTTPConnection(address, timeout=60)
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        firsts.append((time.perf_counter() - began) * 1_000)
        size = len(answer.read())
        wholes.append((time.perf_counter() - began) * 1_000)
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered with {answer.status}")
    return {
        "first_byte_ms": round(statistics.median(firsts), 1),
        "whole_ms": round(statistics.median(wholes), 1),
        "size_kib": round(size / 1_024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=1_000)
    told = parser.parse_args()
    found: dict[str, Any] = {}
    with databases() as urls:
        for name, url in urls.items():
            prepare(url)
            found[name] = run(url, told.tasks, told.running)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
