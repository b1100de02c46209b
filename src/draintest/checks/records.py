"""Records: metrics agree with the log, an export can be verified, and nothing is left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..faults import KILL
from ..history import Record
from .case import CLOCKS_DIFFER_MS, Case, Lease, Say

DRAINED = ("drain", "deadline")
# An owner that could no longer be sure of its lease, and said so: counted as lapsed.
LAPSED = ("trust",)
REPEATED = 3


def metrics(case: Case, say: Say) -> None:
    """C13: metrics agree with the history, and an alert on them wakes somebody when it should."""
    for silence in case.view.of("silence"):
        _silence(case, silence, say)
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

    _repeated(case, told, resumes, say)


def _silence(case: Case, silence: Record, say: Say) -> None:
    """A dead owner is silent since its death at least; a living one for less than its lease."""
    say.saw()
    said_ms = silence["said_s"] * 1_000
    deaths = case.view.of("fault.landed", fault=KILL)
    if deaths:
        since_ms = silence["asked_ms"] - deaths[-1]["t_ms"]
        if said_ms < since_ms - CLOCKS_DIFFER_MS / 10:
            text = f"dead for {since_ms:.0f} ms, and the metrics say that it was heard"
            say.fail(f"{text} {said_ms:.0f} ms ago", silence, deaths[-1])
    elif said_ms > case.limits.ttl_ms and not _resumes(case)["expired"]:
        text = f"all owners are well, and the metrics say that one is silent for {said_ms:.0f} ms"
        say.fail(text, silence)


def _repeated(case: Case, told: Record, resumes: Counter[str], say: Say) -> None:
    """A task that kills one worker after the other is told from many that lost one."""
    if "repeated" not in told:
        return
    if case.view.first("poisoned") and resumes["expired"] >= REPEATED and not told["repeated"]:
        text = f"resumed {resumes['expired']} times, and no resume counts as a third in a row"
        say.fail(text, told)
    if told["repeated"] and sum(resumes.values()) < REPEATED:
        say.fail(f"{told['repeated']} resumes count as a third in a row, which none was", told)


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
