"""A user's mistake is one line that says what happened, and an exit code; never a traceback."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from outlast.cli.main import COMMANDS
from tests.cli.conftest import Cli

READERS = ("ps", "effects", "doctor", "metrics", "deploy-gate")


@pytest.mark.parametrize("command", READERS)
def test_where_there_is_no_store_a_line_says_how_to_make_one(
    bare_cli: Cli, empty_folder: Path, command: str
) -> None:
    ran = bare_cli(command)
    assert ran.code == 69
    assert "there is no store at sqlite:.outlast/outlast.db yet" in ran.complaint
    assert list(empty_folder.iterdir()) == []


def test_a_submit_makes_the_store_that_is_not_there(bare_cli: Cli, empty_folder: Path) -> None:
    assert bare_cli("submit", "agent", "{}").code == 0
    assert (empty_folder / ".outlast" / "outlast.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("command", [*READERS, "show x", "submit a", "cancel x --reason r"])
def test_a_database_that_cannot_be_reached_is_69(bare_cli: Cli, command: str) -> None:
    ran = bare_cli(*command.split(), "--db", "postgresql://nobody:s3cret@127.0.0.1:1/none")
    assert ran.code == 69
    assert "s3cret" not in ran.complaint


@pytest.mark.parametrize(
    ("db", "says"),
    [
        ("outlast.db", "is no store"),
        ("mysql://x", "is no store"),
        ("sqlite:", "is no store"),
        ("sqlite::memory:", "path of a file"),
        ("http:///nowhere", "https://HOST"),
        ("http://no%20token@127.0.0.1", "OUTLAST_TOKEN"),
        ("http://127.0.0.1:99999", "no port"),
    ],
)
def test_a_store_that_cannot_be_is_2(bare_cli: Cli, db: str, says: str) -> None:
    ran = bare_cli("ps", "--db", db)
    assert ran.code == 2
    assert says in ran.complaint


def test_a_password_in_a_url_that_is_no_store_is_not_shown(bare_cli: Cli) -> None:
    assert "s3cret" not in bare_cli("ps", "--db", "mysql://me:s3cret@host/db").complaint


def test_a_file_that_is_no_database_is_a_line(bare_cli: Cli, empty_folder: Path) -> None:
    (empty_folder / "letter.txt").write_text("Dear all,\n" * 500)
    ran = bare_cli("ps", "--db", "sqlite:letter.txt")
    assert ran.code in (2, 6, 69)
    assert ran.complaint


def test_a_database_of_somebody_else_is_left_alone(bare_cli: Cli, empty_folder: Path) -> None:
    with sqlite3.connect(empty_folder / "other.db") as other:
        other.execute("create table tasks (name text)")
    for words in (("ps",), ("submit", "a", "{}")):
        ran = bare_cli(*words, "--db", "sqlite:other.db")
        assert ran.code != 0
        assert ran.complaint
    with sqlite3.connect(empty_folder / "other.db") as other:
        assert other.execute("select name from sqlite_master").fetchall() == [("tasks",)]


def test_a_folder_in_the_place_of_the_file_is_a_line(bare_cli: Cli, empty_folder: Path) -> None:
    (empty_folder / "folder").mkdir()
    for words in (("ps",), ("submit", "a", "{}")):
        ran = bare_cli(*words, "--db", "sqlite:folder")
        assert ran.code in (2, 69)
        assert ran.complaint


@pytest.mark.parametrize(
    "words",
    [
        ("frobnicate",),
        ("ps", "--frobnicate"),
        ("show",),
        ("queue",),
        ("queue", "frobnicate"),
        ("metrics", "--port", "99999"),
        ("log", "x", "--after", "-1"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_2(cli: Cli, words: tuple[str, ...]) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("flag", ["--timeout", "--since"])
@pytest.mark.parametrize("value", ["soon", "-1s", "nan", "9" * 400, "1e400"])
def test_a_duration_that_cannot_be_names_its_flag(cli: Cli, flag: str, value: str) -> None:
    ran = cli("ps", flag, value)
    assert ran.code == 2
    assert ran.complaint.startswith(f"outlast: {flag}: ")
    assert len(ran.complaint) < 300


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(cli: Cli, command: str) -> None:
    ran = cli(command, "--help")
    assert ran.code == 0
    assert f"Usage: outlast {command}" in ran.out


def test_without_a_command_the_commands_are_listed(cli: Cli) -> None:
    text = cli("--help").out
    assert all(command in text for command in COMMANDS)
    assert "124 timed out" in text


def test_the_version_is_told(cli: Cli) -> None:
    assert cli("--version").out.startswith("outlast 0.")


def test_a_setting_in_the_folder_names_the_store(
    cli: Cli, empty_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    db = os.environ["OUTLAST_DB"]
    monkeypatch.delenv("OUTLAST_DB")
    (empty_folder / "outlast.toml").write_text(f'db = "{db}"\noutput = "json"\n')
    assert cli("ps").json == {"items": []}
