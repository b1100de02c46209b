"""`signal`, `cancel`, `retry`, `revoke`: what a person orders, and what is refused."""

from __future__ import annotations

import pytest

from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import TTL, body, claim, grants, kinds, start, submit


def test_a_task_without_an_owner_is_cancelled_at_once(cli: Cli, store: Store) -> None:
    """case R40"""
    task = submit(store)
    ran = cli("cancel", task.id, "--reason", "superseded", "--by", "ann")
    assert ran.code == 0
    assert "is cancelled" in ran.out
    ended = store.last(task.id, "task.cancelled")
    assert (body(ended)["by"], body(ended)["why"]) == ("ann", "superseded")


def test_an_owner_is_asked_and_the_answer_says_so(cli: Cli, store: Store) -> None:
    owner = start(store)
    shape = cli("cancel", owner.task_id, "--reason", "no", "--json").json
    assert (shape["answer"], shape["state"], shape["marks"]) == ("asked", "running", [])
    assert shape["cancel"]["why"] == "no"
    assert owner.renew().cancel_why == "no"


def test_cancelling_twice_gives_the_same_answer(cli: Cli, store: Store) -> None:
    """case R42"""
    task = submit(store)
    first = cli("cancel", task.id, "--reason", "a")
    again = cli("cancel", task.id, "--reason", "b")
    assert (first.code, again.code) == (0, 0)
    assert kinds(store, task.id).count("task.cancelled") == 1


def test_a_task_that_has_ended_is_not_changed_by_a_cancel(cli: Cli, store: Store) -> None:
    """case R42"""
    owner = start(store)
    owner.succeed()
    ran = cli("cancel", owner.task_id, "--reason", "late")
    assert ran.code == 4
    assert "succeeded" in ran.complaint
    assert "nothing was changed" in ran.complaint
    assert kinds(store, owner.task_id)[-1] == "task.succeeded"


def test_force_without_a_terminal_is_refused_until_yes_is_said(cli: Cli, store: Store) -> None:
    owner = start(store)
    ran = cli("cancel", owner.task_id, "--reason", "now", "--force")
    assert ran.code == 2
    assert "--yes" in ran.complaint
    assert store.get(owner.task_id).state == "running"
    ran = cli("cancel", owner.task_id, "--reason", "now", "--force", "--yes")
    assert ran.code == 0
    assert store.get(owner.task_id).state == "cancelled"
    assert "may still be running on" in ran.out
    assert "host" in ran.out


@pytest.mark.parametrize(
    "words", [("cancel", "--reason", "r"), ("revoke", "--reason", "r", "--now"), ("signal", "x")]
)
def test_a_dry_run_says_what_would_be_and_writes_nothing(
    cli: Cli, store: Store, stores: SqliteStores, words: tuple[str, ...]
) -> None:
    owner = start(store)
    before = stores.state()
    command, *rest = words
    ran = cli(command, owner.task_id, *rest, "--dry-run")
    assert ran.code == 0
    assert ran.out.startswith("Would ")
    assert stores.state() == before


def test_a_cancel_needs_a_reason(cli: Cli, store: Store) -> None:
    ran = cli("cancel", submit(store).id)
    assert ran.code == 2
    assert "--reason" in ran.complaint


def test_a_failed_task_is_opened_again_with_what_it_has_on_record(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.step()
    owner.fail()
    ran = cli("retry", owner.task_id, "--reason", "fixed")
    assert ran.code == 0
    assert store.get(owner.task_id).state == "ready"
    assert kinds(store, owner.task_id)[-1] == "task.reopened"
    assert claim(store).epoch == 2


@pytest.mark.parametrize("state", ["ready", "running"])
def test_a_task_that_is_open_is_not_reopened(cli: Cli, store: Store, state: str) -> None:
    """case R19: the refusal says how it stands."""
    task_id = submit(store).id if state == "ready" else start(store).task_id
    ran = cli("retry", task_id)
    assert ran.code == 4
    assert f"is {state}" in ran.complaint
    assert "nothing was written" in ran.complaint


def test_a_revoked_owner_can_write_nothing_and_the_heir_waits_for_the_old_expiry(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    stores.move(1_000)
    ran = cli("revoke", owner.task_id, "--reason", "stuck")
    assert ran.code == 0
    assert owner.step().why == "lost"  # type: ignore[union-attr]
    assert grants(store, "heir") == []
    stores.move(TTL - 1_000)
    assert claim(store, "heir").epoch == 2


def test_revoke_now_is_due_at_once_and_asks_first(cli: Cli, store: Store) -> None:
    owner = start(store)
    assert cli("revoke", owner.task_id, "--reason", "stuck", "--now").code == 2
    assert cli("revoke", owner.task_id, "--reason", "stuck", "--now", "--yes").code == 0
    assert claim(store, "heir").epoch == 2


def test_a_signal_is_kept_for_the_task(cli: Cli, store: Store) -> None:
    owner = start(store)
    ran = cli("signal", owner.task_id, "approval", '{"ok": true}', "--by", "ann")
    assert ran.code == 0
    [kept] = store.signals(owner.task_id)
    assert (kept.name, kept.payload, kept.sent_by) == ("approval", '{"ok":true}', "ann")


def test_a_signal_sent_twice_with_one_id_is_one(cli: Cli, store: Store) -> None:
    owner = start(store)
    first = cli("signal", owner.task_id, "approval", "--id", "s1", "--json").json
    again = cli("signal", owner.task_id, "approval", "--id", "s1", "--json").json
    assert (first["new"], again["new"]) == (True, False)
    assert len(store.signals(owner.task_id)) == 1


def test_a_signal_wakes_who_waits_for_it(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.wait("approval")
    cli("signal", owner.task_id, "approval", "7")
    assert store.get(owner.task_id).state == "ready"


def test_a_task_that_has_ended_takes_no_signal(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.succeed()
    ran = cli("signal", owner.task_id, "approval", "1")
    assert ran.code == 4
    assert "succeeded" in ran.complaint


@pytest.mark.parametrize("value", ["{", "NaN", "yes"])
def test_a_signals_value_is_json(cli: Cli, store: Store, value: str) -> None:
    owner = start(store)
    ran = cli("signal", owner.task_id, "approval", value)
    assert ran.code == 2
    assert store.signals(owner.task_id) == []
