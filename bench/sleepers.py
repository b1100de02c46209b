"""A thousand sleeping tasks: that they hold no worker, and what is left to do for one."""

from __future__ import annotations

import time
from typing import Any

from outlast.store.verbs import Query

from .stage import client_and_store, until, worker


def run(url: str, tasks: int = 1_000) -> dict[str, Any]:
    """How long until all sleep, how many leases they then hold, and how soon another task runs."""
    with client_and_store(url) as (client, store):
        began = time.monotonic()
        client.submit_many([("sleeper", {}) for _ in range(tasks)])
        with worker(url, "--slots", "20", "--poll", "50ms"):
            until("all sleep", lambda: store.counts().tasks["default"].get("waiting", 0) == tasks)
            asleep_s = time.monotonic() - began
            held = len([h for h in store.find(Query(states=["running"], limit=tasks)) if h.lease])
            began = time.monotonic()
            task = client.submit("chain", {"steps": 1})
            until("another task runs meanwhile", lambda: store.get(task.id).ended)
            return {
                "sleeping": tasks,
                "all_asleep_s": round(asleep_s, 2),
                "leases_held": held,
                "another_task_s": round(time.monotonic() - began, 3),
            }
