"""P11: what the metrics say is what the log says; and what they say while nobody answers."""

from __future__ import annotations

import math
from collections import Counter as Tally
from typing import Any

import pytest

from outlast.core.counters import DISPOSITIONS, DUPLICATES, ENDS, FENCED, RESUMES
from outlast.core.errors import Unavailable
from outlast.core.model import Event
from outlast.metrics import Collector, Family, families, text
from outlast.store.verbs import Counts, Query, Store
from tests.store.databases import SqliteStores
from tests.store.world import TTL, body, claim, reap, start, submit
from tests.support.programs import require_module

LEASE = "agent_task_lease_seconds"
HEARTBEAT = "agent_task_heartbeat_age_seconds"
Samples = dict[str, dict[frozenset[tuple[str, str]], float]]


def parsed(page: str) -> Samples:
    """The page as Prometheus reads it: {name: {labels: value}}."""
    require_module("prometheus_client", "metrics")
    from prometheus_client.parser import text_string_to_metric_families

    found: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def scrape(store: Store) -> Samples:
    return parsed(text(families(store.counts())))


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name][frozenset(labels.items())]


def logs(store: Store) -> list[Event]:
    found = store.find(Query(limit=1_000))
    return [event for held in found for event in store.read(held.task.id)]


def test_an_empty_store_exports_every_series_at_zero(store: Store) -> None:
    samples = scrape(store)
    assert value(samples, LEASE, queue="default") == math.inf
    assert value(samples, HEARTBEAT, queue="default") == 0
    assert len(samples[RESUMES]) == 4 * 3
    assert {dict(labels)["nth"] for labels in samples[RESUMES]} == {"1", "2", "3+"}
    assert set(samples[RESUMES].values()) == {0}
    assert len(samples[ENDS]) == 3
    assert set(samples[ENDS].values()) == {0}
    assert samples[FENCED] == {frozenset(): 0}


def test_a_queue_that_is_known_has_all_its_series(store: Store) -> None:
    submit(store, queue='odd "name"\\with\nall')
    samples = scrape(store)
    queues = {dict(labels)["queue"] for labels in samples[RESUMES]}
    assert queues == {"default", 'odd "name"\\with\nall'}
    assert len(samples[RESUMES]) == 2 * 4 * 3


def test_lease_and_heartbeat_are_of_the_worst_held_task(store: Store, stores: SqliteStores) -> None:
    silent = start(store, "silent")
    stores.move(4_000)
    start(store, "fresh")
    stores.move(3_000)
    samples = scrape(store)
    assert value(samples, LEASE, queue="default") == 3
    assert value(samples, HEARTBEAT, queue="default") == 7
    assert value(samples, "outlast_progress_age_seconds", queue="default") == 7
    assert value(samples, "outlast_lease_ttl_seconds", queue="default") == TTL / 1000
    silent.renew()
    assert value(scrape(store), HEARTBEAT, queue="default") == 3


def test_a_lapsed_lease_is_negative_until_it_is_reaped(store: Store, stores: SqliteStores) -> None:
    start(store)
    stores.move(TTL + 2_500)
    assert value(scrape(store), LEASE, queue="default") == -2.5
    reap(store)
    assert value(scrape(store), LEASE, queue="default") == math.inf
    assert value(scrape(store), HEARTBEAT, queue="default") == 0


def test_counters_are_the_count_of_the_log(store: Store, stores: SqliteStores) -> None:
    """P11: a run of everything, then each counter against the events themselves."""
    live_through_everything(store, stores)
    samples, events = scrape(store), logs(store)
    assert totals(samples, RESUMES, "reason") == Tally(
        reason
        for reason in (body(e)["reason"] for e in events if e.kind == "lease.granted")
        if reason in ("expired", "crashed", "drain", "operator")
    )
    ends = {"task.succeeded", "task.failed", "task.cancelled"}
    assert totals(samples, ENDS, "state") == Tally(
        event.kind.removeprefix("task.") for event in events if event.kind in ends
    )
    suppressed = sum(
        n
        for event in events
        if event.kind == "replay.finished"
        for n in body(event)["suppressed"].values()
    )
    assert totals(samples, DUPLICATES, "disposition") == {
        "suppressed": suppressed,
        "adopted": 1,
    }
    assert sum(samples[FENCED].values()) == 1


def live_through_everything(store: Store, stores: SqliteStores) -> None:
    for _ in range(2):
        start(store).succeed()
    start(store).fail()
    zombie = start(store, "zombie")
    zombie.step()
    zombie.intend("mail")
    zombie.applied("mail")
    stores.move(TTL + 1)
    reap(store)
    heir = claim(store, "heir")
    zombie.step()
    finished: dict[str, Any] = {"through": 5, "answered": 2, "unused": []}
    heir.write("replay.finished", **finished, suppressed={"bank.pay": 1})
    heir.intend("pay")
    heir.applied("pay", adopted=True, tool="bank.pay")
    heir.release("drain")
    third = claim(store, "third")
    third.release("crashed")
    claim(store, "fourth").succeed()


