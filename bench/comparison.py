"""Every system on the same work, in turn, in one run; the raw limit in each round of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from draintest.target import CannotSay

from . import limits, pickup, quiet, rates, returning, takeover
from .rates import Figures, Sizes
from .results import Value, merged
from .stage import say
from .stores import NotDurable
from .subject import Contender, Failed, Stores, Subject

# The names under which a measure stands that yields several figures.
YIELDS = {
    "sequence": ["steps, one task"],
    "many": [
        "steps, 50 tasks",
        "CPU a step, worker",
        "CPU a step, store",
        "statements a step",
        "WAL a step",
    ],
    "noops": ["no-op tasks"],
    "singly": ["enqueue, single"],
    "batch": ["enqueue, batch"],
    "pickup": ["pick-up, median", "pick-up, p99"],
    "killed": ["resumed after SIGKILL"],
    "drained": ["resumed after SIGTERM"],
    "replay": ["replay"],
    "idle": ["idle, statements", "idle, open transactions", "idle, CPU"],
    "held": ["held, statements", "held, WAL", "held, HOT updates"],
}
ON_POSTGRES_ALONE = ("statements", "WAL", "transactions", "HOT")
NO_STEPS = "keeps no steps"
WITH_TWO = ("killed", "drained")
OF_STEPS = ("sequence", "many", "replay")


@dataclass(frozen=True)
class Plan:
    """How much is measured. `quick` leaves out what takes its time."""

    contenders: Sequence[Contender]
    measures: Sequence[str]
    sizes: Sizes
    rounds: int
    limit_s: int
    idle_s: float
    held_s: float

    def fast(self) -> list[str]:
        return [name for name in FAST if name in self.measures]

    def with_rounds(self, rounds: int) -> Plan:
        return replace(self, rounds=rounds)

    def slow(self) -> list[str]:
        return [name for name in SLOW if name in self.measures]


FAST: dict[str, Callable[[Subject, Sizes], Figures]] = {
    "sequence": rates.sequence,
    "many": rates.many,
    "noops": rates.noops,
    "singly": rates.singly,
    "batch": rates.batch,
}
SLOW: dict[str, Callable[[Subject, Plan], Figures]] = {
    "pickup": lambda subject, _: pickup.pickup(subject),
    "drained": lambda subject, _: takeover.drained(subject),
    "replay": lambda subject, _: returning.replay(subject),
    "held": lambda subject, plan: quiet.held(subject, plan.held_s),
}
TOGETHER: dict[str, Callable[[Subject, Plan], Figures]] = {
    "killed": lambda subject, _: takeover.killed(subject),
}


class Comparison:
    """One run; `found` is what it has found so far."""

    def __init__(self, plan: Plan, stores: Stores | None = None) -> None:
        self._plan = plan
        self._stores = stores or Stores()
        self.figures: dict[str, dict[str, list[Value]]] = {}
        self.limits: dict[str, list[float]] = {}
        self.systems: dict[str, dict[str, Any]] = {}
        self.loads: list[float] = []

    def run(self) -> dict[str, Any]:
        """Raises NotDurable: what may be lost is not measured."""
        began = time.monotonic()
        try:
            for number in range(self._plan.rounds):
                say(f"round {number + 1} of {self._plan.rounds}")
                self._measure_limits()
                for contender in rotated(self._plan.contenders, number):
                    self._turn(contender, self._plan.fast(), FAST, self._plan.sizes)
            for contender in self._plan.contenders:
                self._turn(contender, self._plan.slow(), SLOW, self._plan)
            self._together()
            if "idle" in self._plan.measures:
                self._idle()
            self.loads.append(os.getloadavg()[0])
        finally:
            self._stores.close()
        return {
            "systems": {
                each.name: self.systems[each.name]
                for each in self._plan.contenders
                if each.name in self.systems
            },
            "limits": self.limits,
            "figures": self.figures,
            "loads": self.loads,
            "rounds": self._plan.rounds,
            "seconds": round(time.monotonic() - began),
        }

    def _measure_limits(self) -> None:
        self.loads.append(os.getloadavg()[0])
        store = self._stores.of(Contender("", "outlast", "postgres"))
        seconds = self._plan.limit_s
        found = {**limits.postgres(store, seconds), **limits.sqlite(seconds)}
        for name, each in found.items():
            self.limits.setdefault(name, []).append(each)

    def _turn(
        self, contender: Contender, names: Sequence[str], table: dict[str, Any], words: Any
    ) -> None:
        """These measures of one system, each on a fresh database of its store."""
        if not names:
            return
        say(f"  {contender.name}: {', '.join(names)}")
        try:
            store = self._stores.of(contender)
        except CannotSay as error:
            self._note(contender, {each: str(error) for name in names for each in YIELDS[name]})
            return
        try:
            for name in names:
                self._note(contender, self._measure(contender, store, name, table[name], words))
        finally:
            self._stores.done_with(store)

    def _measure(
        self, contender: Contender, store: Any, name: str, measure: Any, words: Any
    ) -> dict[str, Any]:
        """Its figures; words in their place if the system cannot, or did not."""
        try:
            with Subject(contender, store) as subject:
                about = self._about(subject)
                why = refused(contender, name, about["cannot"])
                if why:
                    return dict.fromkeys(YIELDS[name], why)
                subject.ask("prepare_for_two" if name in WITH_TWO else "prepare")
                found = measure(subject, words)
                # After the measure: what its clients have said of syncing is then known, too.
                store.assert_durable(subject.url, about["may_be_lost"])
                subject.ask("assert_durable")
        except CannotSay as error:
            return dict.fromkeys(YIELDS[name], str(error))
        except NotDurable:
            raise
        except Exception as error:
            # Whatever one system's trouble is, it must not take the others' figures along.
            say(f"    {contender.name}, {name}: {error}")
            return {each: f"failed: {' '.join(str(error).split())[:120]}" for each in YIELDS[name]}
        return _with_reasons(contender, name, found)

    def _about(self, subject: Subject) -> dict[str, Any]:
        name = subject.contender.name
        if name not in self.systems:
            about = dict(subject.ask("about"))
            store = subject.store
            self.systems[name] = {**about, "store": f"{store.name} {store.version}".strip()}
        return self.systems[name]

    def _note(self, contender: Contender, found: dict[str, Any]) -> None:
        for each, value in found.items():
            shown = value if isinstance(value, str) else f"{value:.4g}"
            say(f"    {contender.name}, {each}: {shown}")
        merged(self.figures, contender.name, found)

    def _together(self) -> None:
        """What is mostly waiting for a timeout, up to a minute of it: all systems at once."""
        names = [name for name in TOGETHER if name in self._plan.measures]
        if names:
            with ThreadPoolExecutor(len(self._plan.contenders)) as threads:
                turns = [
                    threads.submit(self._turn, contender, names, TOGETHER, self._plan)
                    for contender in self._plan.contenders
                ]
            for turn in turns:
                turn.result()

    def _idle(self) -> None:
        """All at once: an idle worker is no load, and a minute for each would be many minutes."""
        say("  idle workers, all at once")
        with ExitStack() as stack:
            subjects = []
            for contender in self._plan.contenders:
                try:
                    store = self._stores.of(contender)
                    stack.callback(self._stores.done_with, store)
                    subject = stack.enter_context(Subject(contender, store))
                    why = refused(contender, "idle", self._about(subject)["cannot"])
                    if not why:
                        subject.ask("prepare")
                        subjects.append(subject)
                except (CannotSay, Failed) as error:
                    why = str(error)
                if why:
                    self._note(contender, dict.fromkeys(YIELDS["idle"], why))
            found = quiet.idle(subjects, self._plan.idle_s)
        for subject in subjects:
            contender = subject.contender
            self._note(contender, _with_reasons(contender, "idle", found[contender.name]))


def rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    """Another one begins in each round: a machine may be slower at the end of one."""
    start = by % max(len(contenders), 1)
    return [*contenders[start:], *contenders[:start]]


def refused(contender: Contender, name: str, cannot: dict[str, str]) -> str:
    """Why a system has no figure in this measure; "" if it should have one."""
    if "steps" in cannot and name in OF_STEPS:
        return NO_STEPS
    if contender.store != "postgres" and name == "held":
        return "not on PostgreSQL"
    return cannot.get(name, "")


def _with_reasons(contender: Contender, name: str, found: Figures) -> dict[str, Any]:
    """With words for what only PostgreSQL counts."""
    if contender.store == "postgres":
        return dict(found)
    counted = [each for each in YIELDS[name] if any(word in each for word in ON_POSTGRES_ALONE)]
    return {**found, **{each: "not on PostgreSQL" for each in counted if each not in found}}
