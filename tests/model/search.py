"""A breadth-first search through every state that a model can reach."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Moves = Callable[[S], Iterable[tuple[str, S]]]
Check = Callable[[S], str | None]  # the name of the promise that this state breaks

NO_WAY_ON = "from every state there is a way on to the end"


@dataclass(frozen=True)
class Violation:
    """A promise that was broken, and the shortest way there."""

    promise: str
    trace: tuple[str, ...]


@dataclass(frozen=True)
class Found(Generic[S]):
    """What a search saw.

    ``complete`` says that no reachable state was left out: without it, "no violation" means
    little.
    """

    states: int
    transitions: int
    depth: int
    seconds: float
    complete: bool
    violation: Violation | None


def search(
    initial: S,
    moves: Moves[S],
    check: Check[S],
    limit: int,
    goal: Callable[[S], bool] | None = None,
) -> Found[S]:
    """Visit every state once, nearest first; stop at the first that breaks a promise.

    With a ``goal``, a finished search asks backwards as well: is there a state from which no
    sequence of moves reaches a goal? (For that every transition is kept.)
    """
    walk = _Walk(initial, moves, goal is not None)
    promise = check(initial)
    if promise is not None:
        return walk.found(Violation(promise, ()), complete=False)
    while walk.next < len(walk.states):
        if len(walk.states) > limit:
            return walk.found(None, complete=False)
        for fresh in walk.expand():
            promise = check(walk.states[fresh])
            if promise is not None:
                return walk.found(walk.violation(promise, fresh), complete=False)
    if goal is not None:
        stuck = walk.first_that_never_reaches(goal)
        if stuck is not None:
            return walk.found(walk.violation(NO_WAY_ON, stuck), complete=True)
    return walk.found(None, complete=True)


class _Walk(Generic[S]):
    """States in the order in which they were found, each with the one that it was found from."""

    def __init__(self, initial: S, moves: Moves[S], keep_edges: bool) -> None:
        self.states: list[S] = [initial]
        self.number: dict[S, int] = {initial: 0}
        self.parent = array("q", [-1])
        self.level = array("i", [0])
        self.edges_from = array("q")
        self.edges_to = array("q")
        self.next = 0
        self.transitions = 0
        self._moves = moves
        self._keep_edges = keep_edges
        self._started = time.monotonic()

    def expand(self) -> list[int]:
        here = self.next
        self.next += 1
        fresh = []
        for _, there in self._moves(self.states[here]):
            self.transitions += 1
            number = self.number.get(there)
            if number is None:
                number = len(self.states)
                self.number[there] = number
                self.states.append(there)
                self.parent.append(here)
                self.level.append(self.level[here] + 1)
                fresh.append(number)
            if self._keep_edges:
                self.edges_from.append(here)
                self.edges_to.append(number)
        return fresh

    def first_that_never_reaches(self, goal: Callable[[S], bool]) -> int | None:
        backwards: dict[int, list[int]] = {}
        for here, there in zip(self.edges_from, self.edges_to, strict=True):
            backwards.setdefault(there, []).append(here)
        reaches = bytearray(len(self.states))
        todo = [number for number, state in enumerate(self.states) if goal(state)]
        for number in todo:
            reaches[number] = 1
        while todo:
            for before in backwards.get(todo.pop(), ()):
                if not reaches[before]:
                    reaches[before] = 1
                    todo.append(before)
        stuck = reaches.find(0)
        return None if stuck < 0 else stuck

    def violation(self, promise: str, number: int) -> Violation:
        """Labels are not kept: each move on the way is made once more to learn its name."""
        path = [number]
        while self.parent[path[-1]] >= 0:
            path.append(self.parent[path[-1]])
        path.reverse()
        trace = []
        for here, there in pairwise(path):
            target = self.states[there]
            trace.append(next(t for t, state in self._moves(self.states[here]) if state == target))
        return Violation(promise, tuple(trace))

    def found(self, violation: Violation | None, complete: bool) -> Found[S]:
        return Found(
            states=len(self.states),
            transitions=self.transitions,
            depth=self.level[-1],
            seconds=time.monotonic() - self._started,
            complete=complete,
            violation=violation,
        )


def render(violation: Violation, meaning: Mapping[str, str] | None = None) -> str:
    """One line a move, then the promise that the last one broke."""
    lines = [f"{number:3}  {move}" for number, move in enumerate(violation.trace, 1)]
    lines.append(f"  -> broken: {violation.promise}")
    if meaning and violation.promise in meaning:
        lines.append(f"     {meaning[violation.promise]}")
    return "\n".join(lines)
