"""The course of one life: the errand, then the one that is cancelled; and what both come to."""

from __future__ import annotations

import msgspec

from outlast.core.clock import Env
from outlast.core.model import FINAL, Signal
from outlast.store.verbs import NewTask, Order, Store
from tests.faults.bank import BankClient
from tests.faults.errands import AMOUNTS, RESULT
from tests.faults.judge import judge

ORDER = Order("ann", "that is enough")


class Course:
    """What a client does meanwhile: submit, approve, submit another, cancel it; call `go_on`."""

    def __init__(self, store: Store, bank: BankClient) -> None:
        self.store, self.bank = store, bank
        self.errand = self._submit("errand")
        self.dawdler = ""
        self._signalled = False

    def go_on(self) -> bool:
        """Do what is due; whether both have ended."""
        self._approve()
        if self._state(self.errand) not in FINAL:
            return False
        self.dawdler = self.dawdler or self._submit("dawdle")
        self._cancel()
        return self._state(self.dawdler) in FINAL

    def check(self, url: str) -> None:
        """Money moved once, both ended as they should, and every log there verifies."""
        self._check_money()
        errand, dawdler = self.store.get(self.errand), self.store.get(self.dawdler)
        assert errand.state == "succeeded", errand
        assert msgspec.json.decode(errand.result or "") == RESULT
        assert dawdler.state == "cancelled", dawdler
        verdict = judge(url)
        assert not verdict.violations, verdict.examples

    def _check_money(self) -> None:
        record = self.bank.record()
        moved = {key: amount for key, amount in record["moved"].items() if self.errand in key}
        assert sorted(moved.values()) == sorted(AMOUNTS.values()), sorted(moved.values())
        for key in moved:
            assert record["asked"][key] <= 2, f"{key} was asked for {record['asked'][key]} times"

    def said(self) -> str:
        """Both tasks and their logs, to be read when something is wrong."""
        tasks = [self.store.get(each) for each in (self.errand, self.dawdler) if each]
        logs = [[event.kind for event in self.store.read(task.id)] for task in tasks]
        return f"{tasks}\n{logs}"

    def _submit(self, agent: str) -> str:
        [submitted] = self.store.submit([NewTask(id=Env().new_id(), agent=agent, input="{}")])
        return submitted.task.id

    def _state(self, task_id: str) -> str:
        return self.store.get(task_id).state

    def _approve(self) -> None:
        if not self._signalled and self.store.get(self.errand).waiting_for == "approval":
            sent = Signal(f"yes-{self.errand}", self.errand, "approval", "true", "ann", 0)
            self._signalled = self.store.signal(self.errand, sent)

    def _cancel(self) -> None:
        task = self.store.get(self.dawdler)
        begun = any(event.kind == "step.done" for event in self.store.read(task.id))
        if begun and task.state == "running" and task.cancel_ms is None:
            self.store.cancel(task.id, ORDER)
