"""Durable steps a second: one task alone, and fifty at once; from the log's own times."""

from __future__ import annotations

from typing import Any

from .stage import client_and_store, until, worker


def run(url: str, *, tasks: int, steps: int) -> dict[str, Any]:
    with client_and_store(url) as (client, store):
        handles = client.submit_many([("chain", {"steps": steps}) for _ in range(tasks)])
        with worker(url, "--slots", str(tasks), "--poll", "50ms"):
            until("all tasks end", lambda: all(store.get(h.id).ended for h in handles))
        rows = [store.get(handle.id) for handle in handles]
    began = min(row.started_ms or 0 for row in rows)
    took_s = (max(row.finished_ms or 0 for row in rows) - began) / 1_000
    return {"tasks": tasks, "steps": steps, "steps_a_second": round(tasks * steps / took_s)}
