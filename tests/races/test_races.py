"""Races of real processes, short: no line of an old epoch, nothing acknowledged is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import crew
from tests.support import databases
from tests.support.processes import Processes

SECONDS = 3
on_both = pytest.mark.parametrize("database_url", databases.KINDS[:2], indirect=True)


@on_both
def test_no_zombie_is_let_in_whenever_its_task_is_taken(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    url = crew.with_tasks(database_url)
    figures = crew.run_race(crew.FENCE, url, processes, tmp_path, seconds=SECONDS)
    print(figures)
    assert not figures.violations, figures.found()
    assert figures.counts["takeovers"]
    assert figures.refused, "no zombie has ever tried"


@on_both
def test_answers_may_be_lost_and_everything_may_happen_at_once(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    """Cases R13, R14, R52, R69, R71, R75, R76, R77."""
    url = crew.migrated(database_url)
    figures = crew.run_race(crew.MIXED, url, processes, tmp_path, seconds=SECONDS)
    print(figures)
    assert not figures.violations, figures.found()
    assert figures.counts["sent much later"]


@pytest.mark.parametrize("part", ["place", "resends"])
def test_the_judge_sees_what_was_taken_out_of_the_fence(
    part: str, sqlite_url: str, processes: Processes, tmp_path: Path
) -> None:
    """Each part, on both databases, in `make faults`."""
    print(crew.found_broken(part, sqlite_url, processes, tmp_path))
