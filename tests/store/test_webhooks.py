"""Webhooks: the news is written with its event, once, for whoever wants it."""

from __future__ import annotations

import pytest

from outlast.core.errors import UnknownWebhook, UsageError
from outlast.core.model import Delivery, NewWebhook
from outlast.core.news import NEWS
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import OPERATOR, TTL, claim, reap, start, submit


def listens(store: Store, name: str = "w", *news: str) -> None:
    store.add_webhook(NewWebhook(name, "https://x.example/", news or NEWS, "secret"), OPERATOR)


def taken(store: Store, limit: int = 100) -> list[Delivery]:
    return store.take_deliveries(limit=limit, for_ms=60_000)


def heard(store: Store) -> list[tuple[str, str]]:
    """(task, news) of all that is due, which is told by that."""
    found = []
    while due := taken(store):
        for each in due:
            found.append((each.task_id, each.news))
            store.delivered(each)
    return sorted(found)


def test_where_nobody_listens_nothing_is_kept(stores: Stores, store: Store) -> None:
    start(store).succeed()
    assert stores.rows("select * from deliveries") == []


def test_each_piece_of_news_is_told_once(stores: Stores, store: Store) -> None:
    listens(store)
    dead = start(store)
    stores.move(2 * TTL)
    reap(store, since_ms=store.now_ms())
    stores.move(TTL)
    heir = claim(store, "heir")
    assert heir.task_id == dead.task_id
    heir.intend()
    heir.ask_a_person()
    ended = start(store)
    ended.succeed()
    waits = start(store)
    waits.send(waits.offer(waits.waiting("approval")))
    sleeps = start(store)
    sleeps.send(sleeps.offer(("wait.started", {"name": None, "until_ms": store.now_ms() + 1})))
    drained = start(store)
    drained.release("drain")
    claim(store, "heir2")

    assert heard(store) == sorted([
        (dead.task_id, "owner_lost"), (dead.task_id, "resumed"),
        (dead.task_id, "effect_unknown"), (dead.task_id, "review"),
        (ended.task_id, "ended"), (waits.task_id, "waiting"),
    ])  # fmt: skip


def test_only_what_was_asked_for_is_told(store: Store) -> None:
    listens(store, "a", "ended")
    listens(store, "b", "review", "ended")
    owner = start(store)
    owner.ask_a_person()
    task = submit(store)
    store.cancel(task.id, OPERATOR)
    found = sorted((each.webhook, each.news) for each in taken(store))
    assert found == [("a", "ended"), ("b", "ended"), ("b", "review")]


def test_what_one_has_taken_another_is_not_given_for_a_while(stores: Stores, store: Store) -> None:
    listens(store)
    start(store).succeed()
    assert len(taken(store)) == 1
    assert taken(stores.open()) == []
    stores.move(60_000)
    [again] = taken(stores.open())
    assert again.tries == 2


def test_what_was_not_heard_comes_again_and_its_reason_is_shown(
    stores: Stores, store: Store
) -> None:
    listens(store)
    start(store).succeed()
    [due] = taken(store)
    store.delivered(due, error="it answered 500", after_ms=5_000)
    [webhook] = store.webhooks()
    assert (webhook.behind, webhook.error) == (1, "it answered 500")
    stores.move(4_999)
    assert taken(store) == []
    stores.move(1)
    assert len(taken(store)) == 1


def test_a_webhook_that_is_removed_takes_its_news_along(store: Store) -> None:
    listens(store)
    start(store).succeed()
    store.remove_webhook("w")
    assert taken(store) == []
    assert store.webhooks() == []
    with pytest.raises(UnknownWebhook):
        store.remove_webhook("w")


def test_news_that_there_is_not_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="news are some of"):
        listens(store, "w", "weather")
