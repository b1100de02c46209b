"""The metrics, computed from one look at the database, and their text for Prometheus.

The dead do not export: ages come from the store, and a counter is a row that was written with its
event. Every replica says the same, so aggregate with `max`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from .core.counters import DISPOSITIONS, DUPLICATES, ENDS, FENCED, RESUME_REASONS, RESUMES
from .core.errors import OutlastError
from .core.model import FINAL, Counter, Lease
from .store.verbs import Counts, Held

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
NTHS = ("1", "2", "3+")
STATES = ("ready", "running", "waiting", "review", *sorted(FINAL))
WORKER_STATES = ("active", "draining", "lost")
INFINITY = float("inf")

Labels = tuple[tuple[str, str], ...]


class Family(msgspec.Struct, frozen=True):
    """One metric: its name, its kind, what it says, and its series."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    series: Mapping[Labels, float]


def labels(**named: str) -> Labels:
    return tuple(sorted(named.items()))


def families(counts: Counts, elapsed_ms: int = 0) -> list[Family]:
    """Every metric of the store. `elapsed_ms`: since the counts were read, for the ages to grow."""
    queues = _queues(counts)
    return [
        *_leases(counts, queues, elapsed_ms),
        *_counters(counts, queues),
        *_rest(counts, queues, elapsed_ms),
    ]


def of_tasks(held: Iterable[Held]) -> list[Family]:
    """A series a held task: for whoever has few tasks, or a store for many series."""
    kinds: dict[str, tuple[str, Callable[[Held, Lease], float]]] = {
        "outlast_task_lease_seconds": (
            "Seconds left on the task's lease; negative: lapsed.",
            lambda each, lease: (lease.expires_ms - each.now_ms) / 1000,
        ),
        "outlast_task_heartbeat_age_seconds": (
            "How long the task's owner has been silent.",
            lambda each, lease: (each.now_ms - lease.beat_ms) / 1000,
        ),
        "outlast_task_progress_age_seconds": (
            "How long the task has recorded nothing.",
            lambda each, lease: (each.now_ms - lease.progress_ms) / 1000,
        ),
        "outlast_task_epoch": (
            "How often the task was given to an owner.",
            lambda _, lease: lease.epoch,
        ),
    }
    rows = [(each, each.lease) for each in held if each.lease is not None]
    return [
        Family(name, "gauge", says, {_of_task(each): value(each, lease) for each, lease in rows})
        for name, (says, value) in kinds.items()
    ]


def _of_task(held: Held) -> Labels:
    return labels(task=held.task.id, queue=held.task.queue, agent=held.task.agent)


def _leases(counts: Counts, queues: list[str], elapsed_ms: int) -> list[Family]:
    def gauge(name: str, help_text: str, value: Callable[[str], float]) -> Family:
        return Family(name, "gauge", help_text, {labels(queue=q): value(q) for q in queues})

    def age_s(ages: Mapping[str, int]) -> Callable[[str], float]:
        return lambda q: (ages[q] + elapsed_ms) / 1000 if q in ages else 0

    return [
        gauge(
            "agent_task_lease_seconds",
            "Seconds left on the held lease that ends soonest; negative: lapsed, not yet "
            "reaped; +Inf: none held.",
            lambda q: (
                (counts.lease_ms[q] - elapsed_ms) / 1000 if q in counts.lease_ms else INFINITY
            ),
        ),
        gauge(
            "agent_task_heartbeat_age_seconds",
            "The longest silence among held tasks; 0: none held.",
            age_s(counts.beat_ms),
        ),
        gauge(
            "outlast_progress_age_seconds",
            "The longest time since an event or note among held tasks; 0: none held.",
            age_s(counts.progress_ms),
        ),
        gauge(
            "outlast_lease_ttl_seconds",
            "The longest time to live among held leases; 0: none held.",
            lambda q: counts.ttl_ms.get(q, 0) / 1000,
        ),
        gauge(
            "outlast_lease_expires_timestamp_seconds",
            "When the held lease that ends soonest ends, by the database's clock; +Inf: none held.",
            lambda q: (
                (counts.now_ms + counts.lease_ms[q]) / 1000 if q in counts.lease_ms else INFINITY
            ),
        ),
        gauge(
            "outlast_heartbeat_timestamp_seconds",
            "When the most silent owner was last heard, by the database's clock; 0: none held.",
            lambda q: (counts.now_ms - counts.beat_ms[q]) / 1000 if q in counts.beat_ms else 0,
        ),
    ]


def _counters(counts: Counts, queues: list[str]) -> list[Family]:
    tools = sorted(_label_values(counts.counters, DUPLICATES, "tool") | set(counts.tools))
    return [
        _counter(
            RESUMES,
            "Leases given after an owner expired, crashed, drained or was revoked; nth in a row.",
            counts,
            [
                labels(queue=queue, reason=reason, nth=nth)
                for queue in queues
                for reason in RESUME_REASONS
                for nth in NTHS
            ],
        ),
        _counter(
            DUPLICATES,
            "Effects asked for again: answered from the ledger, found done, in conflict, twice.",
            counts,
            [labels(tool=tool, disposition=d) for tool in tools for d in DISPOSITIONS],
        ),
        _counter(
            ENDS,
            "Tasks that have ended.",
            counts,
            [labels(queue=queue, state=state) for queue in queues for state in sorted(FINAL)],
        ),
        _counter(FENCED, "Writes of owners that were no longer, all refused.", counts, [()]),
    ]


