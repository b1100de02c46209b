"""Records: metrics agree with the log, an export can be verified, and nothing is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from .case import Case, Lease, Say

DRAINED = ("drain", "deadline")
# An owner that could no longer be sure of its lease, and said so: counted as lapsed.
LAPSED = ("trust",)


def metrics(case: Case, say: Say) -> None:
    """C13: metrics agree with the history."""
    told = case.view.last("metrics")
    if told is None or not case.view.of("log"):
        return
    resumes, terminal = _resumes(case), _terminal(case)
    say.saw(sum(resumes.values()) + sum(terminal.values()))
    for what, counted in (("resumes", resumes), ("terminal", terminal)):
        said: Mapping[str, int] = told.get(what, {})
        for name in sorted(counted.keys() | (said.keys() & {"expired", "drain", *terminal})):
            if said.get(name, 0) != counted.get(name, 0):
                text = f"{what} {name}: the metrics say {said.get(name, 0)}, the log"
                say.fail(f"{text} {counted.get(name, 0)}", told)


def export(case: Case, say: Say) -> None:
    """C14: the exported log verifies; with one byte changed it does not."""
    for record in case.view.of("export"):
        say.saw(record["lines"] > 1)
        if not record["verified"]:
            say.fail(f"the export does not verify: {record['said'][:200]}", record)
    for record in case.view.of("export.altered"):
        if record["verified"]:
            say.fail(f"one byte of line {record['line']} was changed, and it verifies", record)


def cleaned_up(case: Case, say: Say) -> None:
    """C15: no schema, file or process is left."""
    for record in case.view.of("cleaned"):
        say.saw()
        if record["litter"] or record["processes"]:
            left = [*record["litter"], *(f"process {pid}" for pid in record["processes"])]
            say.fail(f"left behind: {', '.join(left)}", record)


def _resumes(case: Case) -> Counter[str]:
    """How often a task was given to somebody because its owner had lapsed, or had drained."""
    counted: Counter[str] = Counter()
    for task in case.tasks:
        leases = case.leases(task)
        for before in leases[:-1]:
            if before.how == "expired" or _reason(before) in LAPSED:
                counted["expired"] += 1
            elif _reason(before) in DRAINED:
                counted["drain"] += 1
    return counted


def _reason(lease: Lease) -> str:
    return str((lease.ended or {}).get("reason")) if lease.how == "released" else ""


def _terminal(case: Case) -> Counter[str]:
    return Counter(
        event["state"] for t in case.tasks for event in case.log(t) if event["kind"] == "ended"
    )
