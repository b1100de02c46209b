"""`outlast effects` and `outlast settle`: what nobody knows, and who says how it was."""

from __future__ import annotations

import pytest

from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import TTL, Owner, body, effect, start


@pytest.fixture
def in_doubt(store: Store) -> Owner:
    """A task in review: its payment was begun, and nobody knows whether it was made."""
    owner = start(store)
    owner.intend("pay")
    owner.ask_a_person()
    return owner


def test_unknown_effects_are_listed_with_what_to_do(
    cli: Cli, store: Store, in_doubt: Owner
) -> None:
    done = start(store)
    done.intend("mail")
    done.applied("mail")
    ran = cli("effects", "--unknown")
    assert in_doubt.key("pay") in ran.out
    assert done.key("mail") not in ran.out
    assert "outlast settle KEY" in ran.err
    everything = cli("effects", "--json").json["items"]
    assert {e["state"] for e in everything} == {"unknown", "applied"}
    assert cli("effects", "--task", done.task_id, "-o", "name").out.strip() == done.key("mail")


def test_a_doubt_of_a_dead_owner_is_listed_though_no_worker_lives_to_say_so(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    owner.intend("mail")
    assert "No effect is unknown" in cli("effects", "--unknown").err
    stores.move(TTL + 1)
    assert cli("effects", "--unknown", "-o", "name").out.strip() == owner.key("mail")
    early = cli("settle", owner.key("mail"), "--applied", "receipt")
    assert early.code == 4
    assert "outlast revoke" in early.err
    assert cli("revoke", owner.task_id, "--reason", "its machine is gone", "--yes").code == 0
    assert cli("settle", owner.key("mail"), "--applied", "receipt").code == 0


def test_no_effects_is_an_empty_list(cli: Cli) -> None:
    assert cli("effects", "--json").json == {"items": []}
    ran = cli("effects")
    assert (ran.code, ran.out) == (0, "")


def test_a_receipt_settles_a_doubt_and_the_task_goes_on(
    cli: Cli, store: Store, in_doubt: Owner
) -> None:
    key = in_doubt.key("pay")
    ran = cli("settle", key, "--applied", '{"receipt": 17}', "--reason", "looked", "--by", "ann")
    assert ran.code == 0
    assert "settled as applied" in ran.out
    settled = body(store.last(in_doubt.task_id, "effect.settled"))
    assert (settled["applied"], settled["result"], settled["by"]) == (True, {"receipt": 17}, "ann")
    assert store.get(in_doubt.task_id).state == "ready"


def test_a_receipt_need_not_be_json(cli: Cli, store: Store, in_doubt: Owner) -> None:
    shape = cli("settle", in_doubt.key("pay"), "--applied", "ch_17", "--json").json
    assert shape["result"] == "ch_17"
    assert shape["task_state"] == "ready"


def test_not_applied_is_settled_as_such(cli: Cli, store: Store, in_doubt: Owner) -> None:
    ran = cli("settle", in_doubt.key("pay"), "--not-applied", "--reason", "the bank says no")
    assert ran.code == 0
    assert effect(store, in_doubt.key("pay")).state == "not_applied"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--applied RECEIPT or --not-applied"),
        (("--not-applied",), "--reason"),
        (("--applied", "x", "--not-applied"), "--applied RECEIPT or --not-applied"),
        (("--applied", "y" * 1_100_000), "limit"),
    ],
)
def test_half_an_answer_is_refused(
    cli: Cli, in_doubt: Owner, words: tuple[str, ...], says: str
) -> None:
    ran = cli("settle", in_doubt.key("pay"), *words)
    assert ran.code == 2
    assert says in ran.complaint


def test_not_applied_is_refused_while_an_observation_says_applied(
    cli: Cli, store: Store, in_doubt: Owner
) -> None:
    """case R78: with the receipt. (The reaper would end this review by itself.)"""
    key = in_doubt.key("pay")
    store.observe(in_doubt.task_id, 1, in_doubt.worker, key, applied=True, result="ch_99")
    ran = cli("settle", key, "--not-applied", "--reason", "I think so")
    assert ran.code == 4
    assert "ch_99" in ran.complaint


def test_an_effect_without_doubt_is_refused_with_its_result(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.intend("mail")
    owner.applied("mail", "sent-1")
    ran = cli("settle", owner.key("mail"), "--not-applied", "--reason", "no")
    assert ran.code == 4
    assert "sent-1" in ran.complaint


def test_a_key_that_there_is_not_is_3(cli: Cli) -> None:
    ran = cli("settle", "nothing", "--applied", "x")
    assert ran.code == 3
    assert "there is no effect" in ran.complaint


def test_a_dry_run_of_settle_writes_nothing(
    cli: Cli, stores: SqliteStores, in_doubt: Owner
) -> None:
    before = stores.state()
    ran = cli("settle", in_doubt.key("pay"), "--applied", "x", "--dry-run")
    assert "Would settle" in ran.out
    assert stores.state() == before
