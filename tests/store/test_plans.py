"""How the databases go about the hot statements: by index, whatever the size of the tables."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from outlast.store.open import open_store
from outlast.store.statements import load, texts
from tests.store.databases import migrated
from tests.store.world import AGENT
from tests.support.postgres import PostgresServer
from tests.support.prepared import prepare

# Leases are few and narrow, and have no index on a time on purpose: renewals stay in place.
INDEXED = {"tasks", "events", "effects", "signals"}
KEYS = json.dumps({AGENT: 1})
TASK = "task-100"
GRANT = json.dumps({TASK: {"grant": "f" * 64, "progress_ms_ago": 0, "doing": None}})
NOW = 1_800_000_000_000
OFFER: dict[str, Any] = {
    "quoted_seq": 2, "quoted": "f" * 64, "epoch": 0, "holder": 0, "kind": "note", "body": "{}",
    "at_ms": NOW, "digest": "e" * 64,
}  # fmt: skip
FIRST: dict[str, Any] = {
    "seq": 1, "holder": 0, "kind": "task.submitted", "body": "{}", "at_ms": NOW, "digest": "e" * 64,
}  # fmt: skip
VALUES: dict[str, Any] = {
    "after": 1,
    "agents": KEYS,
    "at_ms": NOW,
    "body": "{}",
    "digest": "f" * 64,
    "due_ms": NOW,
    "epoch": 1,
    "events": json.dumps([FIRST | {"task_id": f"task-{n}"} for n in range(100, 150)]),
    "except_ids": "{}",
    "grant": "f" * 64,
    "held": 0,
    "holder": 1,
    "id": TASK,
    "key": "key-100",
    "kind": "checkpoint",
    "last_seq": 2,
    "limit": 50,
    "name": "approval",
    "offers": json.dumps([OFFER | {"task_id": f"task-{n}"} for n in range(100, 150)]),
    "queue": "default",
    "queues": json.dumps({"default": 1}),
    "quoted": "f" * 64,
    "quoted_seq": 1,
    "renewals": GRANT,
    "room": 10,
    "seq": 3,
    "suspect": 3,
    "task_id": TASK,
    "token": "token",
    "worker": "worker",
}
# What runs for every event, beat, look and claim.
HOT = [
    "append",
    "append_all",
    "first_events",
    "standing_events",
    "read_events",
    "last_event",
    "last_event_of_kind",
    "has_result_since",
    "pick_ready",
    "leases_by_token",
    "renew",
    "held_leases",
    "look",
    "look_gate",
    "lock_task",
    "get_task",
    "lock_lease",
    "lock_lapsed_lease",
    "open_intents",
    "lock_effect",
    "get_effect",
    "read_signals",
    "signal_named",
    "consume_signal",
    "wake_timers",
]


def test_every_statement_on_events_names_one_task() -> None:
    """So that the log may be spread over machines by task (see Citus)."""
    on_events = {name: text for name, text in texts().items() if "outlast.events" in text}

    assert on_events.keys() >= {"append", "read_events"}
    for name, text in on_events.items():
        one_task = r"task(_|\.)id = (:task_id|(offer|event)\.task_id)\b"
        assert re.search(one_task, text), name
        assert text.count("outlast.events") <= 2, f"{name} joins events"


def test_no_statement_reads_everything() -> None:
    """A plain list has a limit, a key, or says what it counts."""
    for name in HOT:
        assert name in texts(), f"{name} is hot no more: take it out of this list"


def test_sqlite_goes_by_index(sqlite_url: str) -> None:
    open_store(sqlite_url, create=True).close()
    statements = load("sqlite")
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:"))) as connection:
        connection.create_function("now_ms", 0, lambda: NOW)
        scans = {
            name: plan
            for name in HOT
            if (plan := [
                row[3]
                for row in connection.execute(f"explain query plan {statements[name]}", VALUES)
                if re.match(rf"SCAN ({'|'.join(INDEXED)})\b(?! USING)", row[3])
            ])
        }  # fmt: skip

    assert scans == {}


# -- PostgreSQL ------------------------------------------------------------------------------------

FILL_TASKS = """
insert into outlast.tasks (
       id, queue, agent, input, labels, priority, max_resumes, max_expiries, created_ms, state,
       reason, due_ms, epoch, failures, resumes, expiries, handoffs, head_seq, head_digest, head_ms)
select 'task-' || n, 'default', 'agent', '{}', '{}', 0, 5, 50, %(now)s, 'ready', 'first',
       %(now)s - 1000 + mod(n, 500), 0, 0, 0, 0, 0, 1, repeat('f', 64), %(now)s
  from generate_series(1, %(rows)s) n
"""
FILL_EVENTS = """
insert into outlast.events (task_id, seq, holder, kind, body, at_ms, digest)
select 'task-' || n, seq, 0, 'task.submitted', '{}', %(now)s, repeat('f', 64)
  from generate_series(1, %(rows)s) n, generate_series(1, 2) seq
"""
FILL_EFFECTS = """
insert into outlast.effects (
       key, task_id, name, tool, fingerprint, shared, state, tries, intent_seq, intended_ms)
