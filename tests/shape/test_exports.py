"""What a package offers is what its `__all__` says, and all of that is there."""

import ast
import importlib
from pathlib import Path

import pytest

from tests.shape.house import SOURCE, python_files, shown, tree

PACKAGES = [path for path in python_files(SOURCE) if path.name == "__init__.py"]
WITH_ALL = [
    path
    for path in python_files(SOURCE)
    if any(ast.unparse(node).startswith("__all__") for node in tree(path).body)
]


@pytest.mark.parametrize("path", WITH_ALL, ids=shown)
def test_every_name_in_all_is_there_and_there_once(path):
    module = importlib.import_module(module_name(path))
    assert len(module.__all__) == len(set(module.__all__))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("path", PACKAGES, ids=shown)
def test_a_package_offers_nothing_that_its_all_leaves_out(path):
    module = importlib.import_module(module_name(path))
    assert set(public_names(path)) - set(getattr(module, "__all__", ())) == set()


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def public_names(path: Path) -> list[str]:
    """The names that a package's own lines define, or import from our packages."""
    names: list[str] = []
    for node in top_level(tree(path)):
        if isinstance(node, ast.ImportFrom) and is_ours(node):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
    return [name for name in names if not name.startswith("_")]


def top_level(module: ast.Module) -> list[ast.stmt]:
    """The statements of a module, and those that only type checkers see."""
    conditional = [inner for node in module.body if isinstance(node, ast.If) for inner in node.body]
    return [*module.body, *conditional]


def is_ours(node: ast.ImportFrom) -> bool:
    return node.level > 0 or (node.module or "").startswith(("outlast", "draintest"))
