"""The client: what it sends, what it refuses before sending, threads, forks, asyncio, outages."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from outlast.client import Client, Submission
from outlast.client.pool import Pool
from outlast.core import limits
from outlast.core.errors import (
    BadSetting,
    KeyReused,
    NotSerializable,
    PayloadTooLarge,
    TaskCancelled,
    TaskFailed,
    Unavailable,
    UnknownTask,
    UsageError,
)
from outlast.store.open import open_store
from outlast.store.verbs import Store
from tests.store.world import claim


@pytest.fixture
def client(sqlite_url: str) -> Iterator[Client]:
    with Client(sqlite_url, by="tests") as client:
        yield client


@pytest.fixture
def store(client: Client) -> Iterator[Store]:
    store = open_store(client.db, create=True)
    yield store
    store.close()


def test_a_task_is_stored_with_all_that_was_said_of_it(client: Client) -> None:
    task = client.submit(
        "agent", {"n": 1}, key="k", queue="slow", priority=-2, delay="10m", labels={"a": "b"}
    )
    row = task.status()
    assert (row.agent, row.input, row.key, row.queue) == ("agent", '{"n":1}', "k", "slow")
    assert (row.priority, row.labels, row.due_ms) == (-2, '{"a":"b"}', row.created_ms + 600_000)


def test_the_same_key_gives_the_same_task_and_other_input_is_an_error(client: Client) -> None:
    """case R50"""
    first, again = (client.submit("agent", {"n": 1}, key="k") for _ in range(2))
    assert (first.id, first.created, again.created) == (again.id, True, False)
    with pytest.raises(KeyReused, match=first.id):
        client.submit("agent", {"n": 2}, key="k")


def test_many_tasks_are_stored_in_order(client: Client) -> None:
    tasks = client.submit_many(
        [("agent", {"n": 1}), Submission(agent="other", input={"n": 2}, priority=5)]
    )
    assert [task.status().agent for task in tasks] == ["agent", "other"]
    assert client.submit_many([]) == []


def test_one_bad_task_among_many_sends_none(client: Client) -> None:
    with pytest.raises(NotSerializable):
        client.submit_many([("agent", {"n": 1}), ("agent", {"n": float("nan")})])
    assert client.find() == []


@dataclasses.dataclass
class Spec:
    name: str
    sizes: list[int]


@pytest.mark.parametrize(
    "value",
    [None, True, 2**63, -(2**63), "a\0b", "🦉", 0.1, [1, [2]], {"a": {"b": None}}, Spec("x", [1])],
    ids=repr,
)
def test_values_that_come_back_exactly_are_taken(client: Client, value: Any) -> None:
    """case R62"""
    assert client.submit("agent", {"x": value}).created


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", {1, 2}, b"bytes", (1, 2), {1: 2}, threading.Lock()],
    ids=lambda value: type(value).__name__,
)
def test_values_that_would_not_come_back_exactly_are_refused_before_sending(
    client: Client, value: Any
) -> None:
    """case R62"""
    with pytest.raises(NotSerializable, match="'x' of 'agent'"):
        client.submit("agent", {"x": value})
    assert client.find() == []


@pytest.mark.parametrize("arguments", [[1], "text", 7, [("a", 1)]])
def test_arguments_are_a_mapping(client: Client, arguments: Any) -> None:
    with pytest.raises(BadSetting, match="must be a mapping"):
        client.submit("agent", arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"agent": ""},
        {"agent": "a\0b"},
        {"agent": 7},
        {"queue": "x" * 300},
        {"key": ""},
        {"key": "\ud800"},
        {"key": "k" * 600},
        {"priority": 10**400},
        {"priority": True},
        {"priority": 0.5},
        {"delay": -1},
        {"delay": float("nan")},
        {"labels": {"a": 1}},
        {"labels": {"": "b"}},
        {"labels": ["a"]},
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused_before_sending(
    client: Client, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        client.submit(**{"agent": "agent", "input": {}, **options})
    assert client.find() == []


def test_input_over_the_limit_is_refused_even_in_small_parts(client: Client) -> None:
    half = "x" * (limits.PAYLOAD_BYTES // 2)
    with pytest.raises(PayloadTooLarge):
        client.submit("agent", {"a": half, "b": half})


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), (0.0, -0.0), (False, None)])
def test_what_is_equal_in_python_and_other_json_is_other_input(
    client: Client, one: Any, other: Any
) -> None:
    client.submit("agent", {"x": one}, key="k")
    with pytest.raises(KeyReused):
        client.submit("agent", {"x": other}, key="k")


def test_results_and_the_two_other_ends(client: Client, store: Store) -> None:
    won, lost, stopped = (client.submit("agent", {"n": n}) for n in range(3))
    claim(store).succeed({"url": "x"})
    claim(store).fail()
    stopped.cancel("superseded")
    assert won.result(timeout=5) == {"url": "x"}
    with pytest.raises(TaskFailed, match="ValueError: no"):
        lost.result(timeout=5)
    with pytest.raises(TaskCancelled, match="by tests: superseded"):
        stopped.result(timeout=5)


def test_a_task_that_goes_on_is_a_timeout(client: Client) -> None:
    with pytest.raises(TimeoutError, match="it is ready"):
        client.submit("agent").result(timeout=0)


def test_a_task_in_review_is_a_timeout_that_says_so(client: Client, store: Store) -> None:
    task = client.submit("agent")
    owner = claim(store)
    owner.intend()
    owner.ask_a_person()
    with pytest.raises(TimeoutError, match="a person must settle it"):
        task.result(timeout=0)


def test_a_signal_reaches_the_task_once(client: Client, store: Store) -> None:
    task = client.submit("agent")
    assert task.signal("approval", {"ok": True}, id="s1") is True
    assert task.signal("approval", {"ok": True}, id="s1") is False
    assert [s.payload for s in store.signals(task.id)] == ['{"ok":true}']


def test_an_unknown_task_is_an_error_at_once(client: Client) -> None:
    client.submit("agent")
    with pytest.raises(UnknownTask):
        client.task("01a22e7e-04e8-742e-9c8b-fda105d2bfa4")


def test_tasks_are_found_by_key_and_label(client: Client) -> None:
    task = client.submit("agent", key="k", labels={"team": "core"})
    client.submit("agent")
    assert [found.id for found in client.find(key="k")] == [task.id]
    assert [found.id for found in client.find(labels={"team": "core"})] == [task.id]


# -- threads, processes, asyncio ---------------------------------------------------------------


def test_many_threads_share_a_client(client: Client) -> None:
    client.submit("agent")
    with ThreadPoolExecutor(16) as threads:
        ids = list(threads.map(lambda n: client.submit("agent", {"n": n}).id, range(100)))
    assert len(set(ids)) == 100
    assert len(client.find(limit=1_000)) == 101


def test_a_quiet_client_keeps_one_connection_and_a_busy_one_few(sqlite_url: str) -> None:
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(sqlite_url, create=True))
        return opened[-1]

    pool = Pool(open_one, size=3, wait_s=0)
    for _ in range(5):
        with pool.store():
            pass
    assert len(opened) == 1
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(pool.store())
        with pytest.raises(Unavailable, match="all 3 connections"), pool.store():
            pass
    assert len(opened) == 3
    pool.close()


def test_a_store_that_was_cut_off_is_not_used_again(sqlite_url: str) -> None:
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(sqlite_url, create=True))
        return opened[-1]

    pool = Pool(open_one)
    with pytest.raises(Unavailable), pool.store():
        raise Unavailable("the database", "cut off")
    with pool.store() as store:
        assert store is opened[1]
    pool.close()


def test_a_forked_child_opens_connections_of_its_own(sqlite_url: str) -> None:
    """A web server that forks after the import: two processes on one connection break both."""
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(sqlite_url, create=True))
        return opened[-1]

    pool = Pool(open_one)
    with pool.store() as parents:
        pass
    child = os.fork()
    if child == 0:
        code = 99
        try:
            with pool.store() as own:
                own.now_ms()
                code = int(own is parents) + 2 * int(len(opened) != 2)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pool.store() as again:
        assert again is parents
    pool.close()


def test_the_same_client_serves_async_code(client: Client, store: Store) -> None:
    async def program() -> Any:
        task = await client.aio.submit("agent", {"n": 1})
        assert (await task.status()).state == "ready"
        assert await task.signal("approval", 1)
        with pytest.raises(TimeoutError):
            await task.result(timeout=0)
        waiting = asyncio.create_task(task.result(timeout=30))
        await asyncio.to_thread(lambda: claim(store).succeed([1, 2]))
        return task.id, await waiting

    task_id, result = asyncio.run(program())
    assert result == [1, 2]
    assert client.task(task_id).status().state == "succeeded"


def test_a_hundred_async_waits_hold_no_thread_between_two_looks(client: Client) -> None:
    """More waits than the executor has threads: with a thread each, the submit would starve."""

    async def program() -> None:
        tasks = await client.aio.submit_many([("agent", {"n": n}) for n in range(100)])
        waits = [asyncio.create_task(task.result(timeout="1h")) for task in tasks]
        last = await asyncio.wait_for(client.aio.submit("agent"), 20)
        assert last.created
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    asyncio.run(program())


# -- outages -----------------------------------------------------------------------------------


class Flaky:
    """A store whose answers get lost: the first `lost` requests are carried out all the same."""

    def __init__(self, store: Store, lost: list[int]) -> None:
        self._store, self._lost = store, lost

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name == "close":
            return verb

        def ask(*args: Any, **named: Any) -> Any:
            answer = verb(*args, **named)
            if self._lost[0]:
                self._lost[0] -= 1
                raise Unavailable("the database", "the answer was lost")
            return answer

        return ask


def flaky(client: Client, lost: int) -> None:
    left = [lost]
    client._pool = Pool(
        lambda: Flaky(open_store(client.db, create=True), left)  # type: ignore[arg-type,return-value]
    )


def test_a_submit_whose_answer_was_lost_is_sent_again_and_there_is_one_task(client: Client) -> None:
    """case R27, and P1: acknowledged means stored, unanswered means asked again."""
    flaky(client, 2)
    task = client.submit("agent", {"n": 1})
    assert [found.id for found in client.find()] == [task.id]


def test_tries_are_bounded(client: Client) -> None:
    flaky(client, 3)
    with pytest.raises(Unavailable):
        client.submit("agent")


def test_an_order_that_could_hit_an_heir_is_not_sent_twice(client: Client, store: Store) -> None:
    task = client.submit("agent")
    claim(store).fail()
    flaky(client, 1)
    with pytest.raises(Unavailable):
        task.retry("fixed")
    assert [event.kind for event in task.log()].count("task.reopened") == 1


def test_a_result_is_waited_for_through_an_outage(client: Client, store: Store) -> None:
    task = client.submit("agent")
    claim(store).succeed(7)
    flaky(client, 5)
    assert task.result(timeout=30) == 7
