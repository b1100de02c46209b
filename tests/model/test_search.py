"""The search sees every state, tells the shortest way, and says when it was cut off."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.search import NO_WAY_ON, render, search


def jumps(place: int) -> Iterator[tuple[str, int]]:
    for step in (1, 2):
        if place + step <= 10:
            yield f"jump {step} from {place}", place + step


def nothing_is_wrong(place: int) -> str | None:
    return None


def test_every_state_is_visited_once() -> None:
    found = search(0, jumps, nothing_is_wrong, limit=100)
    assert (found.states, found.transitions, found.depth) == (11, 19, 5)
    assert found.complete
    assert found.violation is None


def test_a_violation_comes_with_the_shortest_way_to_it() -> None:
    found = search(0, jumps, lambda place: "never three" if place == 3 else None, limit=100)
    assert found.violation is not None
    assert len(found.violation.trace) == 2
    assert render(found.violation).splitlines()[-1] == "  -> broken: never three"


def test_a_search_that_was_cut_off_says_so() -> None:
    found = search(0, jumps, nothing_is_wrong, limit=4)
    assert not found.complete


def test_a_first_state_that_breaks_a_promise_is_found() -> None:
    found = search(0, jumps, lambda place: "never zero" if place == 0 else None, limit=100)
    assert found.violation is not None
    assert found.violation.trace == ()


def test_a_state_without_a_way_on_is_found() -> None:
    found = search(0, jumps, nothing_is_wrong, limit=100, goal=lambda place: place == 9)
    assert found.complete
    assert found.violation is not None
    assert found.violation.promise == NO_WAY_ON
    assert found.violation.trace[-1].startswith("jump")


def test_a_ring_without_the_goal_is_no_way_on() -> None:
    def ring(place: int) -> Iterator[tuple[str, int]]:
        yield "round", (place + 1) % 4

    found = search(0, ring, nothing_is_wrong, limit=100, goal=lambda place: place == 7)
    assert found.violation is not None
    assert found.violation.promise == NO_WAY_ON
