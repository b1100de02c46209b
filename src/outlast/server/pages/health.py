"""The health page: what `outlast doctor` finds, the schema, the clock, and what was refused."""

from __future__ import annotations

import time

from ...core.counters import DUPLICATES, ENDS, FENCED, RESUMES
from ...store.verbs import Store
from ...view.shapes import json_value
from ..asked import Asked
from .fleet import CHECKUP_S, CHECKUP_TASKS, Fleet
from .page import Facts, Page

TITLES = {
    FENCED: "Writes refused to owners that had lost their lease",
    RESUMES: "Tasks given to another owner",
    DUPLICATES: "Effects that were asked for twice",
    ENDS: "Tasks that ended",
}


def look(fleet: Fleet, store: Store, asked: Asked) -> Facts:
    """One checkup serves all who look for half a minute."""
    findings = fleet.checkup.of(store)
    counts = fleet.counts.of(store)
    now_ms = store.now_ms()
    return {
        "findings": findings,
        "broken": [finding for finding in findings if finding.state == "broken"],
        "warned": [finding for finding in findings if finding.state == "warn"],
        "folded": CHECKUP_TASKS,
        "believed_s": int(CHECKUP_S),
        "schema": store.version(),
        # The two clocks may differ: leases go by the database's alone.
        "ahead_ms": int(time.time() * 1_000) - now_ms,
        "counters": {
            title: [
                (json_value(each.labels), each.value)
                for each in counts.counters
                if each.name == name and each.value
            ]
            for name, title in TITLES.items()
        },
        "fenced": sum(each.value for each in counts.counters if each.name == FENCED),
        "loop_blocked_ms": counts.loop_blocked_ms,
        "paused": store.paused(),
        "now_ms": now_ms,
    }


HEALTH = Page("health", "/health", look, live=False)
