"""Tasks: none lost, ended once, and one that kills its workers given up."""

from __future__ import annotations

from ..history import Record
from ..target import FINAL
from .case import Case, Say

# One grant beyond the budget: the count is taken when a lease ends.
OVER_BUDGET = 2


def not_lost(case: Case, say: Say) -> None:
    """C8: every acknowledged submit ends, waits, is in review, or can be claimed."""
    # Where nobody has worked it may still be claimed; that it was to be cancelled is C10's affair.
    missed = case.view.last("progress.missed") if case.view.of("worker.ready") else None
    shown = case.view.of("task")
    for task in case.tasks if shown else []:
        say.saw()
        submitted, seen = case.view.first("submitted", task=task), case.last_seen(task)
        if seen is None:
            say.fail(f"task {task} was acknowledged, and is not there any more", submitted)
        elif missed and seen["state"] not in (*FINAL, "review"):
            said = f"task {task} is {seen['state']} and never came to an end"
            healed = case.view.last("healed") or missed
            from_ms, to_ms = healed["t_ms"], missed["t_ms"]
            overrun_ms = to_ms - from_ms - 2 * case.limits.unsure_takeover_ms
            case.late(say, said, from_ms, to_ms, overrun_ms, submitted, missed, seen)


def final(case: Case, say: Say) -> None:
    """C9: final is final; one final event a task."""
    for task in case.tasks:
        ends: list[Record] = []
        for event in case.log(task):
            if event["kind"] == "reopened":
                ends = []
            if event["kind"] == "ended":
                ends.append(event)
                say.saw()
        if len(ends) > 1:
            states = ", ".join(str(event.get("state")) for event in ends)
            say.fail(f"task {task} ended {len(ends)} times: {states}", *ends)


def given_up(case: Case, say: Say) -> None:
    """C12: a task that kills its workers is given up after its budget, and others live."""
    poisoned = case.view.first("poisoned")
    if poisoned is None:
        return
    budget = case.began["limits"]["resumes"]
    for task in case.tasks:
        seen = case.last_seen(task)
        if task == poisoned["neighbour"]:
            if seen and seen["state"] != "succeeded":
                say.fail(f"its neighbour is {seen['state']}, not succeeded", poisoned, seen)
            continue
        grants = case.view.of("log", task=task, kind="granted")
        if len(grants) < 2:
            say.unsure("the task did not kill its worker", poisoned)
            continue
        say.saw()
        if len(grants) > budget + OVER_BUDGET:
            said = f"it was given to a worker {len(grants)} times; its budget is {budget} resumes"
            say.fail(said, grants[0], grants[-1])
        elif seen and seen["state"] not in FINAL:
            # Within its budget still: there was no time to see more.
            said = f"it is {seen['state']} after {len(grants)} grants, and was not given up yet"
            say.unsure(said, grants[-1], seen)
