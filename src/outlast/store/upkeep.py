"""Verbs on workers, queues, counts and retention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..core import limits
from ..core.errors import UnknownWorker
from ..core.model import Counter, Worker, WorkerState
from ..core.text import checked, named
from .base import Verbs, patient
from .checkup import checkup
from .database import Session
from .migrate import found_version
from .verbs import Counts, Finding, Order, Pruned
from .writing import counter_calls


class WorkerVerbs(Verbs):
    """Worker processes: known from enlisting until they are gone."""

    @patient
    def enlist(self, worker: Worker) -> Worker:
        for what, text in (("host", worker.host), ("build", worker.build), ("id", worker.id)):
            checked(f"the worker's {what}", text)
        fields = asdict(worker)
        wanted = ("id", "host", "pid", "build", "queues", "agents", "slots", "ttl_ms", "grace_ms",
                  "token")  # fmt: skip
        with self.database.transaction() as session:
            session.run("enlist_worker", **{name: fields[name] for name in wanted})
            row = session.run("get_worker", worker=worker.id)[0]
        self._forget_gone()
        return Worker(**row)

    @patient
    def order_drain(
        self, order: Order, *, worker_id: str | None = None, build: str | None = None
    ) -> list[Worker]:
        by = f"{order.by}: {order.why}" if order.why else order.by
        with self.database.transaction() as session:
            rows = session.run("drain_workers", by=by, worker=worker_id, build=build)
            if not rows and (worker_id or build):
                raise UnknownWorker(worker_id or f"build {build}")
            found = [session.run("get_worker", worker=row["id"])[0] for row in rows]
        return [Worker(**row) for row in found]

    @patient
    def retire(self, worker_id: str, state: WorkerState = "retired") -> None:
        with self.database.transaction() as session:
            session.run("set_worker_state", worker=worker_id, state=state)
            if state == "retired":
                _fold_counters(session, worker_id)

    def worker(self, worker_id: str) -> Worker:
        rows = self.database.once("get_worker", worker=worker_id)
        if not rows:
            raise UnknownWorker(worker_id)
        return Worker(**rows[0])

    def workers(self) -> list[Worker]:
        return [Worker(**row) for row in self.database.once("all_workers", limit=1_000)]

    def _forget_gone(self) -> None:
        """Rows of workers that are long silent and hold nothing, when another comes."""
        before_ms = self.now_ms() - limits.WORKER_KEPT_MS
        for row in self.database.once("gone_workers", before_ms=before_ms, limit=100):
            with self.database.transaction() as session:
                _fold_counters(session, row["id"])
                session.run("delete_worker", worker=row["id"])


def _fold_counters(session: Session, worker_id: str) -> None:
    rows = session.run("take_counters", worker=worker_id) if worker_id else []
    session.send(counter_calls([(r["name"], r["labels"], r["value"]) for r in rows], ""))


class UpkeepVerbs(Verbs):
    """What is counted, paused and removed."""

    @patient
    def counts(self) -> Counts:
        with self.database.transaction() as session:
            tasks, leases, workers, unknown, tools, totals, clock = session.send(
                [
                    ("count_tasks", {}),
                    ("measure_leases", {}),
                    ("count_workers", {}),
                    ("count_unknown", {}),
                    ("known_tools", {}),
                    ("sum_counters", {}),
                    ("read_clock", {}),
                ]
            )
        now_ms = clock[0]["now_ms"]
        by_queue: dict[str, dict[str, int]] = {}
        for row in tasks:
            by_queue.setdefault(row["queue"], {})[row["state"]] = row["count"]
        living = [row for row in workers if now_ms - row["beat_ms"] <= row["ttl_ms"]]
        states, queues = _of_workers(workers, living)
        return Counts(
            now_ms=now_ms,
            tasks=by_queue,
            lease_ms={row["queue"]: row["expires_ms"] - now_ms for row in leases},
            beat_ms={row["queue"]: now_ms - row["beat_ms"] for row in leases},
            progress_ms={row["queue"]: now_ms - row["progress_ms"] for row in leases},
            ttl_ms={row["queue"]: row["ttl_ms"] for row in leases},
            workers=states,
            worker_queues=queues,
            loop_blocked_ms=max((row["loop_blocked_ms"] for row in living), default=0),
            unknown={row["tool"]: row["count"] for row in unknown},
            unknown_ms=max((now_ms - row["since_ms"] for row in unknown), default=0),
            tools=sorted(row["tool"] for row in tools),
            counters=[Counter(**row) for row in totals],
        )

    @patient
    def pause(self, queue: str, order: Order) -> None:
        named("the queue's name", queue)
        with self.database.transaction() as session:
            session.run("pause_queue", name=queue, by=order.by, why=order.why)

    @patient
    def unpause(self, queue: str) -> None:
        with self.database.transaction() as session:
            session.run("unpause_queue", name=queue)

    def paused(self) -> list[str]:
        return [row["name"] for row in self.database.once("paused_queues")]

    @patient
    def prune(
        self, *, before_ms: int, dry_run: bool = False, limit: int = limits.PRUNE_BATCH
    ) -> Pruned:
        if dry_run:
            row = self.database.once("count_prunable", before_ms=before_ms)[0]
            return Pruned(int(row["tasks"]), int(row["events"] or 0))
        with self.database.transaction() as session:
            rows = session.run("prunable_tasks", before_ms=before_ms, limit=limit)
            events = sum(_remove(session, row["id"]) for row in rows)
        return Pruned(len(rows), events)

    def version(self) -> int | None:
        return found_version(self.database)

    def checkup(self, *, tasks: int = 1_000) -> Iterator[Finding]:
        return checkup(self.database, tasks)


def _remove(session: Session, task_id: str) -> int:
    """Remove one ended task with all that is of it; how many events it had."""
    last = session.run("last_event", task_id=task_id)
    for name in (
        "delete_effects",
        "delete_signals",
        "delete_observations",
        "delete_events",
        "delete_task",
    ):
        session.run(name, task_id=task_id)
    return int(last[0]["seq"]) if last else 0


def _of_workers(
    rows: list[dict[str, Any]], living: list[dict[str, Any]]
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """({state: n}, {queue: active workers}); a silent worker is `lost`."""
    states: dict[str, int] = {"active": 0, "draining": 0, "lost": len(rows) - len(living)}
    queues: dict[str, int] = {}
    for row in living:
        states[row["state"]] += 1
        if row["state"] == "active":
            for queue in msgspec.json.decode(row["queues"]):
                queues[queue] = queues.get(queue, 0) + 1
    return states, queues
