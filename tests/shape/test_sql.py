"""Every SQL statement has one name, is used, and names the task whose log it touches."""

import ast
import re
from collections import Counter

from tests.shape.house import SOURCE, SQL, python_files, sql_files, statements, tree

# `now_ms()` is made of one of these in a migration; statements read that and nothing else.
CLOCKS = r"clock_timestamp|current_timestamp|statement_timestamp|\bnow\(\)|strftime|julianday"
STORE = SOURCE / "outlast" / "store"


def test_every_statement_has_a_name_of_its_own():
    names = Counter(name for path in sql_files() for name in statements(path))
    assert names, f"no statements in {SQL}"
    assert [name for name, count in names.items() if count > 1] == []


def test_every_statement_is_used():
    written = {
        node.value
        for path in python_files(STORE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names = {name for path in sql_files() for name in statements(path)}
    assert names - written == set(), "statements that no verb runs"


def test_no_statement_takes_all_columns_unnamed():
    everything = [
        f"{path.name}: {name}"
        for path in sql_files()
        for name, text in statements(path).items()
        if re.search(r"(select|,)\s+(\w+\.)?\*", text)
    ]
    assert not everything


def test_no_statement_reads_another_clock_than_now_ms():
    clocks = [
        f"{path.name}: {line.strip()}"
        for path in sql_files()
        for line in path.read_text("utf-8").splitlines()
        if re.search(CLOCKS, line.partition("--")[0])
    ]
    assert not clocks


def test_every_statement_on_the_log_names_one_task():
    """So that `events` may be spread over machines by task_id; see the header of events.sql."""
    logs = {
        f"{path.name}: {name}": text
        for path in sql_files()
        for name, text in statements(path).items()
        if re.search(r"\b(from|into|update|join)\s+outlast\.events\b", text)
    }
    assert "events.sql: append" in logs
    assert [name for name, text in logs.items() if not names_one_task(text)] == []


def names_one_task(text: str) -> bool:
    # Or, of several tasks, each by its own entry: what cannot be done at once is done one by one.
    return re.search(r"task(_|\.)id = (:task_id|(offer|event)\.task_id)\b", text) is not None
