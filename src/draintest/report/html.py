"""The report: one page without a network. Verdict first, then what fails, then who owned what."""

from __future__ import annotations

from html import escape
from typing import Any

from ..checks.case import Finding
from ..history import Record, View
from ..verdict import CheckVerdict, ScenarioVerdict, Verdict
from .style import STYLE
from .timeline import timeline

MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?", "unsupported": "–"}
SENTENCES = {
    "pass": "Nothing was lost, and nothing was done twice.",
    "fail": "A promise was broken.",
    "inconclusive": "Nothing can be concluded: see what kept it from counting.",
    "unsupported": "The target shows too little to be judged.",
}
FINDINGS_MAX = 40


def page(records: list[Record], verdict: Verdict, environment: dict[str, Any]) -> str:
    """The page as text."""
    view = View(records)
    name = escape(str(environment.get("name", "target")))
    parts = [
        _head(name, verdict, view),
        _first(verdict),
        _checks(verdict.checks),
        _classes(verdict),
        _scenarios(verdict, view),
        _environment(environment),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(verdict.verdict)}: drain test of {name}</title>"
        f"<style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(name: str, verdict: Verdict, view: View) -> str:
    f = verdict.figures
    harms: dict[str, int] = {}
    for fault in view.of("fault.landed"):
        harms[fault["fault"]] = harms.get(fault["fault"], 0) + 1
    done = " · ".join(f"{count} × {fault}" for fault, count in sorted(harms.items())) or "no harm"
    figures = (
        f"{f['scenarios']} scenarios · {f['tasks']} tasks · {f['effects']} effects · "
        f"{f['resumes']} resumes · {f['repeats_suppressed']} repeats suppressed · "
        f"{f['refused']} refused by a fence · {f['faults_missed']} faults missed"
    )
    return (
        f'<header class="{verdict.verdict}"><h1>{_mark(verdict.verdict)} {escape(verdict.verdict)}'
        f"<small>drain test of {name}</small></h1><p>{SENTENCES[verdict.verdict]}</p>"
        f"<p><b>Harm that landed:</b> {escape(done)}</p><p class=quiet>{figures}</p></header>"
    )


def _first(verdict: Verdict) -> str:
    """The first counterexample, or what keeps the run from counting."""
    for kind in ("fail", "inconclusive"):
        for check in verdict.checks:
            for finding in check.findings:
                if finding.verdict == kind:
                    return f'<section class="first {kind}">{_finding(finding)}</section>'
        for scenario in verdict.scenarios:
            if scenario.verdict == kind:
                said = f"<b>{escape(scenario.scenario)}</b>: {escape(scenario.why)}"
                return f'<section class="first {kind}">{said}</section>'
    return ""


def _finding(finding: Finding) -> str:
    lines = ", ".join(map(str, finding.lines))
    return (
        f"<b>{finding.check}</b> in <a href='#{escape(finding.scenario)}'>"
        f"{escape(finding.scenario)}</a>: {escape(finding.said)}"
        f"<span class=quiet> · history.jsonl lines {lines or '-'}</span>"
    )


def _checks(checks: tuple[CheckVerdict, ...]) -> str:
    rows = "".join(
        f'<tr class="{c.verdict}"><td>{c.check}</td><td>{escape(c.promise)}</td>'
        f"<td>{_mark(c.verdict)} {c.verdict}</td><td class=number>{c.seen}</td></tr>"
        for c in checks
    )
    found = [finding for check in checks for finding in check.findings]
    listed = "".join(f"<li class={f.verdict}>{_finding(f)}</li>" for f in found[:FINDINGS_MAX])
    more = f"<p>and {len(found) - FINDINGS_MAX} more</p>" if len(found) > FINDINGS_MAX else ""
    return (
        "<section><h2>Checks</h2><table><thead><tr><th>Check</th><th>Promise</th><th>Verdict</th>"
        f"<th class=number>Seen</th></tr></thead><tbody>{rows}</tbody></table>"
        f"{'<h3>Findings</h3><ul>' + listed + '</ul>' + more if found else ''}</section>"
    )


def _classes(verdict: Verdict) -> str:
    listed = "".join(f"<li>{escape(each.said)}</li>" for each in verdict.classes)
    return f"<section><h2>What was offered to which provider</h2><ul>{listed}</ul></section>"


def _scenarios(verdict: Verdict, view: View) -> str:
    parts = dict(view.scenarios())
    order = {"fail": 0, "inconclusive": 1}
    ranked = sorted(verdict.scenarios, key=lambda s: order.get(s.verdict, 2))
    listed = "".join(_scenario(each, parts[each.scenario]) for each in ranked)
    return f"<section><h2>Scenarios</h2>{LEGEND}{listed}</section>"


LEGEND = (
    "<p class=quiet>A lane is a worker. A bar is a lease, with its epoch. ● an effect applied · "
    "○ a call that came · ◇ repeated or refused · ⚡ harm · ▸ thawed.</p>"
)


def _scenario(scenario: ScenarioVerdict, view: View) -> str:
    opened = " open" if scenario.verdict in ("fail", "inconclusive") else ""
    why = f"<p>{escape(scenario.why)}</p>" if scenario.why else ""
    return (
        f'<details id="{escape(scenario.scenario)}" class="{scenario.verdict}"{opened}><summary>'
        f"{_mark(scenario.verdict)} {escape(scenario.scenario)}"
        f"<span class=quiet> {scenario.verdict}</span></summary>{why}{timeline(view)}</details>"
    )


def _environment(environment: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td><td><code>{escape(_text(value))}</code></td></tr>"
        for name, value in environment.items()
    )
    return f"<section><h2>Environment</h2><table><tbody>{rows}</tbody></table></section>"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {each}" for name, each in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _mark(verdict: str) -> str:
    return f'<span class="mark {verdict}" aria-hidden="true">{MARKS[verdict]}</span>'
