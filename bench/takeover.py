"""A worker goes, by SIGKILL or by SIGTERM, and another stands by: how soon the task goes on."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable

from .marks import Mark
from .processes import tree
from .rates import Figures
from .subject import Failed, Subject, kill, wait_for

STEPS, STEP_MS = 20, 500
# In which step the signal comes.
IN_STEP = 8
START_S = 30.0
WAIT_S = 60.0
LOOK_S = 0.01
AGAIN = "from the first step, after {seconds:.2g} s"
FINISHES = "its worker ends all {steps} steps first"
Worker = subprocess.Popen[bytes]


def killed(subject: Subject) -> Figures:
    """Seconds from SIGKILL to the heir's next step; words where it begins anew or not at all."""
    return {"resumed after SIGKILL": _gone(subject, kill, WAIT_S)}


def drained(subject: Subject) -> Figures:
    """The same for SIGTERM: as a deployment sends it, to the worker and none below it."""
    return {
        "resumed after SIGTERM": _gone(subject, lambda w: w.send_signal(signal.SIGTERM), WAIT_S / 2)
    }


def _gone(subject: Subject, end: Callable[[Worker], None], limit_s: float) -> float | str:
    with subject.worker(1) as one, subject.worker(1) as other:
        subject.fill(1, steps=STEPS, ms=STEP_MS)
        if not wait_for(subject, "step", IN_STEP, START_S):
            raise Failed(f"the task did not come to step {IN_STEP} in {START_S:.0f} s")
        time.sleep(STEP_MS / 2 / 1000)
        old = _holder(subject, [one, other])
        members = set(tree(old.pid))
        at_ns = time.monotonic_ns()
        end(old)
        first = _first_of_another(subject, members, at_ns, limit_s)
        return judged(subject.marks.all(), members, at_ns, first, limit_s)


def judged(
    marks: list[Mark], members: set[int], at_ns: int, first: Mark | None, limit_s: float
) -> float | str:
    """What the marks say: of the old worker's processes, and the first step of another."""
    if any(mark.word == "reached" and mark.pid in members for mark in marks):
        return FINISHES.format(steps=STEPS)
    if first is None:
        return f"not within {limit_s:.0f} s"
    seconds = (first.at_ns - at_ns) / 1e9
    return AGAIN.format(seconds=seconds) if first.number == 0 else seconds


def _holder(subject: Subject, workers: list[Worker]) -> Worker:
    """Whose task it is now."""
    pid = subject.marks.of("step")[-1].pid
    for worker in workers:
        if pid in tree(worker.pid):
            return worker
    raise Failed(f"process {pid}, which does the steps, belongs to no worker")


def _first_of_another(
    subject: Subject, members: set[int], at_ns: int, limit_s: float
) -> Mark | None:
    """Its first step, waited for; None as well if the old worker has come to the end."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and not subject.marks.of("reached"):
        for mark in subject.marks.of("step"):
            if mark.at_ns > at_ns and mark.pid not in members:
                return mark
        time.sleep(LOOK_S)
    return None
