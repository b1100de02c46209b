"""A worker dies at some of its commits; at every one of them in `make faults`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.faults import crew
from tests.faults.deaths import Country, Point
from tests.support.processes import Processes

SOME = [
    ("after", Point("lease.granted", 1)),
    ("after", Point("effect.intended", 1)),
    ("before", Point("effect.applied", 2)),
]


def test_a_worker_may_die_at_its_commits(
    sqlite_url: str, processes: Processes, tmp_path: Path
) -> None:
    with closing(Country(crew.migrated(sqlite_url), processes, tmp_path)) as country:
        for moment, point in SOME:
            assert country.live(moment, point).killed
