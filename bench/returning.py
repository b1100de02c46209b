"""A task with a long log comes back: how long until it does something new."""

from __future__ import annotations

from .rates import Figures
from .subject import Failed, Subject, wait_for

LEASE_S = 2.0
RECORD_S = 90.0
RETURN_S = 60.0


def replay(subject: Subject, steps: int = 10_000) -> Figures:
    """From the second claim to the first line after the last recorded step.

    The claim is a mark of the adapter's, or what the system keeps of it; where there is neither,
    the function's first line stands for it.
    """
    subject.fill(1, steps=steps, die=str(subject.folder / "died"))
    with subject.worker(1, LEASE_S):
        if not wait_for(subject, "reached", 1, RECORD_S):
            return {"replay": f"did not record {steps:,} steps in {RECORD_S:.0f} s"}
    with subject.worker(1, LEASE_S):
        if not wait_for(subject, "reached", 2, RETURN_S):
            return {"replay": f"not within {RETURN_S:.0f} s"}
        last = subject.marks.of("reached")[-1]
        claimed_ns = subject.ask("claimed_ns")
    later = [mark for mark in subject.marks.all() if mark.pid == last.pid]
    if again := [mark for mark in later if mark.word == "step"]:
        raise Failed(f"steps were run again: {len(again)} marks of them")
    if claimed_ns:
        return {"replay": (last.wall_ns - claimed_ns) / 1e9}
    known = {mark.word: mark.at_ns for mark in later}
    began = known.get("claimed", known["began"])
    return {"replay": (last.at_ns - began) / 1e9}
