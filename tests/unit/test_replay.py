"""What a new life knows: answers by key, by argument, and what is still open."""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

import pytest

from outlast.core import replay
from outlast.core.lifecycle import text_of
from outlast.core.model import Event
from outlast.core.replay import Memory, key_of, name_and_number


def memory_of(*said: tuple[str, dict[str, Any]]) -> Memory:
    """A memory that has learned these events, numbered from 3."""
    numbers = itertools.count(3)
    memory = Memory()
    memory.learn(Event("t", next(numbers), 1, kind, text_of(body), 5, "") for kind, body in said)
    return memory


def step(key: str, args: str = "", result: Any = None) -> tuple[str, dict[str, Any]]:
    return "step.done", {"key": key, "args": args, "result": result}


def intent(name: str, key: str = "k", args: str = "") -> tuple[str, dict[str, Any]]:
    return "effect.intended", {"key": key, "name": name, "tool": "mail", "fingerprint": args}


def answer_keys(memory: Memory, *calls: tuple[str, str]) -> list[tuple[str, bool, bool]]:
    """(key, answered, fits) of each call, in order."""
    asked = [memory.call("step", name, args) for name, args in calls]
    return [(call.key, call.record is not None, call.fits) for call in asked]


@pytest.mark.parametrize(
    ("recorded", "calls", "wanted"),
    [
        # a fresh log: every call runs under its own number
        ([], [("a", "1"), ("a", "2"), ("b", "1")],
         [("a", False, True), ("a#2", False, True), ("b", False, True)]),
        # the same code: every call is answered by its own record
        ([("a", "1"), ("a#2", "2")], [("a", "1"), ("a", "2")],
         [("a", True, True), ("a#2", True, True)]),
        # repeats in another order: each gets the record with its arguments
        ([("a", "1"), ("a#2", "2")], [("a", "2"), ("a", "1")],
         [("a#2", True, True), ("a", True, True)]),
        # a first call with other arguments is answered, and does not fit
        ([("a", "1")], [("a", "9")], [("a", True, False)]),
        # a repeat whose number is on record and that fits none does not fit
        ([("a", "1"), ("a#2", "2")], [("a", "1"), ("a", "9")],
         [("a", True, True), ("a#2", True, False)]),
        # a repeat whose number is not on record runs
        ([("a", "1")], [("a", "1"), ("a", "9")], [("a", True, True), ("a#2", False, True)]),
        # one was cut off in flight while a later one was recorded; they come in another order
        ([("a", "1"), ("a#3", "3")], [("a", "1"), ("a", "3"), ("a", "2")],
         [("a", True, True), ("a#3", True, True), ("a#2", False, True)]),
        # a name that looks like a repeat
        ([("a#2#1", "1"), ("a#2", "2")], [("a#2", "1"), ("a", "1"), ("a", "2")],
         [("a#2#1", True, True), ("a", False, True), ("a#2", True, True)]),
    ],
)  # fmt: skip
def test_calls_are_answered_by_argument_first_then_by_number(
    recorded: list[tuple[str, str]],
    calls: list[tuple[str, str]],
    wanted: list[tuple[str, bool, bool]],
) -> None:
    memory = memory_of(*(step(key, args) for key, args in recorded))
    assert answer_keys(memory, *calls) == wanted


@pytest.mark.parametrize("name", ["a", "a#2", "a#2#3", "#1", "issue #7", "a#0", "a#02", "x\n#3"])
@pytest.mark.parametrize("number", [1, 2, 17])
def test_a_key_gives_its_name_and_number_back(name: str, number: int) -> None:
    assert name_and_number(key_of(name, number)) == (name, number)


def test_a_record_of_another_kind_does_not_fit_even_a_first_call() -> None:
    memory = memory_of(step("a", "1"))
    call = memory.call("effect", "a", "1")
    assert (call.fits, call.first) == (False, False)


def test_what_was_not_asked_for_is_listed_and_what_changed_too() -> None:
    memory = memory_of(step("a", "1"), step("b", "1"), step("c", "1"))
    memory.call("step", "a", "1")
    memory.call("step", "c", "9")
    assert (memory.answered, memory.unused(), memory.changed) == (2, ["b"], ["c"])


