"""`prune`, `migrate`, `doctor`, `metrics`: looking after the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.store.migrate import VERSION
from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import start

DAY_MS = 86_400_000


@pytest.fixture
def old_tasks(store: Store, stores: SqliteStores) -> list[str]:
    """One that ended a month ago, one that ended now, one that has run since then."""
    running = start(store, "patient")
    old = start(store)
    old.succeed()
    stores.move(30 * DAY_MS)
    new = start(store)
    new.succeed()
    return [old.task_id, new.task_id, running.task_id]


def test_a_prune_removes_what_ended_long_ago_and_nothing_that_is_not_final(
    cli: Cli, old_tasks: list[str]
) -> None:
    """case R65"""
    before = cli("metrics").out
    ran = cli("prune", "--older-than", "7d", "--yes")
    assert ran.out == "Removed 1 tasks and 3 events\n"
    assert set(cli("ps", "-o", "name").out.split()) == set(old_tasks[1:])

    def ended(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("agent_task_terminal_total")]

    assert ended(cli("metrics").out) == ended(before)


def test_a_dry_run_says_how_much_and_removes_nothing(cli: Cli, old_tasks: list[str]) -> None:
    shape = cli("prune", "--older-than", "7d", "--dry-run", "--json").json
    assert shape == {"tasks": 1, "events": 3, "dry_run": True}
    assert len(cli("ps", "-o", "name").out.split()) == 3


def test_a_prune_without_a_terminal_needs_yes(cli: Cli, old_tasks: list[str]) -> None:
    ran = cli("prune", "--older-than", "7d")
    assert ran.code == 2
    assert "--yes" in ran.complaint
    assert len(cli("ps", "-o", "name").out.split()) == 3


def test_nothing_to_prune_asks_nobody(cli: Cli) -> None:
    assert cli("prune", "--older-than", "7d").out == "Removed 0 tasks and 0 events\n"


def test_a_prune_needs_an_age(cli: Cli) -> None:
    assert "--older-than" in cli("prune", "--yes").complaint
    assert cli("prune", "--older-than", "ages", "--yes").code == 2


def test_migrating_a_new_file_makes_the_tables_and_again_does_nothing(
    bare_cli: Cli, tmp_path: Path
) -> None:
    db = f"sqlite:{tmp_path / 'new' / 'outlast.db'}"
    assert bare_cli("migrate", "--db", db, "--json").json["applied"] == [VERSION]
    assert bare_cli("migrate", "--db", db, "--json").json["applied"] == []
    assert bare_cli("migrate", "--db", db, "--check").code == 0


def test_the_sql_of_a_migration_is_printed_and_not_run(bare_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    db = f"sqlite:{tmp_path / 'empty.db'}"
    ran = bare_cli("migrate", "--db", db, "--sql")
    assert "create table" in ran.out
    check = bare_cli("migrate", "--db", db, "--check")
    assert check.code == 6
    assert "run `outlast migrate`" in check.complaint


@pytest.mark.parametrize("command", ["ps", "doctor", "metrics", "deploy-gate", "worker"])
def test_another_schema_is_one_clear_line_and_an_exit_code(
    cli: Cli, store: Store, stores: SqliteStores, command: str
) -> None:
    """case R64: newer tables than this code; never a crash loop, nothing is written."""
    stores.change("update schema set version = ?", VERSION + 1)
    words = (command, "tests.cli.apps:app") if command == "worker" else (command,)
    ran = cli(*words)
    assert ran.code == 6
    assert f"has schema {VERSION + 1}, this code knows {VERSION} at most" in ran.complaint
    assert "Nothing was written" in ran.complaint


def test_a_healthy_store_is_well(cli: Cli, store: Store) -> None:
    start(store)
    ran = cli("doctor", "--json")
    assert ran.code == 0
    assert {"ok"} == {finding["state"] for finding in ran.json["items"]}


def test_a_row_that_is_not_the_fold_of_its_log_is_broken(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    stores.change("update tasks set failures = 7 where id = ?", owner.task_id)
    ran = cli("doctor")
    assert ran.code == 1
    assert "broken" in ran.out
    assert owner.task_id in ran.out
