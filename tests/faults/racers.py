"""What both races are run with: owners that sign what they write, and notes of what they hear."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from outlast.core.clock import Env
from outlast.core.errors import NotAllowedNow, Unavailable
from outlast.core.model import Answer, Entry, Grant, Offer, Turned, Worker, Written
from outlast.store.database import LockedOut
from outlast.store.verbs import AgentLimits, Claim, NewTask, Store
from tests.faults import broken
from tests.store import world
from tests.store.world import Owner, Quote, Said
from tests.support.waiting import until

ENV = Env()
# Answers that tell an owner something; all others are refusals of a zombie.
NOT_LOST = ("cancel_asked", "signal_waiting", "again")


class Plan(msgspec.Struct, frozen=True):
    """One process of a race: for how long it runs once the file `go_path` is there, what is broken
    in its stores, and where it notes what it was told."""

    url: str
    go_path: str
    seconds: float
    writers: int
    takers: int
    seed: int
    broken: str
    notes_path: str


class Notes:
    """What one process heard: every acknowledged event, in a file; counts; what should not be."""

    def __init__(self, path: Path) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._file = path.open("w")

    def heard(self, offer: Offer, answer: Answer) -> None:
        with self._lock:
            if isinstance(answer, Turned):
                self.counts[f"turned {answer.why}"] += len(offer.entries)
                if answer.why == "invalid":
                    self.wrong.append(f"{offer.last}: {answer}")
                return
            self.counts["written"] += len(offer.entries)
            for each in offer.entries:
                event = each.event
                self._file.write(f"{event.task_id} {event.seq} {event.digest}\n")

    def compare(self, offer: Offer, first: Answer, again: Answer) -> None:
        """The same bytes sent twice: the answers must not contradict each other."""
        was, is_now = isinstance(first, Written), isinstance(again, Written)
        refused = isinstance(first, Turned) and first.why not in NOT_LOST
        if (was and not is_now) or (refused and is_now):
            self.say(f"{offer.last}: answered {first}, and sent again {again}")

    def count(self, name: str, times: int = 1) -> None:
        with self._lock:
            self.counts[name] += times

    def say(self, what: str) -> None:
        with self._lock:
            self.wrong.append(what)

    def report(self) -> dict[str, Any]:
        self._file.close()
        return {"counts": self.counts, "wrong": self.wrong[:50], "wrongs": len(self.wrong)}


class Signed(Owner):
    """An owner that says in every event which epoch of which worker wrote it."""

    def __init__(self, store: Store, grant: Grant, notes: Notes) -> None:
        super().__init__(store, grant)
        self.notes = notes
        self.last_holder = self.epoch

    def offer(self, *said: Said, at_ms: int | None = None) -> Offer:
        return super().offer(*said, at_ms=ENV.clock.wall_ms() if at_ms is None else at_ms)

    def _entry(
        self, quote: Quote, holder: int, kind: str, content: dict[str, Any], at_ms: int
    ) -> Entry:
        signed = {**content, "signed": self.epoch}
        return super()._entry(quote, holder, kind, signed, at_ms)

    @property
    def let_go(self) -> bool:
        """Whether it knows that it has let the task go."""
        return self.last_holder != self.epoch

    def heard(self, offer: Offer, answer: Answer) -> None:
        super().heard(offer, answer)
        if isinstance(answer, Written):
            self.last_holder = offer.last.holder

    def send(self, offer: Offer) -> Answer:
        [answer] = self.store.append([offer])
        self.notes.heard(offer, answer)
        self.heard(offer, answer)
        return answer


class Racer:
    """One thread with a store of its own, which goes round until the time is over."""

    def __init__(self, name: str, plan: Plan, notes: Notes) -> None:
        self.name, self.plan, self.notes = name, plan, notes
        self.chance = random.Random(f"{plan.seed} {name}")
        self.store = broken.open_store(plan.url, plan.broken)
        self.worker = self.new_worker()

    def round(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        ends_at = time.monotonic() + self.plan.seconds
        while time.monotonic() < ends_at:
            try:
                self.round()
            except NotAllowedNow:
                self.notes.count("not allowed now")
            except Unavailable:
                self.notes.count("unavailable")
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                self.notes.say(f"{type(error).__name__}: {error} ({where.name}:{where.lineno})")
                if not self.plan.broken:
                    traceback.print_exc(file=sys.stderr)
        self.store.close()

    def new_worker(self) -> Worker:
        worker = world.worker(f"{self.name}-{ENV.new_id()}")
        return self.store.enlist(worker)

    def claim(
        self, ttl_ms: int, limits: AgentLimits, *, room: int = 1, held: int = 0
    ) -> list[Grant]:
        claim = Claim(
            worker=self.worker,
            queues=[world.QUEUE],
            agents={world.AGENT: limits},
            room=room,
            ttl_ms=ttl_ms,
            token=ENV.new_id(),
            held=held,
        )
        grants = self.store.claim(claim)
        self.notes.count("grants", len(grants))
        return grants

    def submit(self, count: int = 1) -> list[str]:
        new = [NewTask(id=ENV.new_id(), agent=world.AGENT, input="{}") for _ in range(count)]
        return [each.task.id for each in self.store.submit(new)]

    def pause(self, most_ms: float) -> None:
        """A real moment: this is a race of real processes, and nobody may spin."""
        time.sleep(self.chance.random() * most_ms / 1_000)


def count_locks(notes: Notes) -> None:
    """Note every time a transaction was locked out, and every time it was a deadlock."""

    def counted(self: LockedOut, *said: object) -> None:
        Exception.__init__(self, *said)
        notes.count("locked out")
        if "deadlock" in str(self):
            notes.count("deadlocks")

    LockedOut.__init__ = counted  # type: ignore[assignment,method-assign]


def main(roles: Mapping[str, Callable[[str, Plan, Notes], Racer]], words: Sequence[str]) -> None:
    """The program of one process: `words` is a plan as JSON; prints its report as JSON."""
    plan = msgspec.json.decode(words[0], type=Plan)
    notes = Notes(Path(plan.notes_path))
    count_locks(notes)
    if plan.broken == broken.RESENDS:
        broken.write_rows_of_resends()
    names = [("writer", n) for n in range(plan.writers)] + [
        ("taker", n) for n in range(plan.takers)
    ]
    racers = [roles[role](f"{role}-{plan.seed}-{n}", plan, notes) for role, n in names]
    threads = [threading.Thread(target=racer.run) for racer in racers]
    print("ready")
    until(Path(plan.go_path).exists, "the start of the race", timeout_s=60)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(notes.report()))
