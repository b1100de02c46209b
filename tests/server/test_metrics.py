"""Metrics over HTTP: the same from every server, and ages that grow while the database is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from outlast.server.app import Server
from tests.server.conftest import Served
from tests.store.world import TTL, start

Serve = Callable[..., Served]


def metrics(served: Served, path: str = "/metrics") -> dict[str, float]:
    """Each series with its value."""
    status, headers, body = served.request("GET", path)
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_two_servers_say_the_same(serve: Serve) -> None:
    served = serve()
    start(served.here).succeed()
    start(served.here)
    first = metrics(served)
    other = Server(served.open_store)
    served.show(other)
    second = metrics(served)
    other.close()
    unlike = {name for name in first if first[name] != second[name]}
    assert unlike <= {"outlast_collector_duration_seconds"}
    assert first['agent_task_terminal_total{queue="default",state="succeeded"}'] == 1


def test_while_the_database_is_away_ages_go_on(serve: Serve, monkeypatch: Any) -> None:
    served = serve()
    start(served.here)
    name = 'agent_task_heartbeat_age_seconds{queue="default"}'
    assert metrics(served)[name] == 0
    moments = iter(range(1_000_000, 9_000_000, 2_000))
    monkeypatch.setattr(served.server.collector, "_monotonic_ms", lambda: next(moments))
    metrics(served)

    served.take_away()
    seen = [metrics(served) for _ in range(3)]
    assert [each["outlast_collector_up"] for each in seen] == [0, 0, 0]
    ages = [each[name] for each in seen]
    assert 0 < ages[0] < ages[1] < ages[2]
    assert served.request("GET", "/livez")[0] == 200
    assert served.request("GET", "/readyz")[0] == 503


def test_a_series_for_each_task_is_there_for_whoever_asked(serve: Serve) -> None:
    served = serve(task_metrics=True)
    owner = start(served.here)
    served.clock.move(TTL * 2)
    series = f'{{agent="agent",queue="default",task="{owner.task_id}"}}'
    seen = metrics(served, "/metrics/tasks")
    assert seen["outlast_task_heartbeat_age_seconds" + series] == TTL * 2 / 1_000
    assert seen["outlast_task_lease_seconds" + series] == -TTL / 1_000


def test_it_is_not_there_for_others(serve: Serve) -> None:
    assert serve().request("GET", "/metrics/tasks")[0] == 404
