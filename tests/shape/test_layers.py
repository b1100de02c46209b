"""Imports point down, the core is pure, and the judge does not know the judged."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.shape.house import ROOT, SOURCE, imported, python_files, shown

HEAVY = {"psycopg", "prometheus_client", "starlette", "uvicorn", "jinja2", "asyncio", "sqlite3"}
IMPORTS_OF_THE_COMMAND = "import outlast.cli.main, sys; print('\\n'.join(sys.modules))"


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


def test_the_command_line_starts_without_heavy_imports():
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS_OF_THE_COMMAND], capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert "click" in loaded
    assert not loaded & HEAVY


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
