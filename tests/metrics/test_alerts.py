"""The alert rules, judged by Prometheus' own tool: what they fire on, what they are silent on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from outlast.metrics import Collector
from outlast.store.verbs import Store
from tests.support.programs import require

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
METRIC = re.compile(r"\b(?:agent|outlast)_[a-z_]+\b")


def promtool(*words: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    tool = require("promtool", "prometheus")
    return subprocess.run(
        [tool, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_rules_fire_and_stay_silent_as_their_tests_say() -> None:
    ran = promtool("test", "rules", "alerts_test.yml", "alerts_long_task_test.yml")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", (FOLDER / "alerts.yml").read_text())


@pytest.mark.parametrize("alert", alerts())
def test_each_alert_is_seen_to_fire(alert: str, tmp_path: Path) -> None:
    """Its condition is made impossible: then the tests of the rules must fail."""
    rules = (FOLDER / "alerts.yml").read_text()
    before, found, after = rules.partition(f"- alert: {alert}\n")
    assert found
    deaf = re.sub(r"expr: (\|\n(?: {10,}.*\n)+|.*\n)", "expr: vector(1) > 2\n", after, count=1)
    assert deaf != after
    (tmp_path / "alerts.yml").write_text(before + found + deaf)
    (tmp_path / "alerts_test.yml").write_text((FOLDER / "alerts_test.yml").read_text())
    ran = promtool("test", "rules", "alerts_test.yml", folder=tmp_path)
    assert ran.returncode != 0
    assert alert in ran.stdout + ran.stderr


def test_every_metric_that_an_alert_asks_for_is_exported(store: Store) -> None:
    exported = set(METRIC.findall(Collector(store.counts, version="1").text()))
    asked = set(METRIC.findall((FOLDER / "alerts.yml").read_text()))
    assert asked
    assert asked <= exported


def test_no_alert_looks_at_how_long_a_task_takes() -> None:
    rules = (FOLDER / "alerts.yml").read_text()
    assert "progress" not in rules
    assert "started" not in rules
