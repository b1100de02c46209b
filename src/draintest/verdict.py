"""The verdict on each check, each scenario and the run: pass, fail, inconclusive, unsupported."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .checks.case import Case, Finding, Say, cases
from .checks.table import TABLE, Entry
from .classes import ClassOfProvider, classes
from .history import Record, View

PASS, FAIL, INCONCLUSIVE, UNSUPPORTED = "pass", "fail", "inconclusive", "unsupported"
EXIT_CODES = {PASS: 0, FAIL: 1, INCONCLUSIVE: 2, UNSUPPORTED: 0}


@dataclass(frozen=True)
class CheckVerdict:
    """What one check says of the whole run. `seen`: how often there was something to judge."""

    check: str
    promise: str
    verdict: str
    seen: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class ScenarioVerdict:
    """What all checks say of one scenario; `why`: what keeps it from counting."""

    scenario: str
    verdict: str
    why: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The verdict of a run."""

    verdict: str
    checks: tuple[CheckVerdict, ...]
    scenarios: tuple[ScenarioVerdict, ...]
    figures: dict[str, int] = field(default_factory=dict)
    classes: tuple[ClassOfProvider, ...] = ()

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def __str__(self) -> str:
        """The verdict and what speaks against it, in lines."""
        against = [f"{f.scenario}: {f.check} {f.said}" for c in self.checks for f in c.findings]
        doubts = [f"{s.scenario}: {s.why}" for s in self.scenarios if s.verdict == INCONCLUSIVE]
        return "\n".join([self.verdict, *against, *doubts])

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def judge(records: list[Record]) -> Verdict:
    """The verdict on a history. `records`: with their line numbers."""
    everything = View(records)
    told = [case for case in cases(everything) if case.began]
    doubts = {case.name: why_not_counted(case) for case in told}
    says = [(entry, case, _ask(entry, case)) for entry in TABLE for case in told]
    checks = tuple(_of_check(entry, says, doubts) for entry in TABLE)
    limited = bool((everything.first("run.began") or {}).get("limited"))
    scenarios = tuple(_of_scenario(case, checks, doubts[case.name]) for case in told)
    counted = tuple(c for c in checks if c.findings or c.seen or not limited)
    return Verdict(
        _worst(counted, scenarios), checks, scenarios, figures(everything), classes(told)
    )


def why_not_counted(case: Case) -> tuple[str, Record | None]:
    """Why nothing can be concluded from a scenario; "" if its harm landed and mattered."""
    for record in case.view.of("scenario.missed", "fault.missed", "scenario.broken"):
        return str(record["why"]), record
    landed = case.landed()
    for fault in landed:
        if not fault["in_flight"] and not fault["idle"]:
            return f"no task was in flight when {fault['worker']} was harmed", fault
    wanted = set(case.began.get("harms", ()))
    if missing := wanted - {fault["fault"] for fault in landed}:
        return f"the harm was never done: {', '.join(sorted(missing))}", None
    return _world_not_reached(case)


def figures(view: View) -> dict[str, int]:
    """What a reader wants to know of the size of a run."""
    return {
        "scenarios": len(view.of("scenario.began")),
        "faults": len(view.of("fault.landed")),
        "faults_missed": len(view.of("fault.missed")),
        "tasks": len(view.of("submitted")),
        "effects": len([r for r in view.of("world.applied") if r["provider"] != "step"]),
        "repeats_suppressed": len(view.of("world.repeated")),
        "refused": len(view.of("world.refused")),
        "resumes": len([r for r in view.of("log") if r["kind"] == "granted" and r["epoch"] > 1]),
        "settled": len(view.of("settled")),
    }


def _world_not_reached(case: Case) -> tuple[str, Record | None]:
    wants = [act for task in case.tasks for act in case.acts(task) if act["kind"] == "effect"]
    calls = [call for task in case.tasks for call in case.calls(task)]
    effects = [call for call in calls if call.came["provider"] != "step"]
    cancelled = case.view.first("cancel.asked")
    if wants and not effects and not cancelled:
        return "no effect reached the world", None
    for call in effects:
        if call.came["provider"] == "keyed" and not call.came.get("key"):
            return f"{call.act} was to be keyed, and came without a key", call.came
        if call.came["provider"] == "fenced" and not call.came.get("epoch"):
            return f"{call.act} was to be fenced, and came without an epoch", call.came
    return "", None


def _ask(entry: Entry, case: Case) -> Say | None:
    """None: the target does not let us see what this check needs."""
    if not entry.needs <= case.offers:
        return None
    say = Say(entry.number, case.name)
    entry.check(case, say)
    return say


def _of_check(
    entry: Entry,
    says: list[tuple[Entry, Case, Say | None]],
    doubts: dict[str, tuple[str, Record | None]],
) -> CheckVerdict:
    mine = [(case, say) for each, case, say in says if each is entry]
    heard = [(case, say) for case, say in mine if say is not None]
    if not heard:
        return CheckVerdict(entry.number, entry.promise, UNSUPPORTED, 0, ())
    findings = [
        _softened(finding, doubts[case.name][0]) for case, say in heard for finding in say.findings
    ]
    if entry.number in heard[0][0].not_claimed:
        unclaimed = tuple(replace(finding, verdict=UNSUPPORTED) for finding in findings)
        promise = f"{entry.promise} (not claimed)"
        return CheckVerdict(entry.number, promise, UNSUPPORTED, len(heard), unclaimed)
    seen = sum(say.seen for case, say in heard if not doubts[case.name][0])
    kinds = {finding.verdict for finding in findings}
    verdict = next((kind for kind in (FAIL, INCONCLUSIVE) if kind in kinds), PASS)
    if verdict == PASS and not seen:
        verdict = INCONCLUSIVE
    return CheckVerdict(entry.number, entry.promise, verdict, seen, tuple(findings))


def _softened(finding: Finding, why: str) -> Finding:
    """A finding in a scenario from which nothing can be concluded is no failure."""
    if not why or finding.verdict != FAIL:
        return finding
    said = f"{finding.said} (does not count: {why})"
    return Finding(finding.check, INCONCLUSIVE, finding.scenario, said, finding.lines)


def _of_scenario(
    case: Case, checks: tuple[CheckVerdict, ...], doubt: tuple[str, Record | None]
) -> ScenarioVerdict:
    why, record = doubt
    if why:
        lines = (record["n"],) if record else ()
        return ScenarioVerdict(case.name, INCONCLUSIVE, why, lines)
    against = [f for check in checks for f in check.findings if f.scenario == case.name]
    for kind in (FAIL, INCONCLUSIVE):
        for finding in against:
            if finding.verdict == kind:
                said = f"{finding.check}: {finding.said}"
                return ScenarioVerdict(case.name, kind, said, finding.lines)
    return ScenarioVerdict(case.name, PASS, "")


def _worst(checks: tuple[CheckVerdict, ...], scenarios: tuple[ScenarioVerdict, ...]) -> str:
    kinds = {check.verdict for check in checks} | {each.verdict for each in scenarios}
    if not scenarios:
        return INCONCLUSIVE
    return next((kind for kind in (FAIL, INCONCLUSIVE, PASS) if kind in kinds), INCONCLUSIVE)
