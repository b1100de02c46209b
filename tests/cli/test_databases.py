"""P10: the command line says the same of every database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from outlast.client import connect
from outlast.core.clock import Env
from outlast.core.errors import Unavailable
from outlast.store.open import open_store
from tests.cli.conftest import Cli
from tests.store.world import start
from tests.support.databases import on_every_database, on_every_postgres
from tests.support.postgres import PostgresServer


@pytest.fixture
def db(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OUTLAST_DB", database_url)
    return database_url


@on_every_database
def test_a_life_from_migrate_to_prune(bare_cli: Cli, db: str, tmp_path: Path) -> None:
    assert bare_cli("migrate").code == 0
    assert bare_cli("migrate", "--check").code == 0
    task_id = bare_cli("submit", "agent", '{"n": 1}', "--key", "k").out.strip()
    store = open_store(db)
    owner = start(store, agent="agent", queue="other")
    owner.intend("pay")
    assert task_id in bare_cli("ps", "-o", "name").out
    assert bare_cli("deploy-gate").code == 0
    owner.ask_a_person()
    assert owner.key("pay") in bare_cli("effects", "--unknown").out
    settled = bare_cli("settle", owner.key("pay"), "--applied", "ch_1", "--json").json
    assert settled["task_state"] == "ready"
    assert bare_cli("cancel", task_id, "--reason", "no").code == 0
    assert bare_cli("cancel", owner.task_id, "--reason", "no").code == 0
    path = tmp_path / "out.jsonl"
    assert bare_cli("export", "--all", "--to", str(path)).code == 0
    assert bare_cli("verify", str(path)).code == 0
    # The servers that tests share do not sync to disk, and the doctor rightly says so.
    findings = bare_cli("doctor", "--json").json["items"]
    assert {f["state"] for f in findings if f["check"] != "durability"} == {"ok"}
    assert 'agent_task_terminal_total{queue="default",state="cancelled"} 1' in (
        bare_cli("metrics").out
    )
    assert bare_cli("prune", "--older-than", "0s", "--yes", "--json").json["tasks"] == 2
    store.close()


@on_every_postgres
def test_a_server_without_our_tables_is_left_alone(bare_cli: Cli, db: str) -> None:
    """case R64: a schema is somebody's decision, and a worker is no somebody."""
    for words in (("ps",), ("submit", "agent"), ("worker", "tests.cli.apps:app")):
        ran = bare_cli(*words)
        assert ran.code == 6
        assert "run `outlast migrate`" in ran.complaint
    assert bare_cli("migrate", "--check").code == 6
    assert "create table" in bare_cli("migrate", "--sql").out
    assert bare_cli("migrate", "--check").code == 6


def shape_of(value: Any) -> Any:
    """The names and types of a JSON value."""
    if isinstance(value, dict):
        return {key: shape_of(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape_of(one) for one in value]
    return type(value).__name__


@pytest.mark.postgres
def test_the_json_of_a_task_is_the_same_on_both(
    bare_cli: Cli, postgres_url: str, sqlite_url: str
) -> None:
    shapes = []
    for db in (postgres_url, sqlite_url):
        bare_cli("migrate", "--db", db)
        store = open_store(db)
        owner = start(store, labels={"a": "b"}, key="k")
        owner.step()
        owner.intend()
        shapes.append(
            [
                shape_of(bare_cli(*words, "--db", db, "--json").json)
                for words in (
                    ("show", owner.task_id),
                    ("ps",),
                    ("log", owner.task_id),
                    ("effects",),
                    ("deploy-gate",),
                )
            ]
        )
        store.close()
    assert shapes[0] == shapes[1]


def test_a_client_goes_on_when_the_server_is_back(
    own_postgres: Callable[..., PostgresServer], bare_cli: Cli
) -> None:
    """P12: what was stored is there, what was asked meanwhile is an error that says wait."""
    server = own_postgres()
    db = server.url()
    assert bare_cli("migrate", "--db", db).code == 0
    with connect(db) as client:
        before = client.submit("agent")
        server.stop()
        assert bare_cli("ps", "--db", db).code == 69
        server.start()
        after = client.submit("agent")
        assert {task.id for task in client.find()} == {before.id, after.id}


def test_a_file_that_is_taken_away_under_an_open_store_is_noticed(tmp_path: Path) -> None:
    """SQLite itself would go on writing to it, where nobody else can see it any more."""
    path = tmp_path / "outlast.db"
    store = open_store(f"sqlite:{path}", env=Env(), create=True)
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(Unavailable, match="taken away, or another put in its place"):
        store.now_ms()
    with pytest.raises(Unavailable, match="there is no such file"):
        store.now_ms()
    (tmp_path / "elsewhere.db").rename(path)
    assert store.now_ms() > 0
    store.close()


@on_every_database
def test_tables_that_somebody_has_changed_are_a_line_and_no_trace(
    bare_cli: Cli, db: str, tmp_path: Path
) -> None:
    assert bare_cli("migrate").code == 0
    bare_cli("submit", "agent")
    if db.startswith("sqlite:"):
        with sqlite3.connect(db.removeprefix("sqlite:")) as connection:
            connection.execute("alter table workers drop column grace_ms")
    else:
        with psycopg.connect(db, autocommit=True) as connection:
            connection.execute("alter table outlast.workers drop column grace_ms")
    ran = bare_cli("ps")
    assert ran.code == 6
    assert "not those of this version" in ran.complaint
    assert "grace_ms" in ran.complaint
