"""A commit whose answer is lost, or is a warning: asked again, and on the log once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from outlast.core.errors import Unavailable
from outlast.core.model import Offer, Written
from outlast.store.open import open_store
from outlast.store.verbs import Store
from tests.faults import crew
from tests.faults.deaths import Country, Point
from tests.faults.judge import judge
from tests.store import world
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.processes import Processes
from tests.support.waiting import until
from tests.support.wire import Wire

pytestmark = pytest.mark.postgres

COMMIT = b"commit\x00"  # the whole statement: "read committed" stands in every beginning
# Of every kind of commit, the words in the request by which the wire knows it.
ON_THE_WIRE = [
    b"lease.granted",
    b"step.done",
    b"effect.intended",
    b"effect.applied",
    b"wait.started",
    b"task.succeeded",
]


# -- the wire ----------------------------------------------------------------------------------


@pytest.fixture
def wired(
    postgres_server: PostgresServer, postgres_url: str, wire: Callable[[int], Wire]
) -> Iterator[tuple[Store, Wire, str]]:
    """A store that reaches its database through a wire."""
    crew.migrated(postgres_url)
    before = wire(postgres_server.port)
    store = open_store(before.url(postgres_url))
    yield store, before, postgres_url
    store.close()


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_commit_lost_on_the_wire_is_no_riddle(lost: str, wired: tuple[Store, Wire, str]) -> None:
    store, wire, url = wired
    owner = world.start(store)
    offer = owner.offer(owner.releasing("drain"))
    trap = wire.lose_request(COMMIT) if lost == "request" else wire.lose_answer(COMMIT)

    with pytest.raises(Unavailable):
        store.append([offer])
    trap.wait()
    there = "lease.released" in world.kinds(store, owner.task_id)
    assert there == (lost == "answer")

    assert isinstance(owner.send(offer), Written)
    assert world.kinds(store, owner.task_id).count("lease.released") == 1
    assert store.get(owner.task_id).state == "ready"
    assert not judge(url).violations


def test_a_claim_whose_commit_was_not_heard_gives_the_same_lease_again(
    wired: tuple[Store, Wire, str],
) -> None:
    store, wire, url = wired
    world.submit(store)
    asked = world.ask(store)
    wire.lose_answer(COMMIT)
    with pytest.raises(Unavailable):
        store.claim(asked)
    [grant] = store.claim(asked)
    assert grant.lease.epoch == 1
    assert world.kinds(store, grant.task.id) == ["task.submitted", "lease.granted"]
    assert not judge(url).violations


@pytest.mark.timeout(120)
def test_a_worker_does_not_mind_what_the_wire_loses(
    postgres_server: PostgresServer,
    postgres_url: str,
    wire: Callable[[int], Wire],
    processes: Processes,
    tmp_path: Path,
) -> None:
    """The request or the answer of each kind of write, once each, under a real worker."""
    crew.migrated(postgres_url)
    before = wire(postgres_server.port)
    address = before.url(postgres_url)
    with closing(Country(postgres_url, processes, tmp_path, workers_url=address)) as country:
        for words in ON_THE_WIRE:
            for lay in (before.lose_request, before.lose_answer):
                trap = lay(words)
                country.live()
                assert trap.sprung, f"nothing with {words!r} was lost"


# -- a pooler ----------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_workers_behind_a_pooler_lose_nothing(
    postgres_server: PostgresServer,
    postgres_url: str,
    pgbouncer: Callable[..., PgBouncer],
    processes: Processes,
    tmp_path: Path,
) -> None:
    """Case R56: transaction mode, one of the workers is killed."""
    crew.migrated(postgres_url)
    pooled = pgbouncer(postgres_server).url(postgres_url) + "?pooler=1"
    with closing(Country(postgres_url, processes, tmp_path, workers_url=pooled)) as country:
        country.live()
        assert country.live("after", Point("effect.intended", 1)).killed


# -- a warning ---------------------------------------------------------------------------------


def test_a_commit_that_is_answered_with_a_warning_is_not_believed(
    own_postgres: Callable[..., PostgresServer],
) -> None:
    """Case R85: the standby is gone, and somebody gives up waiting for it."""
    server = own_postgres()
    url = crew.migrated(server.create_database())
    store = open_store(url)
    owner = world.start(store)
    note = owner.offer(("note", {"text": "kept", "data": None}))
    demand_a_standby(server)

    with GivingUp(server):
        _expect_disbelief(store, owner, note)

    need_no_standby(server)
    assert isinstance(owner.send(note), Written)
    assert world.kinds(store, owner.task_id).count("note") == 1
    assert isinstance(owner.release("drain"), Written)
    assert not judge(url).violations
    store.close()


def _expect_disbelief(store: Store, owner: world.Owner, note: Offer) -> None:
    with pytest.raises(Unavailable, match="synchronous replication"):
        store.append([note])
    assert world.kinds(store, owner.task_id)[-1] == "note", "it is committed here"
    # So it is there when it is sent again; but that no standby has it is as true as before.
    for ask in (lambda: store.append([note]), lambda: store.stands(note)):
        with pytest.raises(Unavailable, match="synchronous replication"):
            ask()


class GivingUp:
    """A thread that cancels whoever waits for a standby, as an impatient operator does."""

    def __init__(self, server: PostgresServer) -> None:
        self._connection = psycopg.connect(server.url(), autocommit=True)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._done.wait(0.05):
            self._connection.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
            )


def demand_a_standby(server: PostgresServer) -> None:
    _configure(server, "alter system set synchronous_standby_names = 'nobody'", "nobody")


def need_no_standby(server: PostgresServer) -> None:
    _configure(server, "alter system reset synchronous_standby_names", "")


def _configure(server: PostgresServer, statement: str, expected: str) -> None:
    server.run(statement)
    server.run("select pg_reload_conf()")
    shown = "select current_setting('synchronous_standby_names')"
    until(lambda: server.run(shown) == [(expected,)], "the server to read its configuration")
