"""A worker dies before and after every commit: money moves once, and nothing is lost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.faults import crew
from tests.faults.deaths import Country, points_of
from tests.support import databases
from tests.support.processes import Processes


@pytest.mark.parametrize("database_url", databases.KINDS[:2], indirect=True)
@pytest.mark.timeout(600)
def test_a_worker_may_die_before_and_after_every_commit(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    """Cases R24, R27, R34, R46, R69, R74."""
    with closing(Country(crew.migrated(database_url), processes, tmp_path)) as country:
        commits = country.live().commits
        points = points_of(commits)
        print(f"{len(commits)} commits: {', '.join(f'{kind} {nth}' for kind, nth in commits)}")
        assert len(points) > 15
        missed = [
            (moment, *point)
            for point in points
            for moment in ("before", "after")
            if not country.live(moment, point).killed
        ]
    print(f"{2 * len(points)} lives, {2 * len(points) - len(missed)} ended by a kill")
    # A commit that only beats may not come again in a life that is shorter.
    assert not [each for each in missed if "." in each[1]], missed
