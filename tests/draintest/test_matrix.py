"""The 24 cells: retry or surface × three classes of provider × queryable or not × two moments."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draintest import matrix
from draintest.history import View
from draintest.makers import OutlastMaker
from draintest.target import Limits
from tests.draintest.conftest import Judged

Play = Callable[..., Judged]
CELLS = list(matrix.cells())
# As it was measured with real processes, before / after the call was applied.
MEASURED = {
    ("retry", "keyless", False): (2, 2),
    ("retry", "fenced", False): (1, 2),
    ("retry", "keyed", False): (1, 1),
    ("surface", "keyless", False): (1, 1),
    ("surface", "fenced", False): (1, 1),
    ("surface", "keyed", False): (1, 1),
}


def test_what_is_expected_is_what_was_measured() -> None:
    assert len(CELLS) == 24
    for (policy, provider, queryable), counts in MEASURED.items():
        made = [matrix.Cell(policy, provider, queryable, moment) for moment in matrix.MOMENTS]
        assert tuple(cell.expected for cell in made) == counts


def test_the_matrix_is_reproduced(play: Play) -> None:
    the_matrix_of(play(matrix.scenarios()))


@pytest.mark.faults
def test_the_matrix_is_reproduced_by_outlast(play: Play) -> None:
    the_matrix_of(play(matrix.scenarios(), OutlastMaker("", Limits()), lanes=4))


def the_matrix_of(judged: Judged) -> None:
    view = View(judged.records)
    missed = {s.scenario: s.why for s in judged.verdict.scenarios if s.verdict != "pass"}
    assert missed == {}
    assert {c.name: matrix.applied(view, c) for c in CELLS} == {c.name: c.expected for c in CELLS}
