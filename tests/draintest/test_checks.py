"""The finer points of the checks, on histories that are written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from draintest import program
from draintest.history import Record, merged
from draintest.target import OFFERS
from draintest.verdict import Verdict, judge

OLD, HEIR = 101, 102
LIMITS = {"ttl_ms": 1_000, "reap_ms": 100, "poll_ms": 100, "grace_ms": 2_000, "cancel_ms": 300}


class Story:
    """Records of one scenario with one task; times in milliseconds."""

    def __init__(self, acts: list[program.Act]) -> None:
        self.records: list[Record] = []
        self.calls = self.seq = 0
        self.known: set[str] = set()
        self.tell(0, "run.began", limited=True)
        self.tell(0, "scenario.began", harms=[], limits=LIMITS, offers=sorted(OFFERS))
        self.tell(1, "submitted", task="t", acts=acts)

    def tell(self, t_ms: float, what: str, **fields: Any) -> None:
        record = {"t_ms": t_ms, "wall_ms": t_ms, "what": what, **fields}
        self.records.append(record if what in ("run.began", "strain") else {**record, **SCENARIO})

    def call(self, t_ms: float, act: str, pid: int, after: list[str]) -> None:
        self.calls += 1
        said = {"task": "t", "act": act, "pid": pid, "after": after, "call": self.calls}
        said |= {"key": f"t/{act}", "epoch": 1, "provider": "keyed", "arguments": 7}
        self.tell(t_ms, "world.came", **said)
        word = "repeated" if act in self.known else "applied"
        self.known.add(act)
        self.tell(t_ms + 1, f"world.{word}", **said, receipt=f"r{act}")
        self.tell(t_ms + 2, "world.answered", **said)

    def log(self, at_ms: float, kind: str, epoch: int, **fields: Any) -> None:
        self.seq += 1
        line = {"task": "t", "seq": self.seq, "kind": kind, "epoch": epoch, "at_ms": at_ms}
        self.tell(9_000 + self.seq, "log", **line, **fields)

    def verdict(self) -> Verdict:
        self.tell(9_900, "task", id="t", state="succeeded", epoch=2, effects=[])
        return judge(merged(self.records))

    def failed(self) -> set[str]:
        return {c.check for c in self.verdict().checks if c.verdict == "fail"}


SCENARIO = {"scenario": "by hand"}


def taken_over() -> Story:
    """Frozen after `one`; the heir does the rest."""
    story = Story([program.effect(name, "keyed") for name in ("one", "two", "three")])
    story.log(10, "granted", 1, pid=OLD, ttl_ms=1_000)
    story.call(20, "one", OLD, [])
    story.tell(100, "fault.landed", fault="stop", pid=OLD, worker="w1", in_flight=["t"], idle=False)
    story.log(1_200, "expired", 0, expires_ms=1_100)
    story.log(1_210, "granted", 2, pid=HEIR, ttl_ms=1_000)
    story.call(1_300, "two", HEIR, ["rone"])
    story.call(1_310, "three", HEIR, ["rone", "rtwo"])
    story.log(1_400, "ended", 2, state="succeeded")
    return story


def test_a_call_that_a_frozen_owner_was_about_to_make_is_no_act_of_an_heir() -> None:
    story = taken_over()
    story.call(2_000, "two", OLD, ["rone"])
    assert story.failed() == set()


def test_an_old_owner_that_goes_on_acting_is_not_fenced_out() -> None:
    story = taken_over()
    story.call(2_000, "two", OLD, ["rone"])
    story.call(2_010, "three", OLD, ["rone", "rtwo"])
    assert "C4" in story.failed()


def test_an_heir_that_does_a_known_act_again_has_not_read_the_log() -> None:
    story = taken_over()
    story.call(1_320, "one", HEIR, [])
    assert story.failed() == {"C5"}


@pytest.mark.parametrize(
    ("stall_ms", "verdict"), [(0, "fail"), (40, "fail"), (400, "inconclusive")]
)
def test_a_bound_that_is_missed_fails_unless_the_machine_was_as_slow(
    stall_ms: int, verdict: str
) -> None:
    """The lease of an owner that nobody has harmed runs out."""
    story = Story([])
    story.log(10, "granted", 1, pid=OLD, ttl_ms=1_000)
    story.log(1_200, "expired", 0, expires_ms=1_100)
    story.log(1_210, "granted", 2, pid=HEIR, ttl_ms=1_000)
    story.log(1_400, "ended", 2, state="succeeded")
    if stall_ms:
        story.tell(600, "strain", since_ms=200, late_ms=0, stall_ms=stall_ms)
    checks = {c.check: c.verdict for c in story.verdict().checks}
    assert checks["C2"] == verdict
