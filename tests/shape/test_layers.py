"""Imports point down, the core is pure, and the judge does not know the judged."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from outlast.core.clock import Env
from outlast.store.open import open_store
from tests.shape.house import ROOT, SOURCE, imported, python_files, shown

HEAVY = {"psycopg", "prometheus_client", "starlette", "uvicorn", "jinja2", "asyncio"}
RUN_AND_LIST_MODULES = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from outlast.cli.main import main
sys.exit(main())
"""


def test_the_import_contracts_hold():
    command = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_package_under_src_is_held_to_the_contracts():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages == set(settings["root_packages"]), "see [tool.importlinter] in pyproject.toml"


def test_the_core_imports_the_standard_library_and_msgspec_alone():
    allowed = sys.stdlib_module_names | {"msgspec"}
    strangers = {
        (shown(path), name)
        for path in python_files(SOURCE / "outlast" / "core")
        for name in imported(path)
        if name.partition(".")[0] not in allowed and not within(name, "outlast.core")
    }
    assert not strangers


def test_the_runtime_and_the_test_that_judges_it_never_import_each_other():
    crossings = {
        (shown(path), name)
        for package, other in (("outlast", "draintest"), ("draintest", "outlast"))
        for path in python_files(SOURCE / package)
        for name in imported(path)
        if within(name, other)
    }
    assert not crossings


@pytest.mark.parametrize("words", [["--version"], ["ps"]])
def test_a_command_on_sqlite_starts_without_heavy_imports(words, sqlite_url):
    open_store(sqlite_url, env=Env(), create=True).close()
    run = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "OUTLAST_DB": sqlite_url},
    )
    assert run.returncode == 0, run.stderr
    loaded = set(run.stderr.split())
    assert "click" in loaded
    assert not loaded & HEAVY


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
