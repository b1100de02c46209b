"""What tasks do, told a second time and simply: the model that the state machine compares with.

It knows nothing of quotes, digests, rows or SQL: an owner is whoever was granted the task last and
has not let go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from outlast.core.model import Event, Offer
from tests.store.world import TTL, Owner, body

FINAL = ("succeeded", "failed", "cancelled")
DOUBT = ("intended", "unknown")
NEXT = {
    "drain": "drain",
    "deadline": "drain",
    "trust": "expired",
    "crashed": "crashed",
    "retry": "retry",
}


@dataclass
class Act:
    """An effect: whose it is, how it stands, whether a zombie has said that it was applied."""

    task_id: str
    state: str = "intended"
    observed: bool = False
    shared: bool = False


@dataclass
class Life:
    """One task."""

    id: str
    due_ms: int
    state: str = "ready"
    reason: str = "first"
    epoch: int = 0
    owner: Owner | None = None
    expires_ms: int = 0
    spared: bool = False
    progressed: bool = False
    failures: int = 0
    resumes: int = 0
    expiries: int = 0
    handoffs: int = 0
    cancel_asked: bool = False
    waiting_for: str | None = None
    doubts: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


class Model:
    """All tasks and effects, and the time."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.tasks: dict[str, Life] = {}
        self.acts: dict[str, Act] = {}

    # -- what owners write ------------------------------------------------------------------------

    def verdict(self, owner: Owner, offer: Offer) -> str:
        """How an offer that is not on the log yet will be answered."""
        task, last = self.tasks[owner.task_id], offer.last
        if task.owner is not owner:
            return "lost"
        lets_go = last.holder == 0 and last.kind.split(".")[1] not in FINAL
        begins = any(entry.event.kind == "effect.intended" for entry in offer.entries)
        if task.cancel_asked and (lets_go or begins):
            return "cancel_asked"
        if lets_go and last.kind == "wait.started":
            wait = body(last)
            past = wait["until_ms"] is not None and wait["until_ms"] <= self.now_ms
            if past or (wait["name"] and task.unread):
                return "signal_waiting"
        return "written"

    def write(self, owner: Owner, offer: Offer) -> None:
        """An offer has been written."""
        task = self.tasks[owner.task_id]
        for entry in offer.entries:
            self._write(task, entry.event, body(entry.event))

    def _write(self, task: Life, event: Event, said: dict[str, Any]) -> None:
        kind = event.kind
        if kind in ("step.done", "effect.applied", "wait.ended"):
            task.progressed = True
        if kind == "effect.intended":
            observed = said["key"] in self.acts and self.acts[said["key"]].observed
            self.acts[said["key"]] = Act(task.id, observed=observed, shared=bool(said["shared"]))
        elif kind in ("effect.applied", "effect.failed", "effect.unknown"):
            self.acts[said["key"]].state = kind.removeprefix("effect.")
        elif kind == "wait.ended":
            task.unread.remove(said["signal"])
        elif kind == "attempt.failed":
            task.failures += 1
        elif kind == "lease.released":
            self._released(task, said, event.at_ms)
        elif kind == "wait.started" and event.holder == 0:
            self._let_go(task, "waiting", "wait", said["until_ms"])
            task.waiting_for = said["name"]
        elif kind.startswith("task."):
            self.end(task, kind.removeprefix("task."))

    def _released(self, task: Life, said: dict[str, Any], at_ms: int) -> None:
        why = said["reason"]
        if why == "review":
            self._let_go(task, "review", said["why"], None)
            task.doubts = said["doubts"]
            return
        if why in ("drain", "deadline"):
            task.handoffs += 1
        reason = task.reason if why == "unstarted" else NEXT[why]
        self._let_go(task, "ready", reason, said.get("due_ms") or at_ms)

    def _let_go(
        self, task: Life, state: str, reason: str, due_ms: int | None, *, badly: bool = False
    ) -> None:
        task.resumes = (0 if task.progressed else task.resumes) + badly
        task.expiries += badly
        task.owner = None
        task.state, task.reason, task.due_ms = state, reason, due_ms or 0
        task.doubts = []

    def end(self, task: Life, state: str) -> None:
        task.state, task.owner, task.doubts = state, None, []
        for act in self.acts.values():
            if act.task_id == task.id and act.state == "intended":
                act.state = "unknown"

    # -- what others do ---------------------------------------------------------------------------

    def claimable(self, room: int, held: int) -> list[str]:
        """The tasks that a claim gives, in any order."""
        due = [
            task
            for task in self.tasks.values()
            if task.state == "ready"
            and task.due_ms <= self.now_ms
            and (task.resumes < 3 or held == 0)
        ]
        picked = sorted(due, key=lambda task: (task.due_ms, task.id))[:room]
        suspects = [task.id for task in picked if task.resumes >= 3]
        return suspects[:1] or [task.id for task in picked]

    def grant(self, owner: Owner) -> None:
        task = self.tasks[owner.task_id]
        task.state, task.owner, task.epoch = "running", owner, task.epoch + 1
        task.expires_ms, task.spared = self.now_ms + TTL, False
        task.progressed, task.waiting_for = False, None

    def expire(self, task: Life, reason: str = "expired") -> str:
        """A lease has ended badly."""
        in_a_row = 1 if task.progressed else task.resumes + 1
        delay_ms = 0 if in_a_row == 1 else min(1_000 * 2 ** (in_a_row - 2), 300_000)
        self._let_go(task, "ready", reason, self.now_ms + delay_ms, badly=True)
        if task.cancel_asked:
            self.end(task, "cancelled")
            return "cancelled"
        if task.resumes > 5 or task.expiries > 50:
            self.end(task, "failed")
            return "abandoned"
        return "expired"

    def reap(self, *, sure: bool) -> dict[str, set[str]]:
        done: dict[str, set[str]] = {}
        for task in self.tasks.values():
            what = self._reap(task, sure)
            if what:
                done.setdefault(what, set()).add(task.id)
        return done

    def _reap(self, task: Life, sure: bool) -> str:
        if task.state == "running" and task.expires_ms < self.now_ms:
            if sure or task.spared:
                return self.expire(task)
            task.spared, task.expires_ms = True, self.now_ms + TTL
            return "spared"
        if task.state == "waiting" and task.due_ms and task.due_ms <= self.now_ms:
            self.wake(task)
            return "woken"
        if task.state == "review" and task.doubts and all(map(self._is_known, task.doubts)):
            for key in task.doubts:
                self._settle_known(task, self.acts[key])
            self._ready_by_order(task)
            return "reviewed"
        return ""

    def _is_known(self, key: str) -> bool:
        return self.acts[key].observed or self.acts[key].state in ("applied", "not_applied")

    def _settle_known(self, task: Life, act: Act) -> None:
        if act.task_id == task.id:
            act.state = "applied" if act.observed else act.state

    def wake(self, task: Life) -> None:
        task.state, task.reason = "ready", "woken"

    def signal(self, task: Life, signal_id: str) -> None:
        task.unread.append(signal_id)
        if task.state == "waiting" and task.waiting_for is not None:
            self.wake(task)
            task.due_ms = self.now_ms

    def revoke(self, task: Life, *, now: bool) -> None:
        due_ms = self.now_ms if now else max(self.now_ms, task.expires_ms)
        self._let_go(task, "ready", "operator", due_ms)
        if task.cancel_asked:
            self.end(task, "cancelled")

    def cancel(self, task: Life, *, force: bool) -> str:
        if task.state in FINAL:
            return "cancelled" if task.state == "cancelled" else "ended"
        lapsed = task.state == "running" and task.expires_ms < self.now_ms
        if task.state == "running" and not force and not lapsed:
            task.cancel_asked = True
            return "asked"
        if task.state == "running":
            self._let_go(task, "ready", "", self.now_ms, badly=lapsed)
        self.end(task, "cancelled")
        return "cancelled"

    def retry(self, task: Life) -> None:
        task.failures = task.resumes = task.expiries = 0
        task.cancel_asked = False
        self._ready_by_order(task)

    def _ready_by_order(self, task: Life) -> None:
        task.state, task.reason, task.due_ms, task.doubts = "ready", "operator", self.now_ms, []

    def may_settle(self, key: str, *, applied: bool) -> bool:
        act = self.acts[key]
        free = self.tasks[act.task_id].state != "running"
        return free and act.state in DOUBT and (applied or not act.observed)

    def settle(self, key: str, *, applied: bool) -> None:
        act = self.acts[key]
        act.state = "applied" if applied else "not_applied"
        task = self.tasks[act.task_id]
        open_doubts = [each for each in task.doubts if self.acts[each].state in DOUBT]
        if task.state == "review" and not open_doubts:
            self._ready_by_order(task)

    def begin(self, owner: Owner, key: str) -> str:
        """How a shared key stands for whoever begins it now."""
        task, act = self.tasks[owner.task_id], self.acts.get(key)
        if task.cancel_asked and task.owner is owner:
            return "turned"
        if act is not None and (act.state == "applied" or act.observed):
            return "done" if task.owner is owner else "turned or done"
        if task.owner is not owner:
            return "turned or busy"
        if act is None or act.state in ("failed", "not_applied"):
            return "fresh"
        other = self.tasks[act.task_id]
        return "busy" if other is not task and other.state == "running" else "in_doubt"