def totals(samples: Samples, name: str, label: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, count in samples[name].items():
        found[dict(labels)[label]] = found.get(dict(labels)[label], 0) + count
    return {key: count for key, count in found.items() if count}


def test_counters_outlive_the_worker_that_was_killed_and_the_pruned_log(
    store: Store, stores: SqliteStores
) -> None:
    """case R65"""
    live_through_everything(store, stores)
    before = scrape(store)
    for worker in store.workers():
        store.retire(worker.id)
    stores.move(1)
    store.prune(before_ms=store.now_ms())
    after = scrape(store)
    for name in (RESUMES, DUPLICATES, ENDS, FENCED):
        assert after[name] == before[name]


def test_the_third_in_a_row_has_a_label_of_its_own(store: Store, stores: SqliteStores) -> None:
    start(store)
    for _ in range(4):
        stores.move(TTL + 1)
        reap(store)
        stores.move(600_000)
        claim(store)
    resumes = scrape(store)[RESUMES]
    by_nth = {dict(k)["nth"]: n for k, n in resumes.items() if dict(k)["reason"] == "expired"}
    assert by_nth == {"1": 1, "2": 1, "3+": 2}


def test_a_tool_that_is_known_has_every_disposition(store: Store) -> None:
    owner = start(store)
    owner.intend()
    owner.ask_a_person()
    samples = scrape(store)
    assert {dict(labels)["disposition"] for labels in samples[DUPLICATES]} == set(DISPOSITIONS)
    assert value(samples, "outlast_effects_unknown", tool="bank.pay") == 1


def test_an_effect_unknown_ages(store: Store, stores: SqliteStores) -> None:
    owner = start(store)
    assert value(scrape(store), "outlast_effects_unknown_age_seconds") == 0
    owner.intend()
    owner.ask_a_person()
    stores.move(900_000)
    assert value(scrape(store), "outlast_effects_unknown_age_seconds") == 900


def test_no_task_id_is_a_label(store: Store, stores: SqliteStores) -> None:
    live_through_everything(store, stores)
    page = text(families(store.counts()))
    assert not any(held.task.id in page for held in store.find(Query(limit=100)))


def test_workers_and_queues_are_counted(store: Store) -> None:
    start(store)
    submit(store, queue="slow")
    samples = scrape(store)
    assert value(samples, "outlast_workers", state="active") == 1
    assert value(samples, "outlast_queue_workers", queue="default") == 1
    assert value(samples, "outlast_queue_workers", queue="slow") == 0
    assert value(samples, "outlast_tasks", queue="slow", state="ready") == 1
    assert value(samples, "outlast_tasks", queue="default", state="running") == 1


# -- while the database is away ----------------------------------------------------------------


class Away:
    """A read that fails from a moment on."""

    def __init__(self, store: Store) -> None:
        self.store, self.away = store, False

    def __call__(self) -> Counts:
        if self.away:
            raise Unavailable("the database", "it is down")
        return self.store.counts()


@pytest.fixture
def away(store: Store) -> Away:
    return Away(store)


@pytest.fixture
def collector(away: Away, stores: SqliteStores) -> Collector:
    return Collector(away, version="1", monotonic_ms=stores.clock.monotonic_ms)


def test_ages_go_on_while_the_database_is_down(
    store: Store, stores: SqliteStores, away: Away, collector: Collector
) -> None:
    """The dead do not export, and neither does a database: yet its silence must show."""
    start(store)
    stores.move(2_000)
    assert value(parsed(collector.text()), "outlast_collector_up") == 1
    away.away = True
    stores.move(60_000)
    samples = parsed(collector.text())
    assert value(samples, "outlast_collector_up") == 0
    assert value(samples, HEARTBEAT, queue="default") == 62
    assert value(samples, LEASE, queue="default") == TTL / 1000 - 62
    as_of = value(samples, "outlast_database_time_seconds")
    away.away = False
    samples = parsed(collector.text())
    assert value(samples, "outlast_collector_up") == 1
    assert value(samples, "outlast_database_time_seconds") == as_of + 60


def test_nothing_held_does_not_age(
    store: Store, stores: SqliteStores, away: Away, collector: Collector
) -> None:
    collector.text()
    away.away = True
    stores.move(60_000)
    samples = parsed(collector.text())
    assert value(samples, HEARTBEAT, queue="default") == 0
    assert value(samples, LEASE, queue="default") == math.inf
    assert value(samples, "outlast_effects_unknown_age_seconds") == 0


def test_before_the_first_good_look_only_the_collector_speaks(
    away: Away, collector: Collector
) -> None:
    away.away = True
    samples = parsed(collector.text())
    assert set(samples) == {
        "outlast_collector_up",
        "outlast_collector_duration_seconds",
        "outlast_build_info",
    }


def test_two_exporters_say_the_same(store: Store, stores: SqliteStores) -> None:
    live_through_everything(store, stores)
    assert text(families(store.counts())) == text(families(stores.open().counts()))


def test_numbers_are_written_so_that_they_are_read_back(store: Store) -> None:
    series = {(("n", str(n)),): n for n in (0, -2.5, 0.1, 1e21, math.inf, 1_800_000_000.123)}
    page = text([Family("some_metric", "gauge", "Any \\ number\nat all.", series)])
    read = parsed(page)["some_metric"]
    assert {float(dict(labels)["n"]): number for labels, number in read.items()} == {
        n: n for n in series.values()
    }
