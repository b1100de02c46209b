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
    print(crew.found_broken(part, database_url, processes, tmp_path))