def test_a_checkpoint_forgets_what_came_before_and_keeps_the_counts() -> None:
    memory = memory_of(
        step("think"), step("think#2"), ("checkpoint", {"state": [1], "counts": {"think": 2}})
    )
    assert bytes(memory.state or b"") == b"[1]"
    assert answer_keys(memory, ("think", "")) == [("think#3", False, True)]
    assert memory.unused() == []


@pytest.mark.parametrize(
    ("outcome", "body", "state", "open_after"),
    [
        (None, {}, "open", True),
        ("effect.applied", {"result": 1}, "applied", False),
        ("effect.failed", {"error": {"type": "X"}, "final": True}, "failed", False),
        ("effect.unknown", {}, "unknown", False),
        ("effect.settled", {"applied": True, "result": 1}, "applied", False),
        ("effect.settled", {"applied": False}, "not_applied", False),
    ],
)
def test_an_effect_is_in_the_state_of_its_last_event(
    outcome: str | None, body: dict[str, Any], state: str, open_after: bool
) -> None:
    said = [intent("mail")] + ([(outcome, {"key": "k", "name": "mail", **body})] if outcome else [])
    memory = memory_of(*said)
    record = memory.record("mail")
    assert record is not None
    assert record.state == state
    assert ("k" in memory.open_effects) is open_after


def test_an_effect_of_another_explicit_key_does_not_fit() -> None:
    memory = memory_of(intent("pay", key="invoice-1", args="7"))
    assert memory.call("effect", "pay", "7", "invoice-2").fits is False


def test_tries_are_counted_over_all_lives() -> None:
    memory = memory_of(intent("mail"), intent("mail"))
    record = memory.record("mail")
    assert record is not None
    assert record.tries == 2


def test_the_failure_that_ended_an_attempt_is_tried_anew_and_a_caught_one_is_not() -> None:
    failed = {"args": "", "error": {"type": "ValueError", "message": "m"}, "final": True}
    memory = memory_of(
        ("step.failed", {"key": "caught", **failed}),
        ("step.failed", {"key": "fatal", **failed}),
        ("attempt.failed", {"error": {}, "again": ["fatal"]}),
    )
    assert answer_keys(memory, ("caught", ""), ("fatal", "")) == [
        ("caught", True, True),
        ("fatal", False, True),
    ]


def test_an_effect_that_failed_is_only_begun_again_once_somebody_reopens_the_task() -> None:
    events = [
        intent("mail"),
        ("effect.failed", {"key": "k", "name": "mail", "error": {}, "final": True}),
        ("attempt.failed", {"error": {}, "again": ["mail"]}),
    ]
    again = memory_of(*events)
    reopened = memory_of(*events, ("task.reopened", {}))
    assert again.call("effect", "mail").record.answered  # type: ignore[union-attr]
    assert not reopened.call("effect", "mail").record.answered  # type: ignore[union-attr]


def test_an_open_wait_keeps_the_time_it_was_first_said_to_end_at() -> None:
    memory = memory_of(
        ("wait.started", {"key": "go", "name": "go", "until_ms": 900}),
        ("wait.started", {"key": "go", "name": "go", "until_ms": 100}),
    )
    record = memory.record("go")
    assert record is not None
    assert (record.state, record.until_ms, record.answered) == ("open", 900, False)


def test_whether_the_old_owner_said_that_nothing_runs_is_remembered() -> None:
    assert memory_of(("lease.expired", {})).owner_gone is True
    assert memory_of(("lease.revoked", {})).owner_gone is True
    assert memory_of(("lease.released", {"reason": "drain"})).owner_gone is False


def test_what_is_learned_costs_as_much_for_the_last_event_as_for_the_first() -> None:
    """case R63"""

    def lines_for(count: int) -> int:
        """How many lines of the replay are run to learn so many events, and to answer them."""
        run = 0

        def count_lines(frame: FrameType, event: str, _: object) -> Any:
            nonlocal run
            if frame.f_code.co_filename != replay.__file__:
                return None
            run += event == "line"
            return count_lines

        sys.settrace(count_lines)
        try:
            memory = memory_of(*(step(key_of("think", i), str(i)) for i in range(1, count + 1)))
            for i in range(count, 0, -1):  # the worst order: no call finds its own number
                assert memory.call("step", "think", str(i)).fits
            assert memory.answered == count
        finally:
            sys.settrace(None)
        return run

    # Ten times as many: ten times the lines if linear, a hundred times if each call searched all.
    assert lines_for(1_000) < 11 * lines_for(100)
