"""The races at full length, through a pooler too, and with each part of the fence taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import broken, crew
from tests.support import databases
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes

on_both = pytest.mark.parametrize("database_url", databases.KINDS[:2], indirect=True)
# What the judge must say of a store without this part of its fence.
SEEN = {
    "place": "no line of an old epoch",
    "holder": "no line of an old epoch",
    "conflict": "what was acknowledged is there",
    "resends": "the row is the fold of the log",
}
TRIES = 4


@on_both
@pytest.mark.timeout(120)
def test_sixteen_writers_five_tasks_and_takeovers_at_any_moment(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    url = crew.with_tasks(database_url)
    figures = crew.run_race(crew.FENCE, url, processes, tmp_path, seconds=20)
    print(figures)
    assert not figures.violations, figures.found()
    assert figures.counts["takeovers"] > 20, figures
    assert figures.refused > 100, figures


@on_both
@pytest.mark.timeout(150)
def test_everything_at_random_with_lost_answers(
    database_url: str, processes: Processes, tmp_path: Path
) -> None:
    url = crew.migrated(database_url)
    figures = crew.run_race(crew.MIXED, url, processes, tmp_path, seconds=30)
    print(figures)
    assert not figures.violations, figures.found()
    assert figures.refused, figures
    assert figures.counts["sent much later"], figures


@pytest.mark.postgres
@pytest.mark.timeout(120)
def test_everything_at_random_through_a_pooler(
    postgres_server: PostgresServer,
    postgres_url: str,
    pgbouncer: Callable[..., PgBouncer],
    processes: Processes,
    tmp_path: Path,
) -> None:
    """Case R56."""
    crew.migrated(postgres_url)
    pooled = pgbouncer(postgres_server).url(postgres_url) + "?pooler=1"
    figures = crew.run_race(
        crew.MIXED, pooled, processes, tmp_path, seconds=10, judged=postgres_url
    )
    print(figures)
    assert not figures.violations, figures.found()
    assert figures.refused, figures


@on_both
@pytest.mark.parametrize("part", broken.NAMES)
@pytest.mark.timeout(120)
def test_the_judge_sees_what_was_taken_out_of_the_fence(
    part: str, database_url: str, processes: Processes, tmp_path: Path
) -> None:
    program = crew.MIXED if part == broken.RESENDS else crew.FENCE
    url = crew.with_tasks(database_url)
    found = []
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        figures = crew.run_race(program, url, processes, folder, seconds=2, broken=part)
        found.append(figures.found())
        if figures.verdict.violations[SEEN[part]]:
            print(figures)
            return
    pytest.fail(f"taken out and not seen in {TRIES} runs: {found}")
