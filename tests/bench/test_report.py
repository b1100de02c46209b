"""What is published says what was measured: tables, charts, and the page that takes them."""

import xml.etree.ElementTree as ElementTree

import pytest

from bench import report
from bench.chart import Bar, chart
from bench.table import shown, tables

SVG = "{http://www.w3.org/2000/svg}"
QUEUE = {"cannot": {"steps": "a job is run again as a whole"}, "versions": {"queue": "1.0"}}
KEEPS = {"cannot": {}, "versions": {"keeps": "2.0"}}
COMPARED = {
    "systems": {
        "Outlast": {**KEEPS, "store": "PostgreSQL 18", "settings": "as it comes"},
        "Keeps": {**KEEPS, "store": "PostgreSQL 18", "settings": "a | b"},
        "Queue": {**QUEUE, "store": "Redis", "settings": "quick"},
    },
    "limits": {"PostgreSQL, 1 client": [4000.0, 5000.0], "PostgreSQL, 32 clients": [20000.0]},
    "figures": {
        "steps, one task": {
            "Outlast": [900.0, 1100.0],
            "Keeps": [450.0, 550.0],
            "Queue": ["keeps no steps", "keeps no steps"],
        },
        "no-op tasks": {"Outlast": [500.0], "Keeps": [250.0], "Queue": [5000.0]},
    },
    "loads": [0.5, 1.25],
    "rounds": 2,
    "seconds": 120,
}
FOUND = {
    "machine": {
        "cores": 2,
        "processor": "a processor",
        "memory_gib": 8,
        "kernel": "6",
        "python": "3.11",
    },
    "comparison": COMPARED,
}


def test_a_table_has_a_row_for_each_system_and_words_where_there_is_no_figure():
    lines = tables(COMPARED).splitlines()
    assert "| **Outlast** | 1,000 ±10% |" in lines
    assert "| Queue | keeps no steps |" in lines


def test_the_raw_limit_stands_above_the_steps():
    assert "| raw limit, PostgreSQL | 4,500 ±11% |" in tables(COMPARED)


def test_ours_is_held_against_those_who_promise_as_much_and_against_the_others():
    lines = tables(COMPARED).splitlines()
    assert "| *Outlast against the best that keeps steps* | 2.0 × (Keeps) |" in lines
    assert "| *Outlast against the best plain queue* | 0.10 × (Queue) |" in lines


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (12345.6, "12,346"), (12.34, "12.3"), (0.123, "0.12")]
)
def test_a_number_is_shown_with_the_figures_that_mean_something(value, text):
    assert shown(value) == text


def test_bars_are_as_long_as_their_values_and_words_have_none():
    bars = [Bar("a", 100.0, "100"), Bar("b", 50.0, "50", "ours"), Bar("c & d", None, "has <none>")]
    root = ElementTree.fromstring(chart("Rates", bars))
    widths = [float(each.get("width")) for each in root.iter(f"{SVG}rect")][1:]
    assert widths[0] == pytest.approx(2 * widths[1])
    assert len(widths) == 2
    assert "has <none>" in [each.text for each in root.iter(f"{SVG}text")]


def test_a_chart_needs_nothing_of_anybody_else():
    drawing = chart("Rates", [Bar("a", 1.0, "1")])
    for outside in ("href", "url(", "@import", "<script", "<image"):
        assert outside not in drawing


def test_who_cannot_see_a_chart_is_told_its_values():
    root = ElementTree.fromstring(chart("Rates", [Bar("a", 1.0, "1/s")]))
    assert root.get("aria-label") == "Rates: a 1/s"


def test_a_result_fills_the_page_and_a_second_one_takes_its_place(tmp_path):
    marks = ("machine", "tables", "charts", "settings")
    page = tmp_path / "benchmarks.md"
    page.write_text("words\n" + "".join(f"<!-- {m} -->\nold\n<!-- /{m} -->\n" for m in marks))
    report.write(FOUND, tmp_path)
    once = page.read_text()
    report.write(FOUND, tmp_path)
    assert page.read_text() == once
    assert "old" not in once
    assert once.startswith("words\n")
    assert "a \\| b" in once
    assert (tmp_path / "benchmarks" / "steps-one-task.svg").read_text().startswith("<svg")


def test_a_page_without_a_place_for_it_is_an_error():
    with pytest.raises(ValueError, match="no place for tables"):
        report.between("words", "tables", "1")


def test_the_page_of_the_documentation_has_a_place_for_everything(tmp_path):
    (tmp_path / "benchmarks.md").write_text(report.PAGE.read_text())
    report.write(FOUND, tmp_path)
