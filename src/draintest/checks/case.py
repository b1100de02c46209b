"""A case: one scenario's history as the checks ask it, and the findings that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..faults import STOP
from ..history import Record, View
from ..program import Act
from ..strain import explains
from ..target import Limits

CLOCKS_DIFFER_MS = 1_000
LETS_GO = ("released", "expired", "revoked", "waiting", "ended")


@dataclass(frozen=True)
class Finding:
    """What a check says against a scenario. `lines`: numbers of records that show it."""

    check: str
    verdict: str
    scenario: str
    said: str
    lines: tuple[int, ...] = ()


@dataclass
class Say:
    """Where one check puts what it saw of one scenario."""

    check: str
    scenario: str
    seen: int = 0
    findings: list[Finding] = field(default_factory=list)

    def saw(self, count: int = 1) -> None:
        """There was something here that could have been wrong."""
        self.seen += count

    def fail(self, said: str, *records: Record | None) -> None:
        self._add("fail", said, records)

    def unsure(self, said: str, *records: Record | None) -> None:
        self._add("inconclusive", said, records)

    def _add(self, verdict: str, said: str, records: tuple[Record | None, ...]) -> None:
        lines = tuple(sorted({record["n"] for record in records if record is not None}))
        self.findings.append(Finding(self.check, verdict, self.scenario, said, lines))


@dataclass(frozen=True)
class Call:
    """One call of the world: what it said, and what became of it."""

    came: Record
    outcome: Record | None
    answered: Record | None

    @property
    def act(self) -> str:
        return str(self.came["act"])

    @property
    def pid(self) -> int:
        return int(self.came["pid"] or 0)

    @property
    def word(self) -> str:
        """applied, repeated, refused or dropped; "" if it was held to the end."""
        return self.outcome["what"].partition(".")[2] if self.outcome else ""


@dataclass(frozen=True)
class Lease:
    """One ownership on the log: from its grant to what ended it."""

    granted: Record
    ended: Record | None
    overlaps: Record | None = None

    @property
    def epoch(self) -> int:
        return int(self.granted["epoch"])

    @property
    def pid(self) -> int:
        return int(self.granted.get("pid") or 0)

    @property
    def how(self) -> str:
        return str(self.ended["kind"]) if self.ended else ""


class Case:
    """One scenario. `everything`: the whole history, for what concerns the machine."""

    def __init__(self, name: str, view: View, everything: View) -> None:
        self.name, self.view, self._everything = name, view, everything
        self.began = view.first("scenario.began") or {}
        self.limits = Limits(**self.began.get("limits", {}))
        self.offers = frozenset(self.began.get("offers", ()))
        self.not_claimed = frozenset(self.began.get("not_claimed", ()))

    # -- what was asked of the target -------------------------------------------------------------

    @cached_property
    def tasks(self) -> list[str]:
        return [record["task"] for record in self.view.of("submitted")]

    def acts(self, task: str) -> list[Act]:
        submitted = self.view.first("submitted", task=task)
        return list(submitted["acts"]) if submitted else []

    # -- what the world saw -----------------------------------------------------------------------

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        lines: dict[int, dict[str, Record]] = {}
        for record in self.view.records:
            if record["what"].startswith("world.") and record.get("call"):
                lines.setdefault(record["call"], {})[record["what"].partition(".")[2]] = record
        found: dict[str, list[Call]] = {}
        for words in lines.values():
            outcomes = [
                words[w] for w in ("applied", "repeated", "refused", "dropped") if w in words
            ]
            call = Call(words["came"], next(iter(outcomes), None), words.get("answered"))
            found.setdefault(call.came["task"], []).append(call)
        return found

    def calls(self, task: str, act: str = "") -> list[Call]:
        """The calls of a task in the order in which they came."""
        return [call for call in self._calls.get(task, ()) if act in ("", call.act)]

    def calls_in_time(self, task: str, act: str = "") -> list[Call]:
        """Its calls, but for those of an owner that had been overtaken when they came.

        Of one that was stopped between its last look and its call, the call comes late whatever
        the target does: that is no act of an heir. Whether it then goes on is the fence's affair.
        """
        return [call for call in self.calls(task, act) if not self._is_overtaken(task, call)]

    def _is_overtaken(self, task: str, call: Call) -> bool:
        mine = [lease for lease in self.leases(task) if lease.pid == call.pid]
        heirs = [x for x in self.leases(task) if mine and x.epoch > mine[-1].epoch]
        if heirs and call.came["t_ms"] > self.ours_ms(heirs[0].granted["at_ms"]):
            return True
        stopped = self.harmed(call.pid, STOP)
        return stopped is not None and any(
            self.fallen_at_ms(stopped) < other.came["t_ms"] < call.came["t_ms"]
            for other in self.calls(task)
            if other.pid != call.pid
        )

    def receipts(self, task: str, act: str) -> set[str]:
        """What the world has answered, or would have, to that act."""
        return {
            call.outcome["receipt"]
            for call in self.calls(task, act)
            if call.outcome and call.outcome.get("receipt")
        }

    # -- what the target says ---------------------------------------------------------------------

    def log(self, task: str) -> list[Record]:
        return sorted(self.view.of("log", task=task), key=lambda record: record["seq"])

    def leases(self, task: str) -> list[Lease]:
        """Who owned it, one after the other."""
        found: list[Lease] = []
        open_: Record | None = None
        for event in self.log(task):
            if event["kind"] == "granted":
                if open_ is not None:
                    found.append(Lease(open_, None, overlaps=event))
                open_ = event
            elif event["kind"] in LETS_GO and open_ is not None and self._is_of(event, open_):
                found.append(Lease(open_, event))
                open_ = None
        return [*found, Lease(open_, None)] if open_ is not None else found

    @staticmethod
    def _is_of(event: Record, granted: Record) -> bool:
        return event["epoch"] in (0, granted["epoch"])

    def last_seen(self, task: str) -> Record | None:
        """The task as the target showed it at the end."""
        return self.view.last("task", id=task)

    # -- harm -------------------------------------------------------------------------------------

    def landed(self, *kinds: str) -> list[Record]:
        return [r for r in self.view.of("fault.landed") if not kinds or r["fault"] in kinds]

    def harmed(self, pid: int, *kinds: str) -> Record | None:
        return next((r for r in self.landed(*kinds) if r["pid"] in (pid, 0)), None)

    def died(self, pid: int) -> bool:
        """Whether that process ended while the scenario was going on, by whatever cause."""
        return self.view.first("worker.ended", "worker.had_ended", pid=pid) is not None

    def fallen_at_ms(self, fault: Record) -> float:
        """When the harm was done, by our clock."""
        return float(fault.get("struck_ms") or fault["t_ms"])

    # -- time -------------------------------------------------------------------------------------

    def ours_ms(self, wall_ms: float) -> float:
        """A time of the target's clock in ours: both run on this machine, until one is stepped."""
        anchor = self.view.records[0]
        ours_ms = float(wall_ms - anchor["wall_ms"] + anchor["t_ms"])
        for stepped in self.view.of("clock.stepped"):
            if ours_ms - stepped["shift_ms"] >= stepped["t_ms"] - CLOCKS_DIFFER_MS:
                ours_ms -= stepped["shift_ms"]
        return ours_ms

    def late(
        self, say: Say, said: str, from_ms: float, to_ms: float, overrun_ms: float, *records: Any
    ) -> None:
        """A bound was missed by `overrun_ms`: a failure, unless the machine was as slow as that."""
        if explains(self._everything, from_ms, to_ms, overrun_ms):
            say.unsure(f"{said}; but the machine was that slow meanwhile", *records)
        else:
            say.fail(said, *records)


Check = Callable[[Case, Say], None]


def cases(everything: View) -> Iterator[Case]:
    for name, view in everything.scenarios():
        yield Case(name, view, everything)
