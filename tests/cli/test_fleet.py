"""`queue`, `drain`, `deploy-gate`: orders to many, and whether it is safe to deploy."""

from __future__ import annotations

import pytest

from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import TTL, enlisted, grants, start, submit, worker


def test_a_paused_queue_gives_nothing_out_until_it_is_resumed(cli: Cli, store: Store) -> None:
    submit(store)
    assert cli("queue", "pause", "default", "--reason", "incident", "--json").json["paused"] is True
    assert grants(store) == []
    assert "is open" in cli("queue", "resume", "default").out
    assert len(grants(store)) == 1


def test_a_dry_run_pauses_nothing(cli: Cli, store: Store) -> None:
    cli("queue", "pause", "default", "--dry-run")
    assert store.paused() == []


def test_a_worker_is_told_to_drain_by_its_id_a_beginning_or_host_and_pid(
    cli: Cli, store: Store
) -> None:
    for name, words in (("a", "worker-a"), ("b", "worker-b"), ("c", "elsewhere/9")):
        enlisted(store, name, **({"host": "elsewhere", "pid": 9} if name == "c" else {}))
        assert cli("drain", words).code == 0
        asked = {w.id for w in store.workers() if w.drain_by}
        assert f"worker-{name}" in asked


def test_a_build_is_drained_and_another_is_not(cli: Cli, store: Store) -> None:
    enlisted(store, "old", build="v1")
    enlisted(store, "new", build="v2")
    shape = cli("drain", "--build", "v1", "--json").json
    assert [w["worker"] for w in shape["workers"]] == ["worker-old"]
    assert [w.id for w in store.workers() if w.drain_by] == ["worker-old"]


def test_draining_all_asks_first(cli: Cli, store: Store) -> None:
    enlisted(store)
    ran = cli("drain", "--all")
    assert ran.code == 2
    assert "--yes" in ran.complaint
    assert not any(w.drain_by for w in store.workers())
    assert cli("drain", "--all", "--yes").code == 0
    assert all(w.drain_by for w in store.workers())


@pytest.mark.parametrize("words", [("worker-x",), ("--build", "v9")])
def test_a_worker_that_never_was_is_3(cli: Cli, store: Store, words: tuple[str, ...]) -> None:
    enlisted(store)
    ran = cli("drain", *words)
    assert ran.code == 3
    assert "no worker" in ran.complaint


@pytest.mark.parametrize("words", [(), ("worker-old", "--all"), ("--all", "--build", "v1")])
def test_who_is_meant_must_be_said_once(cli: Cli, words: tuple[str, ...]) -> None:
    assert "--build B or --all" in cli("drain", *words).complaint


def test_waiting_for_a_drain_ends_when_they_have_left(cli: Cli, store: Store) -> None:
    enlisted(store)
    store.retire("worker-old")
    assert "nothing to drain" in cli("drain", "worker-old", "--wait", "0s").out


def test_waiting_for_a_drain_that_takes_too_long_exits_124(cli: Cli, store: Store) -> None:
    start(store)
    ran = cli("drain", "worker-old", "--wait", "0s")
    assert ran.code == 124
    assert "host/4711" in ran.err


def test_a_dead_worker_that_holds_nothing_does_not_keep_a_drain_waiting(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    enlisted(store)
    stores.move(TTL + 1)
    assert cli("drain", "worker-old", "--wait", "0s").code == 0


# -- the gate ----------------------------------------------------------------------------------


def test_nothing_running_is_safe(cli: Cli, store: Store) -> None:
    submit(store)
    ran = cli("deploy-gate")
    assert (ran.code, ran.out) == (0, "Safe to deploy: no task is being run.\n")


def test_a_busy_fleet_that_can_hand_over_is_safe(cli: Cli, store: Store) -> None:
    for number in range(20):
        owner = start(store, f"w{number}")
        owner.step()
        owner.intend("pay")
    ran = cli("deploy-gate", "--json")
    assert ran.code == 0
    assert (ran.json["safe"], ran.json["running"], ran.json["blockers"]) == (True, 20, [])
    assert "20 tasks are being run" in ran.json["said"]


def test_an_effect_in_flight_for_longer_than_the_grace_blocks(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    owner.intend("pay")
    for _ in range(4):
        stores.move(8_000)
        owner.renew()
    ran = cli("deploy-gate")
    assert ran.code == 5
    assert owner.task_id in ran.out
    assert "bank.pay in flight for 32s" in ran.out
    assert "nobody can say for how long" in ran.out
    owner.applied("pay")
    assert cli("deploy-gate").code == 0


def test_the_grace_is_that_of_the_worker_which_has_the_task(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    store.enlist(worker("old", grace_ms=120_000))
    owner = start(store)
    owner.intend("pay")
    for _ in range(4):
        stores.move(8_000)
        owner.renew()
    ran = cli("deploy-gate")
    assert ran.code == 0
    assert "within the grace of 2m" in ran.out

    store.enlist(worker("quick", grace_ms=1_000))
    start(store, "quick")
    assert "within the grace of 1.0s to 2m" in cli("deploy-gate").out


def test_a_silent_owner_blocks_for_a_time_that_is_known(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    owner = start(store)
    stores.move(TTL - 1_000)
    ran = cli("deploy-gate")
    assert ran.code == 5
    assert ran.out.count("\n") == 1
    assert f"task {owner.task_id} (agent) of host/4711 blocks: owner silent for 9.0s" in ran.out
    # One second is left, an amnesty may follow, then a tick, a poll and a second.
    assert "for 14s at most" in ran.out
    assert cli("deploy-gate", "--json").json["blockers"][0]["at_most_s"] == 14.0


def test_only_the_build_to_be_replaced_counts(cli: Cli, store: Store, stores: SqliteStores) -> None:
    start(store, "old")
    stores.move(TTL - 1_000)
    assert cli("deploy-gate", "--build", "build-1").code == 5
    ran = cli("deploy-gate", "--build", "build-2")
    assert ran.code == 0
    assert "by build build-2" in ran.out


def test_waiting_at_the_gate_ends_with_5_when_the_time_is_over(
    cli: Cli, store: Store, stores: SqliteStores
) -> None:
    start(store)
    stores.move(TTL - 1_000)
    assert cli("deploy-gate", "--wait", "0s").code == 5


def test_a_task_in_review_does_not_block(cli: Cli, store: Store) -> None:
    owner = start(store)
    owner.intend()
    owner.ask_a_person()
    assert cli("deploy-gate").code == 0


def test_a_store_that_cannot_be_reached_is_not_safe(bare_cli: Cli) -> None:
    ran = bare_cli("deploy-gate", "--db", "postgresql://nobody@127.0.0.1:1/none")
    assert ran.code == 69
    assert ran.complaint
