"""The protocol keeps its promises in every state that it can reach, within small bounds."""

from __future__ import annotations

import pytest

from tests.model.configurations import LARGE, LARGE_TIME, SMALL, SMALL_TIME, run
from tests.model.lease_time import Clockwork
from tests.model.machine import Scene
from tests.model.search import render

# A model that does nothing breaks nothing: each must have reached at least so many states.
STATES_MIN = {
    "hand-over": 35_000,
    "late": 18_000,
    "two reapers": 15_000,
    "batch": 4_000,
    "drain": 14_000,
    "failover": 6_000,
    "wait": 7_000,
    "two waits": 12_000,
    "cancel": 15_000,
    "cancel of a wait": 2_000,
    "retry": 12_000,
    "probe": 6_000,
    "ask": 3_000,
    "shared": 13_000,
    "shared probe": 25_000,
    "abandon": 2_000,
    "time": 18_000,
    "time: reaper crashes": 15_000,
    "time: claim asked again": 1_500,
    "time: outage": 5_000,
}
LARGE_STATES_MIN = 4_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [*SMALL, *SMALL_TIME])
def test_no_reachable_state_breaks_a_promise(name: str) -> None:
    _holds({**SMALL, **SMALL_TIME}[name], STATES_MIN[name])


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [*LARGE, *LARGE_TIME])
def test_no_reachable_state_breaks_a_promise_within_larger_bounds(name: str) -> None:
    _holds({**LARGE, **LARGE_TIME}[name], LARGE_STATES_MIN)


def _holds(scene: Scene | Clockwork, states_min: int) -> None:
    found = run(scene)
    assert found.violation is None, render(found.violation)
    assert found.complete, f"cut off after {found.states} states"
    assert found.states >= states_min, f"only {found.states} states: do the actors still act?"
