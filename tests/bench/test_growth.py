"""Of how costs grow: a bend is a figure that got worse, and both plans stand beside it."""

import pytest

from bench.growth.curve import Curve, Point, bends, between, table, worse

POINTS = [
    Point(10, {"look_ms": 1.0, "claim_ms": 2.0}, {"look_ms": "10 blocks"}),
    Point(100, {"look_ms": 1.6, "claim_ms": 3.0}, {"look_ms": "90 blocks"}),
    Point("100, never analysed", {"look_ms": 0.1, "claim_ms": 30.0}),
]


def test_a_bend_says_from_where_to_where_and_shows_both_plans():
    [look, claim] = bends(POINTS)
    assert look == {
        "figure": "look_ms",
        "from": 10,
        "to": 100,
        "ratio": 1.6,
        "plans": ["10 blocks", "90 blocks"],
    }
    assert (claim["figure"], claim["to"], claim["ratio"]) == ("claim_ms", "100, never analysed", 10)


def test_half_as_much_again_is_no_bend_yet_and_getting_cheaper_never_is():
    assert bends([Point(1, {"look_ms": 2.0}), Point(2, {"look_ms": 3.0})]) == []
    assert bends([Point(1, {"look_ms": 3.0}), Point(2, {"look_ms": 1.0})]) == []


@pytest.mark.parametrize(
    ("figure", "before", "after", "times"),
    [
        ("look_ms", 1.0, 4.0, 4.0),
        ("tasks_a_second", 400.0, 100.0, 4.0),
        ("tasks_a_second", 100.0, 400.0, 0.25),
        ("empty_a_second", 0, 5, 0.0),
    ],
)
def test_of_rates_less_is_worse_and_nothing_is_no_measure(figure, before, after, times):
    assert worse(figure, before, after) == times


def test_a_size_that_was_left_out_has_no_ratio():
    assert between(POINTS, "claim_ms", 10, 100) == 1.5
    assert between(POINTS, "claim_ms", 10, 1_000_000) is None


def test_points_that_are_no_sizes_have_no_bends():
    assert Curve("table", "", POINTS, grows=False).told()["bends"] == []


def test_a_table_has_a_line_for_each_size_and_what_was_left_out():
    words = table("look", Curve("tasks", "Medians.", POINTS, [1_000]).told())
    assert "| 100 | 1.6 | 3 |" in words
    assert "Left out, for want of time: 1,000" in words
