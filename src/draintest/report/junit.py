"""The verdict as JUnit XML: a case for each check and each scenario, as CI systems read it."""

from __future__ import annotations

from xml.etree import ElementTree

from ..verdict import FAIL, INCONCLUSIVE, UNSUPPORTED, Verdict


def junit(verdict: Verdict) -> str:
    """XML text. Failures are failures, inconclusive ones errors, unsupported ones skipped."""
    suites = ElementTree.Element("testsuites", name="draintest")
    checks = ElementTree.SubElement(suites, "testsuite", name="checks")
    for check in verdict.checks:
        said = "\n".join(f"{f.scenario}: {f.said} {list(f.lines)}" for f in check.findings)
        _case(checks, f"{check.check} {check.promise}", check.verdict, said)
    scenarios = ElementTree.SubElement(suites, "testsuite", name="scenarios")
    for scenario in verdict.scenarios:
        _case(scenarios, scenario.scenario, scenario.verdict, scenario.why)
    for suite in (checks, scenarios):
        suite.set("tests", str(len(suite)))
        for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, name: str, verdict: str, said: str) -> None:
    case = ElementTree.SubElement(suite, "testcase", name=name, classname=suite.get("name", ""))
    tags = {FAIL: "failure", INCONCLUSIVE: "error", UNSUPPORTED: "skipped"}
    if verdict in tags:
        ElementTree.SubElement(case, tags[verdict], message=verdict).text = said
