"""A file is one noun: short, and its first line says what it is."""

import ast
from pathlib import Path

from tests.shape.house import (
    SOURCE,
    TESTS,
    WRITTEN_BY_US,
    functions,
    length,
    python_files,
    shown,
    sql_files,
    tree,
)

LINES_MAX = 500
FUNCTION_LINES = 35
# Tests that watch real time go by: whole processes that are harmed, and whole systems.
SLOW_LEVELS = ("acceptance", "faults")


def test_no_file_is_longer_than_one_can_hold_in_mind():
    too_long = {
        shown(path): lines
        for path in [*python_files(*WRITTEN_BY_US), *sql_files()]
        if (lines := len(path.read_text("utf-8").splitlines())) > LINES_MAX
    }
    assert not too_long, "which noun could move out?"


def test_nine_in_ten_functions_fit_on_a_screen():
    lengths = sorted(length(f) for path in python_files(SOURCE) for f in functions(path))
    assert lengths[len(lengths) * 9 // 10] <= FUNCTION_LINES


def test_the_first_line_of_every_module_says_what_it_is():
    silent = [shown(path) for path in python_files(*WRITTEN_BY_US) if not says_what_it_is(path)]
    assert not silent, 'begin with """A sentence."""'


def test_the_first_line_of_every_sql_file_says_what_it_is():
    silent = [
        shown(path)
        for path in sql_files()
        if not path.read_text("utf-8").startswith("-- ") or path.read_text().startswith("-- name:")
    ]
    assert not silent


def test_no_test_below_acceptance_sleeps():
    sleeps = [
        f"{shown(path)}:{call.lineno}"
        for path in python_files(TESTS)
        if may_not_sleep(path)
        for call in ast.walk(tree(path))
        if isinstance(call, ast.Call) and is_sleep(call)
    ]
    assert not sleeps, "move the clock by hand, or wait with tests.support.waiting.until"


def says_what_it_is(path: Path) -> bool:
    first_line = path.read_text("utf-8").partition("\n")[0]
    docstring = ast.get_docstring(tree(path)) or ""
    return first_line.startswith('"""') and docstring.partition("\n")[0].rstrip().endswith(".")


def may_not_sleep(path: Path) -> bool:
    level = path.relative_to(TESTS).parts[0]
    waits_for_others = level == "support" and not path.name.startswith("test_")
    return level not in SLOW_LEVELS and not waits_for_others


def is_sleep(call: ast.Call) -> bool:
    """`time.sleep(...)` and its like, not `ctx.sleep(...)`; `asyncio.sleep(0)` only gives way."""
    name = ast.unparse(call.func)
    gives_way = name == "asyncio.sleep" and [ast.unparse(word) for word in call.args] == ["0"]
    return name in ("sleep", "time.sleep", "asyncio.sleep") and not gives_way
