"""Medians, spreads, ratios and rates say what they are called."""

import pytest

from bench.marks import Mark, rate
from bench.results import Figure, best, figure, merged, percentile, ratio
from bench.systems.adapter import TICK
from bench.takeover import judged


def test_several_rounds_are_told_by_their_median_and_how_far_they_lie_apart():
    seen = figure([100.0, 300.0, 120.0])
    assert seen == Figure(median=120.0, lowest=100.0, highest=300.0)
    assert seen.spread == pytest.approx(200 / 120)


def test_a_round_that_failed_is_not_hidden_behind_those_that_did_not():
    assert figure([100.0, "failed: it ended", 120.0]) == "failed: it ended"


def test_nothing_measured_is_no_figure():
    assert figure([]) == ""


@pytest.mark.parametrize(
    ("better", "ours", "theirs", "times"),
    [
        ("more", [200.0], [100.0], 2.0),
        ("less", [200.0], [100.0], 0.5),
        # By rounds: each of them had a machine of its own speed.
        ("more", [200.0, 20.0, 2000.0], [100.0, 10.0, 100.0], 2.0),
        ("more", [200.0], ["keeps no steps"], None),
        ("more", [200.0, 200.0], [100.0, "failed"], None),
        ("more", [200.0, 200.0], [100.0], None),
        ("less", [0.0], [100.0], None),
        ("more", [], [], None),
    ],
)
def test_a_ratio_above_one_says_that_ours_is_better(better, ours, theirs, times):
    assert ratio(ours, theirs, better) == times


def test_the_best_of_the_others_has_a_figure():
    figures = {"a": [5.0], "b": [7.0], "c": ["keeps no steps"], "d": [9.0]}
    assert best(figures, "more", ["a", "b", "c"]) == "b"
    assert best(figures, "less", ["a", "b", "c"]) == "a"
    assert best(figures, "more", ["c"]) is None


@pytest.mark.parametrize(("share", "value"), [(50, 5), (99, 10), (100, 10), (1, 1)])
def test_a_percentile_is_a_value_that_was_seen(share, value):
    assert percentile([3, 1, 2, 5, 4, 10, 9, 8, 7, 6], share) == value


def test_what_turns_have_found_is_gathered_by_measure_and_system():
    gathered: dict = {}
    merged(gathered, "one", {"rate": 1.0})
    merged(gathered, "one", {"rate": 2.0})
    merged(gathered, "other", {"rate": "has none"})
    assert gathered == {"rate": {"one": [1.0, 2.0], "other": ["has none"]}}


def test_a_rate_counts_from_the_first_start_to_the_last_thing_done():
    marks = [seen("ready", 0), seen("began", 1), seen("began", 2), seen("step", 3)]
    marks += [seen("reached", 4), seen("reached", 5)]
    assert rate(marks) == pytest.approx(TICK / 4)


def test_the_rate_of_a_measure_that_was_broken_off_is_what_it_has_seen():
    assert rate([seen("began", 1), seen("step", 2), seen("step", 3)]) == pytest.approx(TICK)


@pytest.mark.parametrize("marks", [[], ["began"], ["reached"], ["step"]])
def test_where_nothing_was_done_there_is_no_rate(marks):
    assert rate([seen(word, 1) for word in marks]) == 0


OLD, HEIR = 7, 8


@pytest.mark.parametrize(
    ("heirs_first", "reached_by", "says"),
    [
        (9, HEIR, 2.0),
        (0, HEIR, "from the first step, after 2 s"),
        (None, OLD, "its worker ends all 20 steps first"),
        (None, None, "not within 60 s"),
    ],
)
def test_a_takeover_is_told_in_seconds_or_in_words(heirs_first, reached_by, says):
    first = None if heirs_first is None else seen("step", 12, number=heirs_first, pid=HEIR)
    marks = [seen("step", 9, number=8, pid=OLD)]
    if reached_by is not None:
        marks.append(seen("reached", 20, pid=reached_by))
    assert judged(marks, {OLD}, 10 * 10**9, first, limit_s=60) == says


def seen(word: str, at_s: float, *, number: int = 0, pid: int = 1) -> Mark:
    return Mark(word, number, pid, int(at_s * 1e9), 0)
