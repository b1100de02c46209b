"""What may be lost is not measured: a bench against a store that does not sync refuses."""

import sqlite3

import psycopg
import pytest

from bench.comparison import Comparison, Plan
from bench.limits import assert_full
from bench.rates import Sizes
from bench.stores import NotDurable, Postgres, redis_weakness
from bench.subject import CONTENDERS, Stores

TINY = Sizes(sequence=20)


@pytest.fixture(scope="module")
def store():
    made = Postgres()
    yield made
    made.close()


@pytest.fixture
def url(store):
    made = store.make()
    yield made
    store.drop(made)


@pytest.mark.postgres
def test_a_server_of_ours_is_durable(store, url):
    store.assert_durable(url)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("weakened", "says"),
    [
        ("alter database {} set synchronous_commit = off", "synchronous_commit is off"),
        ("alter role postgres in database {} set synchronous_commit = local", "synchronous_commit"),
        ("create unlogged table jobs (id int)", "the table jobs is unlogged"),
        ("set synchronous_commit = off", "a client said"),
        ("set synchronous_commit to 'local'", "a client said"),
        (
            "create function f() returns int language sql set synchronous_commit = off"
            " as 'select 1'",
            "the function f changes it",
        ),
    ],
)
def test_whoever_turns_syncing_off_is_not_measured(store, url, weakened, says):
    with psycopg.connect(url, autocommit=True) as client:
        client.execute(weakened.format(url.rpartition("/")[2]))
    with pytest.raises(NotDurable, match=says):
        store.assert_durable(url)


@pytest.mark.postgres
def test_an_unlogged_table_without_tasks_may_be_lost(store, url):
    with psycopg.connect(url, autocommit=True) as client:
        client.execute("create unlogged table leaders (id int)")
    store.assert_durable(url, ["leaders"])


@pytest.mark.postgres
@pytest.mark.parametrize("setting", ["synchronous_commit", "fsync", "full_page_writes"])
def test_a_whole_run_refuses_a_server_that_does_not_sync(setting):
    plan = Plan(CONTENDERS[:1], ["sequence"], TINY, 1, limit_s=1, idle_s=1, held_s=1)
    with pytest.raises(NotDurable, match=f"{setting} is off"):
        Comparison(plan, Stores({setting: "off"})).run()


@pytest.mark.parametrize(("level", "refused"), [("full", False), ("normal", True), ("off", True)])
def test_the_limit_of_sqlite_is_taken_at_full_syncing_alone(level, refused):
    connection = sqlite3.connect(":memory:")
    connection.execute(f"pragma synchronous = {level}")
    try:
        if refused:
            with pytest.raises(NotDurable):
                assert_full(connection)
        else:
            assert_full(connection)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("appendonly", "appendfsync", "says"),
    [
        ("yes", "always", ""),
        ("yes", "everysec", "appendfsync is everysec"),
        ("no", "always", "appendonly is no"),
    ],
)
def test_a_redis_that_does_not_sync_every_write_is_weak(appendonly, appendfsync, says):
    answers = {"appendonly": appendonly, "appendfsync": appendfsync}
    told = [
        f"*2\r\n${len(name)}\r\n{name}\r\n${len(value)}\r\n{value}\r\n"
        for name, value in answers.items()
    ]
    assert redis_weakness(told) == says


def test_a_redis_that_says_nothing_is_weak():
    assert redis_weakness(["-ERR unknown command"]) != ""