def _rest(counts: Counts, queues: list[str], elapsed_ms: int) -> list[Family]:
    unknown_ms = counts.unknown_ms + elapsed_ms if any(counts.unknown.values()) else 0
    return [
        Family(
            "outlast_tasks",
            "gauge",
            "Tasks by state.",
            {
                labels(queue=queue, state=state): counts.tasks.get(queue, {}).get(state, 0)
                for queue in queues
                for state in STATES
            },
        ),
        Family(
            "outlast_workers",
            "gauge",
            "Worker processes by state.",
            {labels(state=state): counts.workers.get(state, 0) for state in WORKER_STATES},
        ),
        Family(
            "outlast_queue_workers",
            "gauge",
            "Active workers that take from the queue.",
            {labels(queue=queue): counts.worker_queues.get(queue, 0) for queue in queues},
        ),
        Family(
            "outlast_effects_unknown",
            "gauge",
            "Effects whose outcome nobody knows, by tool.",
            {labels(tool=tool): n for tool, n in counts.unknown.items()},
        ),
        _single(
            "outlast_effects_unknown_age_seconds",
            "How long the oldest has been unknown; 0: none is.",
            unknown_ms / 1000,
        ),
        _single(
            "outlast_worker_loop_blocked_seconds",
            "The longest that an active worker's event loop was blocked.",
            counts.loop_blocked_ms / 1000,
        ),
        _single(
            "outlast_database_time_seconds",
            "The database's time at the last good look: as of when all this is.",
            counts.now_ms / 1000,
        ),
    ]


def _queues(counts: Counts) -> list[str]:
    known = {"default", *counts.tasks, *counts.worker_queues, *counts.lease_ms}
    for name in (RESUMES, ENDS):
        known |= _label_values(counts.counters, name, "queue")
    return sorted(known)


def _label_values(counters: Iterable[Counter], name: str, label: str) -> set[str]:
    found = (dict(_labels_of(counter)) for counter in counters if counter.name == name)
    return {named[label] for named in found if label in named}


def _counter(name: str, help_text: str, counts: Counts, zeros: Iterable[Labels]) -> Family:
    # A series that first shows at 1 has no increase: each starts at 0 as soon as it can be known.
    series: dict[Labels, float] = dict.fromkeys(zeros, 0)
    for counter in counts.counters:
        if counter.name == name:
            found = _labels_of(counter)
            series[found] = series.get(found, 0) + counter.value
    return Family(name, "counter", help_text, series)


def _labels_of(counter: Counter) -> Labels:
    return labels(**msgspec.json.decode(counter.labels, type=dict[str, str]))


def _single(name: str, help_text: str, value: float) -> Family:
    return Family(name, "gauge", help_text, {(): value})


def text(found: Iterable[Family]) -> str:
    """The text format 0.0.4 of Prometheus."""
    lines: list[str] = []
    for family in found:
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for series, value in family.series.items():
            named = ",".join(f'{name}="{_escaped(said, quote=True)}"' for name, said in series)
            lines.append(f"{family.name}{'{' + named + '}' if named else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(said: str, *, quote: bool = False) -> str:
    said = said.replace("\\", "\\\\").replace("\n", "\\n")
    return said.replace('"', '\\"') if quote else said


def _number(value: float) -> str:
    if value == INFINITY:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)


class Collector:
    """Looks at the store at each scrape; while it cannot, the last good look goes on ageing."""

    def __init__(
        self,
        read: Callable[[], Counts],
        *,
        version: str,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._read, self._version, self._monotonic_ms = read, version, monotonic_ms
        self._last: tuple[Counts, int] | None = None

    def families(self) -> list[Family]:
        began = self._monotonic_ms()
        try:
            counts = self._read()
        except OutlastError:
            counts = None
        return self.told(counts, self._monotonic_ms() - began)

    def told(self, counts: Counts | None, took_ms: int) -> list[Family]:
        """What is exported after a look; `counts`: None where the store could not be asked."""
        now = self._monotonic_ms()
        if counts is not None:
            self._last = (counts, now)
        found = [] if self._last is None else families(self._last[0], now - self._last[1])
        return [
            *found,
            _single(
                "outlast_collector_up",
                "1: the store answered this scrape; 0: ages go on from the last good look.",
                int(counts is not None),
            ),
            _single(
                "outlast_collector_duration_seconds",
                "How long this scrape's look took.",
                took_ms / 1000,
            ),
            Family(
                "outlast_build_info",
                "gauge",
                "The version that exports this.",
                {labels(version=self._version): 1},
            ),
        ]

    def text(self) -> str:
        return text(self.families())
