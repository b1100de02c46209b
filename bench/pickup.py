"""How long a task waits for a worker that has nothing to do: from the submit to its first line."""

from __future__ import annotations

from .rates import Figures
from .results import percentile
from .subject import Failed, Subject, tasks, wait_for

PAUSE_S = 0.15
LAST_S = 10.0


def pickup(subject: Subject, count: int = 100) -> Figures:
    with subject.worker(1):
        sent = subject.ask("trickle", tasks(count), PAUSE_S)
        if not wait_for(subject, "began", count, LAST_S):
            raise Failed(f"not all of {count} tasks began")
        began = {mark.number: mark.at_ns for mark in subject.marks.of("began")}
    waits_ms = [(began[number] - at_ns) / 1e6 for number, at_ns in enumerate(sent)]
    return {"pick-up, median": percentile(waits_ms, 50), "pick-up, p99": percentile(waits_ms, 99)}
