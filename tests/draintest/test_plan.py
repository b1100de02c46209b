"""The plan: the quick profile is a part of the full one, which has every point and every fault."""

from __future__ import annotations

import itertools

from draintest import plan, program
from draintest.plan import FAULTS, KINDS, Wanted


def names(**wanted: object) -> set[str]:
    return {each.name for each in plan.make(Wanted(**wanted))}  # type: ignore[arg-type]


def test_the_full_profile_has_every_fault_at_every_point() -> None:
    points = program.points(program.core())
    assert len(points) == 12
    cells = {f"{f}-{act}-{point}" for (act, point), f in itertools.product(points, FAULTS)}
    assert cells <= names(profile="full")
    assert names() < names(profile="full")


def test_the_quick_profile_has_every_kind_of_fault_and_every_act() -> None:
    quick = names()
    for fault, act in itertools.product(("kill", "stop"), ("plan", "charge", "email", "ticket")):
        assert any(name.startswith(f"{fault}-{act}-") for name in quick), (fault, act)
    for kind in KINDS:
        without = tuple(each for each in KINDS if each != kind)
        assert names(faults=without) < quick, f"without {kind} nothing would be missed"


def test_what_is_asked_for_by_name_is_played_whatever_the_profile() -> None:
    assert names(only=("kill-ticket-answered",)) == {"kill-ticket-answered"}


def test_a_seed_names_the_same_programs_again() -> None:
    def seeds(seed: int) -> list[object]:
        found = plan.make(Wanted(seed=seed))
        return [each.facts["seed"] for each in found if each.name.startswith("chance-")]

    assert seeds(4) == seeds(4)
    assert seeds(4) != seeds(5)
