"""The fence race: writers that never believe that they have lost, and takers at any moment.

Run as a program it is one process of the race.
"""

from __future__ import annotations

import sys

from outlast.core.model import Written
from outlast.store.verbs import AgentLimits, Query
from tests.faults.racers import Notes, Plan, Racer, Signed, main
from tests.store.world import OPERATOR, reap

ENDLESS = AgentLimits(max_resumes=10**9, max_expiries=10**9)
TTLS_MS = (40, 200, 60_000)
ZOMBIES = 6


class Writer(Racer):
    """Claims, writes until it is refused, and then goes on trying with every quote it ever had."""

    def __init__(self, name: str, plan: Plan, notes: Notes) -> None:
        super().__init__(name, plan, notes)
        self.zombies: list[Signed] = []

    def round(self) -> None:
        owners = self._claimed()
        for owner in owners:
            self._write(owner)
        self.zombies = (self.zombies + owners)[-ZOMBIES:]
        for zombie in self.zombies:
            self._haunt(zombie)
        if not owners:
            self.pause(4)

    def _claimed(self) -> list[Signed]:
        grants = self.claim(
            self.chance.choice(TTLS_MS), ENDLESS, room=self.chance.choice((1, 1, 2))
        )
        return [Signed(self.store, grant, self.notes) for grant in grants]

    def _write(self, owner: Signed) -> None:
        for number in range(self.chance.randrange(1, 40)):
            if self.chance.random() < 0.3:
                step = {"key": f"a{number}", "args": "-", "result": 1, "try": 1}
                note = {"text": "and", "data": None}
                answer = owner.send(owner.offer(("step.done", step), ("note", note)))
            else:
                answer = owner.step(f"s{number}")
            if not isinstance(answer, Written):
                return
        if self.chance.random() < 0.5:
            owner.release("drain")

    def _haunt(self, zombie: Signed) -> None:
        """It lost its lease, or let it go, and writes as if nothing had happened."""
        if self.chance.random() < 0.2:
            zombie.release("drain")
        else:
            zombie.note("still here")


class Taker(Racer):
    """Takes any task from its owner, by order or because the lease has lapsed."""

    def round(self) -> None:
        self.pause(20)
        if self.chance.random() < 0.3:
            reaped = reap(self.store)
            self.notes.count("takeovers", len(reaped.expired))
            return
        running = self.store.find(Query(states=["running"], limit=20))
        if running:
            self.store.revoke(self.chance.choice(running).task.id, OPERATOR, now=True)
            self.notes.count("takeovers")


if __name__ == "__main__":
    main({"writer": Writer, "taker": Taker}, sys.argv[1:])
