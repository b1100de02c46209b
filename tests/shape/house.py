"""The project's files as these tests read them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
SQL = SOURCE / "outlast" / "store" / "sql"
WRITTEN_BY_US = [SOURCE, TESTS, ROOT / "bench"]


def python_files(*folders: Path) -> list[Path]:
    """Every Python file below the folders that are there, sorted."""
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def sql_files() -> list[Path]:
    return sorted(SQL.glob("*.sql"))


def shown(path: Path) -> str:
    """A path as a message names it."""
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file of src/ imports, wherever in it, by its full name."""
    package = path.relative_to(SOURCE).with_suffix("").parts[:-1]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            yield ".".join([*above, *filter(None, [node.module])])


def statements(path: Path) -> dict[str, str]:
    """The named statements of a SQL file, without their comments."""
    parts = re.split(r"^-- name: *(\w+) *$", path.read_text("utf-8"), flags=re.M)[1:]
    return {
        name: re.sub(r"--.*", "", body).strip()
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Its lines from `def` to the end, the docstring not counted."""
    first = function.body[0]
    says = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if says else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring
