"""`outlast show` and `outlast log`: one task, how it stands and why, and all that happened."""

from __future__ import annotations

import pytest

from outlast.core.chain import verify
from outlast.core.model import Event
from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import OPERATOR, TTL, claim, reap, signal, start, submit


def test_a_success_a_failure_and_a_cancellation_are_told_apart_with_why(
    cli: Cli, store: Store
) -> None:
    """case R67"""
    won, lost, stopped = start(store), start(store), start(store)
    won.succeed({"url": "https://pr/7"})
    lost.fail()
    store.cancel(stopped.task_id, OPERATOR)
    stopped.acknowledge_cancel()
    said = {owner: cli("show", owner.task_id).out for owner in (won, lost, stopped)}
    assert "state       succeeded ✔" in said[won]
    assert "https://pr/7" in said[won]
    assert "state       failed ✘" in said[lost]
    assert "error: ValueError: no" in said[lost]
    assert "state       cancelled ⊘" in said[stopped]
    assert "by ann: because" in said[stopped]


def test_a_task_cancelled_without_an_owner_says_why_too(cli: Cli, store: Store) -> None:
    task = submit(store)
    cli("cancel", task.id, "--reason", "superseded", "--by", "bob")
    assert "by bob: superseded" in cli("show", task.id).out
    assert cli("show", task.id, "--json").json["why"] == "by bob: superseded"


def test_what_a_stopped_task_had_done_stays_readable(cli: Cli, store: Store) -> None:
    """case R68: a stop never destroys work."""
    owner = start(store)
    owner.step("plan", {"parts": ["a", "b"]})
    owner.intend("mail")
    owner.applied("mail")
    store.cancel(owner.task_id, OPERATOR)
    owner.acknowledge_cancel()
    text = cli("show", owner.task_id).out
    assert '{"parts":["a","b"]}' in text
    shape = cli("show", owner.task_id, "--json").json
    assert [(s["key"], s["value"]) for s in shape["steps"]] == [("plan", {"parts": ["a", "b"]})]
    assert shape["effects_full"][0]["result"] == "receipt"
    assert shape["cancel"]["by"] == "ann"


def test_every_owner_is_listed_with_how_its_lease_ended(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    start(store, "first")
    stores.move(TTL + 1)
    reap(store)
    second = claim(store, "second")
    second.release("drain")
    claim(store, "third")
    shape = cli("ps", "--json").json["items"][0]
    shape = cli("show", shape["id"], "--json").json
    assert [(e["epoch"], e["worker"], e["reason"], e["ended"]) for e in shape["ownership"]] == [
        (1, "worker-first", "first", "lease.expired"),
        (2, "worker-second", "expired", "lease.released (drain)"),
        (3, "worker-third", "drain", None),
    ]
    text = cli("show", shape["id"]).out
    assert "epoch 3" in text
    assert "holds it" in text


def test_refused_writes_of_a_zombie_are_shown(cli: Cli, store: Store, stores: SqliteStores) -> None:
    zombie = start(store, "zombie")
    stores.move(TTL + 1)
    reap(store)
    claim(store, "heir")
    zombie.step()
    shape = cli("show", zombie.task_id, "--json").json
    assert [(o["kind"], o["worker"], o["count"]) for o in shape["observations"]] == [
        ("refused", "worker-zombie", 1)
    ]
    assert "came too late, or was refused" in cli("show", zombie.task_id).out


def test_a_review_says_what_a_person_must_decide(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.intend()
    owner.ask_a_person()
    text = cli("show", owner.task_id).out
    assert "review !" in text
    assert f"effect_unknown of {owner.key('pay')}: a person must decide" in text
    assert "outlast settle" in text


def test_a_wait_says_for_what(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.wait("approval", until_ms=store.now_ms() + 60_000)
    signal(store, owner.task_id, "other", {"n": 1})
    text = cli("show", owner.task_id).out
    assert "for approval, until 2027-" in text
    assert '{"n":1}' in text


def test_a_beginning_of_an_id_will_do(cli: Cli, store: Store, stores: SqliteStores) -> None:
    task = submit(store)
    assert cli("show", task.id[:14], "--json").json["id"] == task.id
    ran = cli("show", "01a22e7e-0000", "--json")
    assert ran.code == 3
    assert "there is no task '01a22e7e-0000'" in ran.complaint


def test_a_beginning_that_could_be_two_tasks_is_refused(cli: Cli, store: Store) -> None:
    first, second = submit(store), submit(store)
    beginning = first.id[:8]
    assert second.id.startswith(beginning)
    ran = cli("show", beginning)
    assert ran.code in (2, 3)
    assert beginning in ran.complaint


def test_the_log_is_what_the_store_has_and_can_be_hashed(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.step()
    owner.succeed()
    lines = cli("log", owner.task_id, "-o", "jsonl").lines
    assert set(lines[0]) == {"task", "seq", "holder", "kind", "body", "at_ms", "digest"}
    events = [Event(line.pop("task"), **line) for line in lines]
    assert verify(events) == 4
    assert cli("log", owner.task_id, "--json").json["items"][3]["kind"] == "task.succeeded"


def test_the_log_table_names_what_happened(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.note("hello")
    lines = cli("log", owner.task_id).out.splitlines()
    assert lines[0].split() == ["SEQ", "AT", "KIND", "HOLDER", "BODY"]
    assert [line.split()[2] for line in lines[1:]] == ["task.submitted", "lease.granted", "note"]


def test_a_part_of_the_log(cli: Cli, store: Store, stores: SqliteStores) -> None:
    owner = start(store)
    stores.move(60_000)
    owner.note()
    assert len(cli("log", owner.task_id, "-o", "jsonl", "--after", "1").lines) == 2
    assert len(cli("log", owner.task_id, "-o", "jsonl", "--limit", "1").lines) == 1
    assert [
        e["kind"] for e in cli("log", owner.task_id, "-o", "jsonl", "--since", "30s").lines
    ] == ["note"]


def test_following_ends_with_the_task(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.succeed()
    assert cli("log", owner.task_id, "-f", "-o", "jsonl").lines[-1]["kind"] == "task.succeeded"


def test_following_stops_when_the_time_is_over(cli: Cli, store: Store) -> None:
    owner = start(store)
    ran = cli("log", owner.task_id, "-f", "-o", "jsonl", "--timeout", "0s")
    assert ran.code == 124
    assert len(ran.lines) == 2
    assert "goes on" in ran.err


@pytest.mark.parametrize("command", ["show", "log", "retry"])
def test_a_task_that_there_is_not_is_3(cli: Cli, command: str) -> None:
    ran = cli(command, "01a22e7e-04e8-742e-9c8b-fda105d2bfa4")
    assert ran.code == 3
    assert "there is no task" in ran.complaint


def test_a_row_whose_input_is_no_json_can_still_be_shown(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    task = submit(store)
    stores.change("update tasks set input = '{broken' where id = ?", task.id)
    assert cli("show", task.id, "--json").json["input"] == "{broken"
    assert cli("ps", "--json").json["items"][0]["input"] == "{broken"