select 'key-' || n, 'task-' || n, 'pay', 'bank.pay', '-', 0, 'applied', 1, 2, %(now)s
  from generate_series(1, %(rows)s) n
"""
FILL_SIGNALS = """
insert into outlast.signals (id, task_id, name, payload, sent_by, sent_ms)
select 'signal-' || n, 'task-' || n, 'approval', 'true', 'ann', %(now)s
  from generate_series(1, %(rows)s) n
"""
FILL_LEASES = """
insert into outlast.leases (
       task_id, grant_digest, epoch, worker, token, ttl_ms, granted_ms, expires_ms, spared,
       beat_ms, progress_ms)
select 'task-' || n, repeat('f', 64), 1, 'worker', 'token', 30000, %(now)s, %(now)s + 30000, 0,
       %(now)s, %(now)s
  from generate_series(1, %(rows)s) n
"""

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def never_analysed(postgres_server: PostgresServer) -> Iterator[Connection]:
    """A database whose tables nobody has ever analysed."""
    url = migrated(postgres_server.create_database())
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        for table in INDEXED:
            connection.execute(
                f"alter table outlast.{table} set (autovacuum_enabled = false)".encode()
            )
        connection.execute("update outlast.hand set now_ms = %s", [NOW])
        yield connection
    postgres_server.drop_database(url)


def fill(connection: Connection, rows: int) -> None:
    for statement in (FILL_TASKS, FILL_EVENTS, FILL_EFFECTS, FILL_SIGNALS):
        connection.execute(statement.encode(), {"now": NOW, "rows": rows})


def plan(connection: Connection, name: str, *, how: str = "format json") -> dict[str, Any]:
    """The plan of a prepared statement."""
    call = prepare(connection, name, VALUES)
    row = connection.execute(f"explain ({how}) {call}".encode()).fetchone()
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def sequential(plan: dict[str, Any]) -> list[str]:
    """The tables that a plan reads from one end to the other."""
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in INDEXED
    ]


def scans(connection: Connection) -> dict[str, list[str]]:
    """Hot statements that read a table from one end to the other, planned once and each time."""
    found = {}
    for mode in ("force_custom_plan", "force_generic_plan"):
        connection.execute(f"set plan_cache_mode = {mode}".encode())
        for name in HOT:
            if tables := sequential(plan(connection, name)):
                found[f"{name} ({mode})"] = tables
    return found


@pytest.mark.postgres
@pytest.mark.parametrize("rows", [0, 2_000], ids=["empty", "fresh"])
def test_postgres_goes_by_index_on_young_tables(never_analysed: Connection, rows: int) -> None:
    fill(never_analysed, rows)

    assert scans(never_analysed) == {}


@pytest.mark.postgres
@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.parametrize("analysed", [False, True], ids=["never analysed", "analysed"])
def test_postgres_goes_by_index_on_a_large_backlog(
    never_analysed: Connection, analysed: bool
) -> None:
    fill(never_analysed, 250_000)
    if analysed:
        never_analysed.execute("analyze")

    assert scans(never_analysed) == {}


@pytest.mark.postgres
@pytest.mark.faults
@pytest.mark.timeout(600)
def test_what_runs_every_second_does_not_read_a_large_backlog(never_analysed: Connection) -> None:
    """A look and a claim cost the same with 250,000 tasks waiting as with ten."""
    fill(never_analysed, 250_000)
    every_second = ("look", "pick_ready", "wake_timers")

    touched = {name: rows_read(never_analysed, name) for name in every_second}

    assert {name: rows for name, rows in touched.items() if rows > 2_000} == {}


@pytest.mark.postgres
def test_a_rush_of_tasks_is_not_read_while_the_statistics_know_of_none(
    never_analysed: Connection,
) -> None:
    """Analysed while all were running: a few are ready, the planner thinks, and may be sorted."""
    fill(never_analysed, 4_000)
    never_analysed.execute("update outlast.tasks set state = 'running'")
    never_analysed.execute("analyze")
    never_analysed.execute("update outlast.tasks set state = 'ready'")

    touched = {name: rows_read(never_analysed, name) for name in ("look", "pick_ready")}

    assert {name: rows for name, rows in touched.items() if rows > 500} == {}


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_a_renewal_reads_no_more_for_each_lease_the_more_leases_it_renews(
    never_analysed: Connection, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    never_analysed.execute(FILL_LEASES.encode(), {"now": NOW, "rows": 20_000})
    never_analysed.execute("analyze")
    never_analysed.execute(f"set plan_cache_mode = {mode}".encode())
    renewals = {f"task-{n}": {"grant": "f" * 64, "progress_ms_ago": 0} for n in range(1, 501)}
    monkeypatch.setitem(VALUES, "renewals", json.dumps(renewals))

    # Each of the leases that are there a few times, not each for each.
    assert rows_read(never_analysed, "renew") <= 3 * 20_000


def rows_read(connection: Connection, name: str) -> int:
    """How many rows the scans of a statement come across when it runs."""
    connection.execute("begin")
    try:
        ran = plan(connection, name, how="analyze, format json")
    finally:
        connection.execute("rollback")
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(ran)
        if "Scan" in node["Node Type"] and not node.keys().isdisjoint(("Relation Name", "CTE Name"))
    )
