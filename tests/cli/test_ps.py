"""`outlast ps`: who owns what, since when, and what a deploy would do to it."""

from __future__ import annotations

import pytest

from outlast.core.model import FINAL
from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import OPERATOR, TTL, enlisted, start, submit

COLUMNS = (
    "TASK  AGENT  STATE  OWNER  HELD FOR  HEARTBEAT  RESUMED  DOING NOW  EFFECTS  IF I DEPLOY NOW"
)


def row(out: str, task_id: str) -> str:
    [found] = [line for line in out.splitlines() if task_id in line]
    return found


def test_the_table_has_the_columns_that_were_promised(cli: Cli, store: Store) -> None:
    submit(store)
    header = cli("ps").out.splitlines()[0]
    assert header.split() == COLUMNS.split()
    assert cli("ps", "-o", "wide").out.splitlines()[0].startswith(header.split("  ")[0])
    assert "QUEUE" in cli("ps", "-o", "wide").out.splitlines()[0]


def test_a_running_task_shows_its_owner_and_ages_by_the_databases_clock(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    stores.move(3_000)
    [shape] = cli("ps", "--json").json["items"]
    assert shape["owner"] == {
        "worker": "worker-old",
        "host": "host",
        "pid": 4711,
        "build": "build-1",
    }
    assert (shape["state"], shape["epoch"], shape["marks"]) == ("running", 1, [])
    assert shape["lease"]["heartbeat_age_s"] == 3.0
    assert shape["lease"]["expires_in_s"] == (TTL - 3_000) / 1000
    assert shape["lease"]["expires_at"].endswith("Z")
    line = row(cli("ps").out, owner.task_id)
    assert "host/4711 build-1 e1" in line
    assert "3.0s, 7.0s left" in line
    assert "hands over at next step" in line


def test_the_stored_state_stands_first_and_what_is_derived_beside_it(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    """case R66: no client's clock pretends; the as-of time is the database's."""
    owner = start(store)
    store.cancel(owner.task_id, OPERATOR)
    store.order_drain(OPERATOR)
    stores.move(TTL - 1_000)
    ran = cli("ps")
    assert "running, stale, cancelling, draining" in row(ran.out, owner.task_id)
    assert "as of 2027-01-15T08:00:09.000Z" in ran.err
    [shape] = cli("ps", "--json").json["items"]
    assert shape["state"] == "running"
    assert shape["marks"] == ["stale", "cancelling", "draining"]
    assert shape["as_of"] == "2027-01-15T08:00:09.000Z"


def test_a_silent_owner_and_a_lapsed_lease_are_seen(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    stores.move(TTL + 5_000)
    line = row(cli("ps").out, owner.task_id)
    assert "lapsed 5.0s ago" in line
    assert "blocks: owner silent for 15s" in line


def test_effects_are_counted_as_done_in_flight_and_unknown(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.intend("mail")
    owner.applied("mail")
    owner.intend("pay")
    assert "1/1/0" in row(cli("ps").out, owner.task_id)
    assert "hands over after bank.pay" in row(cli("ps").out, owner.task_id)
    [shape] = cli("ps", "--json").json["items"]
    assert {(e["key"], e["tool"], e["state"]) for e in shape["effects"]} == {
        (owner.key("mail"), "bank.pay", "applied"),
        (owner.key("pay"), "bank.pay", "intended"),
    }
    owner.ask_a_person()
    assert "1/0/1" in row(cli("ps").out, owner.task_id)


def test_how_a_task_ended_is_told_by_a_word(cli: Cli, store: Store) -> None:
    """case R67"""
    for end in ("succeed", "fail", "acknowledge_cancel"):
        owner = start(store)
        if end == "acknowledge_cancel":
            store.cancel(owner.task_id, OPERATOR)
        getattr(owner, end)()
    states = {line.split()[2] for line in cli("ps").out.splitlines()[1:]}
    assert states == FINAL


def test_open_tasks_are_not_crowded_out_by_ended_ones(cli: Cli, store: Store) -> None:
    running = start(store)
    for _ in range(3):
        start(store).succeed()
    ran = cli("ps", "--limit", "2")
    assert running.task_id in ran.out
    assert "--limit" in ran.err
    assert len(cli("ps", "--limit", "2", "-o", "name").out.split()) == 2


def test_names_alone_are_for_pipes(cli: Cli, store: Store) -> None:
    ids = {submit(store).id for _ in range(3)}
    ran = cli("ps", "-o", "name")
    assert set(ran.out.split()) == ids
    assert ran.err == ""


def test_one_json_object_a_line(cli: Cli, store: Store) -> None:
    ids = {submit(store).id for _ in range(3)}
    assert {shape["id"] for shape in cli("ps", "-o", "jsonl").lines} == ids


def test_tasks_are_chosen_by_state_queue_agent_label_and_age(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    old = submit(store, queue="slow", labels={"team": "core"})
    stores.move(3_600_000)
    new = submit(store, agent="other")
    owner = start(store)

    def names(*words: str) -> set[str]:
        return set(cli("ps", "-o", "name", *words).out.split())

    assert names("--queue", "slow") == {old.id}
    assert names("--agent", "other") == {new.id}
    assert names("-l", "team=core") == {old.id}
    assert names("--since", "10m") == {new.id, owner.task_id}
    assert names("--state", "running") == {owner.task_id}
    assert names("--state", "ready,running") == {old.id, new.id, owner.task_id}


def test_a_state_that_there_is_not_is_refused(cli: Cli) -> None:
    ran = cli("ps", "--state", "finished")
    assert ran.code == 2
    assert "succeeded" in ran.complaint


def test_watching_into_a_pipe_tells_each_change_once(cli: Cli, store: Store) -> None:
    submit(store)
    ran = cli("ps", "-w", "--timeout", "0s", "-o", "jsonl")
    assert ran.code == 0
    assert len(ran.lines) == 1


def test_what_an_agent_wrote_cannot_drive_the_terminal(cli: Cli, store: Store) -> None:
    enlisted(store)
    submit(store, agent="evil\x1b[2Jname")
    assert "\x1b" not in cli("ps").out
    assert "\\u001b" in cli("ps", "--json").out


@pytest.mark.parametrize("form", ["yaml", ""])
def test_a_form_that_there_is_not_is_refused(cli: Cli, form: str) -> None:
    ran = cli("ps", "-o", form)
    assert ran.code == 2
    assert "table, wide, json, jsonl, name" in ran.complaint
