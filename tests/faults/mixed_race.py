"""The mixed race: everything that may happen to a task at random, and answers that are lost.

Run as a program it is one process of the race.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from outlast.core.errors import UnknownEffect, UnknownTask
from outlast.core.model import Answer, Grant, Offer, Signal, Turned, Written
from outlast.store.verbs import AgentLimits, EffectQuery, Query, Store
from tests.faults.racers import ENV, Notes, Plan, Racer, Signed, main
from tests.store.world import OPERATOR, Begun, reap

SHORT = AgentLimits(max_resumes=4, max_expiries=30)
TTLS_MS = (60, 300, 2_000)
SIGNALS = ("go", "stop")
SHARED_KEYS = 40
OPEN_TASKS = 10
LATE_OFFERS = 20


class AnswerLost(Exception):
    """The answer never came, and this owner gives up: it is a zombie that does not know it."""


class Forgetful(Signed):
    """An owner that loses answers: then it sends the same bytes again, at once or much later."""

    def __init__(self, store: Store, grant: Grant, notes: Notes, racer: Writer) -> None:
        super().__init__(store, grant, notes)
        self.racer = racer
        # As an attempt does when it resumes: what was begun before, and what was done.
        ledger = store.find_effects(EffectQuery(task_id=self.task_id))
        self.done = {effect.key for effect in ledger if effect.state == "applied"}
        self.open_intents = {e.key: e.tool for e in ledger if e.state == "intended"}

    def send(self, offer: Offer) -> Answer:
        [answer] = self.store.append([offer])
        self.notes.heard(offer, answer)
        chance = self.racer.chance.random()
        if chance < 0.2:
            [again] = self.store.append([offer])
            self.notes.compare(offer, answer, again)
            answer = again
        elif chance < 0.28:
            self.racer.late.append((offer, answer))
            if chance < 0.24:
                raise AnswerLost
        self.heard(offer, answer)
        return answer

    def begin(self, key: str = "", **changes: object) -> Begun:
        offer = self.beginning(key, **changes)
        begun = self.store.begin(offer)
        if begun.answer is not None:
            self.notes.heard(offer, begun.answer)
            if self.racer.chance.random() < 0.2:
                self._compare(offer, begun, self.store.begin(offer))
            self.heard(offer, begun.answer)
        return begun

    def _compare(self, offer: Offer, begun: Begun, again: Begun) -> None:
        """As for an append; but what was begun is no longer ours once the task has gone on."""
        if again.answer is None:
            if isinstance(begun.answer, Written):
                self.notes.say(f"{offer.last}: begun as {begun}, and sent again {again}")
        elif not (
            isinstance(again.answer, Turned) and "others have gone on" in again.answer.detail
        ):
            self.notes.compare(offer, begun.answer or again.answer, again.answer)


class Writer(Racer):
    """Owners that work as attempts do, with every kind of act in any order."""

    def __init__(self, name: str, plan: Plan, notes: Notes) -> None:
        super().__init__(name, plan, notes)
        self.late: list[tuple[Offer, Answer]] = []
        self.acts: list[Callable[[Forgetful], Answer | None]] = [
            lambda owner: owner.step(f"s{self.chance.randrange(99)}"),
            lambda owner: owner.note(),
            self._several,
            self._effect,
            self._effect,
            self._shared_effect,
            self._shared_effect,
            self._wait_here,
            self._let_go,
        ]

    def round(self) -> None:
        self._send_late()
        grants = self.claim(self.chance.choice(TTLS_MS), SHORT, room=self.chance.choice((1, 3)))
        for owner in [Forgetful(self.store, grant, self.notes, self) for grant in grants]:
            try:
                self._attempt(owner)
            except AnswerLost:
                continue
        if not grants:
            self.pause(10)

    def _attempt(self, owner: Forgetful) -> None:
        for _ in range(self.chance.randrange(1, 15)):
            answer = self.chance.choice(self.acts)(owner)
            if isinstance(answer, Turned):
                if answer.why == "cancel_asked":
                    owner.acknowledge_cancel()
                return
            if owner.let_go:
                return
            if self.chance.random() < 0.2:
                owner.renew()
        self._let_go(owner)

    def _send_late(self) -> None:
        """An offer from long ago: its task may have had many owners since."""
        if self.late and (len(self.late) > LATE_OFFERS or self.chance.random() < 0.3):
            offer, first = self.late.pop(self.chance.randrange(len(self.late)))
            [again] = self.store.append([offer])
            self.notes.count("sent much later")
            self.notes.compare(offer, first, again)

    # What an attempt does.

    def _several(self, owner: Forgetful) -> Answer:
        step = ("step.done", {"key": "x", "args": "-", "result": 1, "try": 1})
        return owner.send(owner.offer(step, ("checkpoint", {"state": 1, "counts": {}}), step))

    def _effect(self, owner: Forgetful) -> Answer:
        name = f"pay{self.chance.randrange(6)}"
        if owner.key(name) in owner.done:
            return owner.note()
        begun_before = owner.key(name) in owner.open_intents
        answer = None if begun_before else owner.intend(name)
        if isinstance(answer, Turned) or self.chance.random() < 0.3:
            return answer or owner.note()
        return self._outcome(owner, name, owner.key(name))

    def _shared_effect(self, owner: Forgetful) -> Answer | None:
        key = f"invoice-{self.chance.randrange(SHARED_KEYS)}"
        begun = owner.begin(key)
        self.notes.count(f"begun {begun.state}")
        if begun.state == "turned":
            return begun.answer
        if (
            begun.state in ("fresh", "in_doubt")
            and key not in owner.done
            and self.chance.random() < 0.8
        ):
            return self._outcome(owner, "pay", key)
        return None

    def _outcome(self, owner: Forgetful, name: str, key: str) -> Answer:
        if self.chance.random() < 0.7:
            answer = owner.applied(name, key=key)
            owner.done.add(key)
            if isinstance(answer, Turned) and answer.why == "lost":
                self.store.observe(
                    owner.task_id, owner.epoch, owner.worker, key, applied=True, result="late"
                )
            return answer
        return owner.failed(name, key=key)

    def _wait_here(self, owner: Forgetful) -> Answer | None:
        for signal in self.store.signals(owner.task_id)[:1]:
            return owner.read_signal(signal)
        return None

    def _let_go(self, owner: Forgetful) -> Answer:
        ways: list[Callable[[], Answer]] = [
            lambda: owner.release(self.chance.choice(("drain", "deadline", "trust", "unstarted"))),
            owner.ask_a_person,
            lambda: owner.retry(self.chance.randrange(100)),
            lambda: self._wait(owner),
            lambda: self._wait(owner),
            owner.succeed,
            owner.fail,
        ]
        answer = self.chance.choice(ways)()
        if isinstance(answer, Turned) and answer.why == "cancel_asked":
            return owner.acknowledge_cancel()
        return answer

    def _wait(self, owner: Forgetful) -> Answer:
        if self.chance.random() < 0.5:
            answer = owner.wait(None, ENV.clock.wall_ms() + self.chance.randrange(300))
        else:
            answer = owner.wait(self.chance.choice(SIGNALS))
        if isinstance(answer, Turned) and answer.why == "signal_waiting":
            signals = self.store.signals(owner.task_id)
            return owner.read_signal(signals[0]) if signals else owner.release("drain")
        return answer


class Taker(Racer):
    """Clients, operators and reapers; each call may be made twice, as if its answer was lost."""

    def round(self) -> None:
        self.pause(20)
        acts = [self._submit, self._reap, self._reap, self._cancel, self._signal, self._signal,
                self._revoke, self._settle, self._retry, self._crash]  # fmt: skip
        act = self.chance.choice(acts)
        try:
            act()
        except (UnknownTask, UnknownEffect):
            self.notes.count("unknown")

    def _some_task(self, *states: str) -> str:
        found = self.store.find(Query(states=states, limit=30))
        return self.chance.choice(found).task.id if found else "none"

    def _twice(self) -> range:
        return range(self.chance.choice((1, 1, 2)))

    def _submit(self) -> None:
        open_states = ("ready", "running", "waiting", "review")
        missing = OPEN_TASKS - len(self.store.find(Query(states=open_states)))
        if missing > 0:
            self.submit(missing)

    def _reap(self) -> None:
        since_ms = None if self.chance.random() < 0.1 else self.store.now_ms()
        reaped = reap(self.store, since_ms=since_ms)
        self.notes.count("takeovers", len(reaped.expired))
        self.notes.count("blocked", len(reaped.blocked))

    def _cancel(self) -> None:
        task_id = self._some_task()
        for _ in self._twice():
            self.store.cancel(task_id, OPERATOR, force=self.chance.random() < 0.2)

    def _signal(self) -> None:
        task_id = self._some_task("waiting", "running", "ready")
        name = self.chance.choice(SIGNALS)
        signal = Signal(ENV.new_id(), task_id, name, "true", "ann", 0)
        for _ in self._twice():
            self.store.signal(task_id, signal)

    def _revoke(self) -> None:
        self.store.revoke(self._some_task("running"), OPERATOR, now=self.chance.random() < 0.7)
        self.notes.count("takeovers")

    def _settle(self) -> None:
        doubts = self.store.find_effects(EffectQuery(in_doubt=True, limit=20))
        if doubts:
            effect = self.chance.choice(doubts)
            applied = self.chance.random() < 0.5
            for _ in self._twice():
                self.store.settle(effect.key, OPERATOR, applied=applied, receipt="r")

    def _retry(self) -> None:
        self.store.retry(self._some_task("review", "failed", "cancelled"), OPERATOR)

    def _crash(self) -> None:
        held = [each.lease for each in self.store.find(Query(states=["running"], limit=20))]
        workers = [lease.worker for lease in held if lease]
        if workers and self.chance.random() < 0.3:
            self.notes.count("takeovers", len(self.store.crash(workers[0], by="its parent")))


if __name__ == "__main__":
    main({"writer": Writer, "taker": Taker}, sys.argv[1:])
