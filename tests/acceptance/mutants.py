"""Copies of Outlast from which one mechanism is taken out, to see who notices."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import outlast

SOURCE = Path(outlast.__file__).parent
Edit = tuple[str, str, str]  # file, text, what stands there instead


@dataclass(frozen=True)
class Mutant:
    """`without`: what is then no longer so. `fails`: the acceptance test that must turn red.

    `demo_fails`: whether the demo's story depends on it. Where it does not, `why_not` says what
    carries the story without it.
    """

    without: str
    edits: tuple[Edit, ...]
    fails: str
    demo_fails: bool = True
    why_not: str = ""

    def tree(self, folder: Path) -> Path:
        """A folder to put first on the path; raises if there is nothing to take out."""
        copy = folder / "outlast"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for name, text, instead in self.edits:
            path = copy / name
            before = path.read_text()
            assert text in before, f"{self.without}: {text!r} is not in {name}"
            path.write_text(before.replace(text, instead))
        return folder


LAPSED = "where expires_ms < (select outlast.now_ms())"
FENCE = "and last.digest = :quoted\n   and last.holder = :epoch\n"

MUTANTS: dict[str, Mutant] = {
    "expiry": Mutant(
        without="a lease is taken away whether it has run out or not",
        edits=(
            ("store/sql/leases.sql", LAPSED, "where 1 = 1"),
            ("store/sql/tasks.sql", LAPSED, "where 1 = 1"),
        ),
        fails="test_blocked.py::test_a_blocked_event_loop_keeps_its_lease_and_is_reported",
    ),
    "renewal": Mutant(
        without="nobody renews",
        edits=(("store/sql/leases.sql",
                "set expires_ms = (select outlast.now_ms()) + lease.ttl_ms,",
                "set expires_ms = lease.expires_ms,"),),
        fails="test_blocked.py::test_a_blocked_event_loop_keeps_its_lease_and_is_reported",
        demo_fails=False,
        why_not="its owners are harmed, or done, within a TTL",
    ),
    "replay": Mutant(
        without="an heir learns nothing from the log",
        edits=(("core/replay.py", "lesson = _LESSONS.get(event.kind)", "lesson = None"),),
        fails="test_kill.py::test_killed_between_two_steps_it_goes_on_at_the_next",
    ),
    "inserted": Mutant(
        without="the rows of an event are written whether its insert returned it or not",
        edits=(("store/log.py", "if all(results):", "if True:"),),
        fails="test_freeze.py::test_a_worker_frozen_past_its_ttl_writes_nothing_beside_its_heir",
    ),
    "place": Mutant(
        without="whoever writes takes the next free place, whatever it quotes",
        edits=(
            ("store/sql/events.sql", "select last.task_id, last.seq + 1, :holder",
             "select last.task_id, (select max(seq) + 1 from outlast.events where task_id = "
             ":task_id), :holder"),
            ("store/sql/events.sql", FENCE, ""),
        ),
        fails="test_freeze.py::test_a_worker_frozen_past_its_ttl_writes_nothing_beside_its_heir",
    ),
    "quote": Mutant(
        without="neither quote nor holder is asked, only the place must be free",
        edits=(("store/sql/events.sql", FENCE, ""),),
        fails="",
        demo_fails=False,
        why_not="the reaper's and the heir's events have taken the zombie's places",
    ),
    "intent": Mutant(
        without="an effect is not begun on the log before it is called",
        edits=(("worker/effects.py", "await self._begin_own()", "pass"),),
        fails="test_effects.py::"
        "test_killed_around_a_call_each_class_of_tool_is_settled_by_its_policy",
    ),
    "drain": Mutant(
        without="a drain is not heard at a step's end",
        edits=(("worker/attempt.py",
                "if stop is not None and (drain or stop.cause is not Cause.DRAIN)",
                "if stop is not None and stop.cause is not Cause.DRAIN"),),
        fails="test_drain.py::test_a_drained_task_goes_on_within_a_second_and_has_spent_nothing",
    ),
    "trust": Mutant(
        without="a worker trusts a lease for ever",
        edits=(("worker/holding.py", "if self.clock.monotonic_ms() >= self.trusted_until_ms:",
                "if False:"),),
        fails="",
        demo_fails=False,
        why_not="the fence refuses what the zombie writes, trusted or not",
    ),
}  # fmt: skip
