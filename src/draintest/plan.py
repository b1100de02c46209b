"""The plan of a run: which scenarios, from a profile, the faults that are wanted, and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from . import harm_to_database, matrix, program, scenarios
from .faults import CHILD, KILL, STOP, TERM, faketime_library
from .scenarios import Scenario

FAULTS = (KILL, TERM, STOP)
CLOCK = frozenset({"clock"})
KINDS = (*FAULTS, CHILD, "clock", "cancel", "time", "wire", "database", "front")
PROFILES = {"quick": 2, "full": 60, "matrix": 0}


@dataclass(frozen=True)
class Wanted:
    """What the user asked for. `only`: scenarios whose names begin so; empty: all."""

    profile: str = "quick"
    faults: tuple[str, ...] = KINDS
    seed: int = 1
    only: tuple[str, ...] = ()

    @property
    def limited(self) -> bool:
        """Whether checks may find nothing to look at because nobody wanted it."""
        return bool(self.only) or self.faults != Wanted.faults or self.profile == "matrix"


def make(wanted: Wanted) -> list[Scenario]:
    """The scenarios of a run, the long ones first, so that lanes end together."""
    if wanted.profile == "matrix":
        return matrix.scenarios()
    planes = {"wire": ("wire-", "network-"), "database": ("database-",), "front": ("front-",)}
    second = tuple(b for kind, begins in planes.items() if kind in wanted.faults for b in begins)
    harmed = [s for s in harm_to_database.scenarios() if second and s.name.startswith(second)]
    found = [*_named(wanted.faults), *harmed, *_by_chance(wanted), *_enumerated(wanted.faults)]
    if wanted.only:
        return [s for s in found if s.name.startswith(wanted.only)]
    return [s for s in found if s.quick or wanted.profile != "quick"]


def _enumerated(faults: Sequence[str]) -> list[Scenario]:
    """Every point of the core program × every fault of a worker."""
    acts = program.core()
    return [
        Scenario(
            f"{fault}-{act}-{point}",
            scenarios.at_point(acts, act, point, fault),
            harms=(fault,),
            needs=frozenset({"drain"} if fault == TERM else ()),
            quick=_is_quick(act, point, fault),
        )
        for act, point in program.points(acts)
        for fault in FAULTS
        if fault in faults
    ]


def _is_quick(act: str, point: str, fault: str) -> bool:
    """Whether this cell says what no other says: all of them are played by the full profile.

    A drain ends at the boundary after the act, whatever its kind; and that a provider can be asked
    makes a difference only where the act was applied and not answered.
    """
    if fault == TERM:
        return act in ("plan", "charge")
    return act != "ticket" or point == "applied"


def _named(faults: Sequence[str]) -> list[Scenario]:
    found = [Scenario("calm", scenarios.calm)]
    if KILL in faults:
        budget = frozenset({"budget"})
        found += [
            Scenario("poison", scenarios.poison, needs=budget),
            Scenario("many-submits", scenarios.many_submits, harms=(KILL,)),
        ]
    if TERM in faults:
        drain = frozenset({"drain"})
        found += [
            Scenario("drain-endless", scenarios.endless_drain, (TERM,), drain),
            Scenario("drain-slow", scenarios.slow_drain, (TERM,), drain),
            Scenario("drain-claims-nothing", scenarios.idle_drain, (TERM,), drain),
        ]
    if CHILD in faults:
        found += [
            Scenario(f"child-{act}-{point}", scenarios.child_at_point(act, point), (CHILD,),
                     frozenset({"commands"}), quick=(act, point) == ("charge", "applied"))
            for act in ("plan", "charge", "email", "ticket")
            for point in ("before", "applied")
        ]  # fmt: skip
    if "time" in faults:
        found += [
            Scenario("long-call", scenarios.long_call),
            Scenario("blocked", scenarios.blocked),
        ]
    if "cancel" in faults:
        found += _cancels(KILL in faults)
    library = faketime_library()
    if "clock" in faults and library:
        found.append(Scenario("clock-of-heir", scenarios.clock_of_heir(library), ("clock",), CLOCK))
    return found


def _cancels(may_kill: bool) -> list[Scenario]:
    needs = frozenset({"cancel"})
    found = [
        Scenario("cancel-running", scenarios.cancel_running, needs=needs),
        Scenario("cancel-without-worker", scenarios.cancel_without_worker, needs=needs),
        Scenario("cancel-child", scenarios.cancel_with_child, needs=needs | {"children"}),
    ]
    if may_kill:
        found.append(Scenario("cancel-orphan", scenarios.cancel_orphan, (KILL,), needs))
    return found


def _by_chance(wanted: Wanted) -> list[Scenario]:
    kinds = tuple(fault for fault in FAULTS if fault in wanted.faults)
    if not kinds:
        return []
    chance = Random(wanted.seed)
    seeds = [chance.randrange(2**32) for _ in range(PROFILES[wanted.profile])]
    return [
        Scenario(f"chance-{number}", scenarios.by_chance(seed, kinds), facts={"seed": seed})
        for number, seed in enumerate(seeds, 1)
    ]
