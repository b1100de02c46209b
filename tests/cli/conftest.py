"""A store in a folder of its own with its clock in our hand, and the command run on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.cli.main import main
from outlast.store.verbs import Store
from tests.store.databases import SqliteStores


@dataclass(frozen=True)
class Ran:
    """What a command did: its exit code, and what it wrote where."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def lines(self) -> list[Any]:
        return [msgspec.json.decode(line) for line in self.out.splitlines()]

    @property
    def complaint(self) -> str:
        """The one line that a refused command leaves: nothing on stdout, no traceback."""
        assert self.out == ""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("outlast: ")
        return self.err


Cli = Callable[..., Ran]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run in a folder without settings, in an environment without OUTLAST_*."""
    import os

    for name in [name for name in os.environ if name.startswith("OUTLAST_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStores]:
    """The database that OUTLAST_DB names; `stores.move(ms)` lets time pass."""
    stores = SqliteStores(f"sqlite:{tmp_path / 'outlast.db'}")
    monkeypatch.setenv("OUTLAST_DB", stores.url)
    yield stores
    stores.close()


@pytest.fixture
def store(stores: SqliteStores) -> Store:
    return stores.open()


@pytest.fixture
def cli(stores: SqliteStores, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process, under the clock of the store."""
    return runner(capsys, stores)


@pytest.fixture
def bare_cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command where there is no store."""
    return runner(capsys, None)


def runner(capsys: pytest.CaptureFixture[str], stores: SqliteStores | None) -> Cli:
    def run(*words: str) -> Ran:
        capsys.readouterr()
        code = main(list(words), env=stores.env if stores else None)
        sys.stdout.flush()
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run
