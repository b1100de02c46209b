"""The matrix: what an interrupted call comes to, by policy, class of provider, and moment.

A worker is frozen in its call, before or after the call is applied; an heir does as the policy
says; then the frozen one goes on. How often the world has applied the call then is a fact of the
policy and the provider, the same for every target that does what it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import program
from .faults import STOP
from .history import View
from .scenarios import Play, Scenario, linger, until_taken_over
from .stage import Stage

ACT = "charge"
PROVIDERS = ("keyless", "keyed", "fenced")
MOMENTS = ("before", "applied")


@dataclass(frozen=True)
class Cell:
    """One of the 24: `policy` is retry or surface, `moment` where the worker was stopped."""

    policy: str
    provider: str
    queryable: bool
    moment: str

    @property
    def name(self) -> str:
        asked = "queryable" if self.queryable else "silent"
        return f"matrix-{self.policy}-{self.provider}-{asked}-{self.moment}"

    @property
    def expected(self) -> int:
        """How often the call is applied.

        Shown to a person, it is never done again. Done again, a key makes it one; a fence does
        where the old call is still to come; asking first does where it was already there.
        """
        if self.policy == "surface" or self.provider == "keyed":
            return 1
        if self.moment == "before":
            return 1 if self.provider == "fenced" else 2
        return 1 if self.queryable else 2


def cells() -> Iterator[Cell]:
    for policy in ("retry", "surface"):
        for provider in PROVIDERS:
            for queryable in (False, True):
                for moment in MOMENTS:
                    yield Cell(policy, provider, queryable, moment)


def scenarios() -> list[Scenario]:
    """A scenario for each cell."""
    return [Scenario(cell.name, _play(cell), (STOP,)) for cell in cells()]


def applied(view: View, cell: Cell) -> int:
    """How often the world has applied the call of a cell."""
    return len(view.of("world.applied", scenario=cell.name, act=ACT))


def _play(cell: Cell) -> Play:
    again = "probe" if cell.queryable else "retry"
    policy = again if cell.policy == "retry" else "ask"
    acts = [
        program.step("plan"),
        program.effect(ACT, cell.provider, queryable=cell.queryable, policy=policy),
        program.step("report"),
    ]

    def play(stage: Stage) -> None:
        stage.witness.hold(stage.name, ACT, cell.moment)
        stage.submit(acts)
        victim = stage.worker("victim")
        stage.until_held(ACT, cell.moment)
        heir = stage.worker("heir")
        stage.harm(STOP, victim)
        until_taken_over(stage, heir)
        stage.until_quiet()
        # Only now: the old call arrives, or its answer does, when the heir has done its part.
        stage.thaw(victim)
        stage.witness.let_go(stage.name, ACT)
        stage.witness.until(stage.name, "world.answered", 2.0, act=ACT, pid=victim.pid)
        linger(stage, victim)
        stage.until_rest()

    return play
