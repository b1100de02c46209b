"""The dashboard for Grafana asks for metrics that there are, and adds up no replicas."""

from __future__ import annotations

import json
import re
from pathlib import Path

from outlast.metrics import families
from outlast.store.open import open_store
from tests.metrics.test_alerts import promtool

BOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "outlast.json"


def expressions() -> list[str]:
    panels = json.loads(BOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_panel_asks_for_metrics_that_there_are(tmp_path: Path) -> None:
    store = open_store(f"sqlite:{tmp_path}/outlast.db", create=True)
    known = {family.name for family in families(store.counts())}
    store.close()
    asked = {name for e in expressions() for name in re.findall(r"\b(?:agent|outlast)_\w+", e)}
    assert len(asked) >= 8
    assert asked <= known


def test_no_panel_adds_up_what_every_replica_exports() -> None:
    assert [e for e in expressions() if not e.startswith(("max", "min"))] == []


def test_prometheus_reads_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{n}", "expr": e} for n, e in enumerate(expressions())]
    groups = {"groups": [{"name": "board", "rules": rules}]}
    (tmp_path / "board.yml").write_text(json.dumps(groups))
    ran = promtool("check", "rules", "board.yml", folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
