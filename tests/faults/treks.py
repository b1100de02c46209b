"""Several long tasks on two real workers, in the middle of which something may be done to them."""

from __future__ import annotations

import signal

from outlast.core.clock import Env
from outlast.core.errors import Unavailable
from outlast.core.model import FINAL
from outlast.store.verbs import NewTask
from tests.faults.deaths import Country
from tests.faults.judge import judge
from tests.support.waiting import until

TASKS, LEGS = 6, 12


class Treks:
    """All treks, submitted and under way when this has been made."""

    def __init__(self, country: Country, *, ttl_ms: int) -> None:
        self.country, self.store = country, country.store
        go = country.new_path()
        self.workers = [country.worker(go, ttl_ms=ttl_ms) for _ in range(2)]
        new = [
            NewTask(id=Env().new_id(), agent="trek", input=f'{{"legs":{LEGS}}}')
            for _ in range(TASKS)
        ]
        self.tasks = [submitted.task.id for submitted in self.store.submit(new)]
        go.touch()
        for worker in self.workers:  # one that cannot reach the store when it starts ends at once
            worker.wait_for_line("told worker.started", timeout_s=30)
        until(self._are_under_way, "every trek to be on its way", timeout_s=30, detail=self.said)

    def all_end(self) -> None:
        """Wait until each has succeeded, and the workers have left."""
        until(self._have_ended, "all treks to end", timeout_s=60, detail=self.said)
        for worker in self.workers:
            worker.send(signal.SIGTERM)
            assert worker.wait() == 0, (worker.code, worker.output)
        for task in map(self.store.get, self.tasks):
            assert (task.state, task.result) == ("succeeded", str(LEGS)), self.said()

    def check_nothing_is_lost(self) -> None:
        moved = self.country.bank.record()["moved"]
        assert len(moved) == TASKS * LEGS
        verdict = judge(self.country.url)
        assert not verdict.violations, verdict.examples

    def check_nothing_is_repeated(self) -> None:
        """Each is on its first lease still, and no toll was asked for twice."""
        epochs = [self.store.get(task).epoch for task in self.tasks]
        assert set(epochs) == {1}, self.said()
        assert set(self.country.bank.record()["asked"].values()) == {1}, self.said()

    def check_nobody_was_declared_dead(self) -> None:
        kinds = {event.kind for task in self.tasks for event in self.store.read(task)}
        assert "lease.expired" not in kinds, self.said()

    def said(self) -> str:
        """The logs, and the last words of the workers."""
        logs = [
            " ".join(
                f"{e.at_ms % 1_000_000}:{e.kind}{e.body if e.holder == 0 else ''}"
                for e in self.store.read(task)
            )
            for task in self.tasks
        ]
        return "\n---\n".join([*logs, *(worker.output[-60_000:] for worker in self.workers)])

    def _are_under_way(self) -> bool:
        paid = self.country.bank.record()["asked"]
        return all(any(task in key for key in paid) for task in self.tasks)

    def _have_ended(self) -> bool:
        try:
            return all(self.store.get(task).state in FINAL for task in self.tasks)
        except Unavailable:
            return False
