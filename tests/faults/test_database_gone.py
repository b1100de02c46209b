"""The database restarts, dies, refuses to write, or is full: nothing is lost, nothing repeated."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from outlast.core.errors import Unavailable
from outlast.core.model import Answer, Offer, Written
from outlast.store.open import open_store
from tests.faults import crew
from tests.faults.deaths import Country
from tests.faults.disks import SmallDisks, small_disk
from tests.faults.judge import judge
from tests.faults.treks import Treks
from tests.store import world
from tests.support.postgres import PostgresServer
from tests.support.postgres_release import Release
from tests.support.processes import Processes

AWAY_S = 1.0
SHORT_TTL_MS, LONG_TTL_MS = 3_000, 30_000


def killed(server: PostgresServer) -> None:
    server.kill9()
    time.sleep(AWAY_S)
    server.start()


def restarted(server: PostgresServer) -> None:
    server.restart("fast")


def frozen(server: PostgresServer) -> None:
    server.freeze()
    time.sleep(AWAY_S)
    server.thaw()


def read_only_for_a_while(server: PostgresServer) -> None:
    only_readable(server)
    time.sleep(AWAY_S)
    writable_again(server)


def only_readable(server: PostgresServer) -> None:
    server.run("alter system set default_transaction_read_only = on")
    server.run("select pg_reload_conf()")


def writable_again(server: PostgresServer) -> None:
    options = "-c default_transaction_read_only=off"
    with psycopg.connect(server.url(), autocommit=True, options=options) as connection:
        connection.execute("alter system reset default_transaction_read_only")
        connection.execute("select pg_reload_conf()")


@pytest.mark.postgres
@pytest.mark.timeout(120)
@pytest.mark.parametrize("harm", [killed, restarted, frozen, read_only_for_a_while])
def test_tasks_go_on_where_they_were_when_the_database_is_back(
    harm: Callable[[PostgresServer], None],
    own_postgres: Callable[..., PostgresServer],
    processes: Processes,
    tmp_path: Path,
) -> None:
    """Cases R23, R55; promise P12. The outage is shorter than a lease, so that none is lost."""
    server = own_postgres()
    url = crew.migrated(server.create_database())
    with closing(Country(url, processes, tmp_path)) as country:
        treks = Treks(country, ttl_ms=LONG_TTL_MS)
        harm(server)
        treks.all_end()
        treks.check_nothing_is_lost()
        treks.check_nothing_is_repeated()


@pytest.mark.postgres
@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", [PostgresServer.stop, PostgresServer.kill9])
def test_no_living_owner_is_declared_dead_by_an_outage_longer_than_its_lease(
    end: Callable[[PostgresServer], None],
    own_postgres: Callable[..., PostgresServer],
    processes: Processes,
    tmp_path: Path,
) -> None:
    """Case R82: reapers that have missed something spare the lapsed once."""
    server = own_postgres()
    url = crew.migrated(server.create_database())
    with closing(Country(url, processes, tmp_path)) as country:
        treks = Treks(country, ttl_ms=SHORT_TTL_MS)
        end(server)
        time.sleep(SHORT_TTL_MS * 1.5 / 1_000)
        server.start()
        treks.all_end()
        treks.check_nothing_is_lost()
        treks.check_nobody_was_declared_dead()


@pytest.mark.postgres
def test_a_database_that_may_only_be_read_says_so_and_the_same_offer_is_written_later(
    own_postgres: Callable[..., PostgresServer],
) -> None:
    server = own_postgres()
    url = crew.migrated(server.create_database())
    store = open_store(url)
    owner = world.start(store)
    offer = owner.offer(("note", {"text": "kept", "data": None}))
    only_readable(server)

    with pytest.raises(Unavailable, match="read-only"):
        store.append([offer])
    with pytest.raises(Unavailable, match="read-only"):
        world.submit(store)
    assert world.kinds(store, owner.task_id)[-1] == "lease.granted"

    writable_again(server)
    answered = _until_written(owner, offer)
    assert isinstance(answered, Written)
    owner.succeed()
    assert not judge(url).violations
    store.close()


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = crew.migrated(f"sqlite:{disk.folder / 'outlast.db'}")
        store = open_store(url)
        owner = world.start(store)
        owner.step("before")
        disk.fill()

        offer, complaint = fill_up(owner)
        assert "disk is full" in complaint
        assert world.kinds(store, owner.task_id)[2] == "step.done", "reading goes on"

        disk.make_room()
        assert isinstance(owner.send(offer), Written)
        owner.succeed()
        store.close()
        assert not judge(url).violations


@pytest.mark.postgres
@pytest.mark.timeout(120)
def test_a_server_whose_disk_is_full_loses_nothing(
    postgres_wheel: Release, own_postgres: Callable[..., PostgresServer]
) -> None:
    with closing(SmallDisks.of(postgres_wheel)) as release:
        server = own_postgres(release=release)
        url = crew.migrated(server.create_database())
        store = open_store(url)
        owner = world.start(store)
        owner.step("before")
        release.disks[0].fill()

        offer, complaint = fill_up(owner)
        assert "No space left" in complaint or "closed the connection" in complaint, complaint

        release.disks[0].make_room()
        if not server.running:
            server.restart()
        assert isinstance(_until_written(owner, offer), Written)
        owner.succeed()
        store.close()
        verdict = judge(url)
        assert not verdict.violations, verdict.examples
        server.close()


def fill_up(owner: world.Owner) -> tuple[Offer, str]:
    """Write until it cannot be written any more: the offer that was not, and what was said."""
    for number in range(2_000):
        # Pages of noise: what can be compressed takes no room.
        offer = owner.offer(("note", {"text": secrets.token_hex(25_000), "data": number}))
        try:
            owner.send(offer)
        except Unavailable as error:
            return offer, str(error)
    raise AssertionError("there was always room for more")


def test_a_folder_that_may_only_be_read_says_so(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        url = crew.migrated(f"sqlite:{disk.folder / 'outlast.db'}")
        store = open_store(url)
        owner = world.start(store)
        offer = owner.offer(("note", {"text": "kept", "data": None}))
        store.close()
        disk.allow_writes(False)

        with pytest.raises(Unavailable, match=r"outlast.db.*(read-?only|unable to open)"):
            open_store(url).append([offer])

        disk.allow_writes(True)
        owner.store = open_store(url)
        assert isinstance(owner.send(offer), Written)
        owner.store.close()
        assert not judge(url).violations


def _until_written(owner: world.Owner, offer: Offer) -> Answer:
    """Sent again as a worker would; the server takes a moment to read its configuration."""
    for _ in range(50):
        try:
            return owner.send(offer)
        except Unavailable:
            time.sleep(0.05)
    raise AssertionError("it never could be written again")
