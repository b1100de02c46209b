"""A worker dies at some of its commits; at every one of them in `make faults`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

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


def test_a_life_in_which_money_moves_twice_is_found_out(
    sqlite_url: str, processes: Processes, tmp_path: Path
) -> None:
    """Without idempotency keys nothing can help: the test must say so."""
    url = crew.migrated(sqlite_url)
    with (
        closing(Country(url, processes, tmp_path, careless=True)) as country,
        pytest.raises(AssertionError, match="10, 10"),
    ):
        country.live("before", Point("effect.applied", 1))
