"""What is measured of whom: a plan knows its names, and every system has an adapter and a pin."""

import ast
import tomllib

import pytest

from bench.__main__ import planned
from bench.comparison import FAST, SLOW, TOGETHER, YIELDS, refused, rotated
from bench.results import MEASURES
from bench.stage import ROOT
from bench.subject import CONTENDERS, PEERS, Contender

SYSTEMS = ROOT / "bench" / "systems"
KEEPS_STEPS = Contender("Keeps", "keeps", "postgres")
ON_REDIS = Contender("Queue", "queue", "redis")


def test_quick_is_ours_and_the_limit():
    plan = planned(True, "", "")
    assert {each.module for each in plan.contenders} == {"outlast"}
    assert set(plan.measures) == set(FAST)


def test_all_is_every_system_and_every_measure():
    plan = planned(False, "", "")
    assert plan.contenders == CONTENDERS
    assert set(plan.measures) == set(YIELDS)


def test_a_part_of_it_is_asked_for_by_names():
    plan = planned(False, "Absurd/DBOS, SQLite", "many,idle")
    assert [each.name for each in plan.contenders] == ["Absurd", "DBOS, SQLite"]
    assert (plan.fast(), plan.slow()) == (["many"], [])


@pytest.mark.parametrize(("only", "measures"), [("Nobody", ""), ("", "luck")])
def test_a_name_that_nothing_has_is_refused(only, measures):
    with pytest.raises(ValueError, match="unknown"):
        planned(False, only, measures)


def test_every_measure_is_carried_out_and_every_figure_has_a_place_in_a_table():
    assert set(YIELDS) == {*FAST, *SLOW, *TOGETHER, "idle"}
    assert {each for names in YIELDS.values() for each in names} == set(MEASURES)


def test_another_system_begins_in_each_round_and_none_is_left_out():
    rounds = [rotated(CONTENDERS[:3], number) for number in range(4)]
    assert [each[0] for each in rounds] == [*CONTENDERS[:3], CONTENDERS[0]]
    assert all({*each} == {*CONTENDERS[:3]} for each in rounds)


@pytest.mark.parametrize(
    ("contender", "measure", "cannot", "says"),
    [
        (KEEPS_STEPS, "many", {}, ""),
        (KEEPS_STEPS, "batch", {"batch": "has no call for many"}, "has no call for many"),
        (KEEPS_STEPS, "replay", {"steps": "run again as a whole"}, "keeps no steps"),
        (KEEPS_STEPS, "noops", {"steps": "run again as a whole"}, ""),
        (ON_REDIS, "held", {}, "not on PostgreSQL"),
    ],
)
def test_a_missing_figure_has_its_reason(contender, measure, cannot, says):
    assert refused(contender, measure, cannot) == says


@pytest.mark.parametrize("module", sorted({each.module for each in CONTENDERS}))
def test_every_system_has_an_adapter_that_tells_its_settings(module):
    tree = ast.parse((SYSTEMS / f"{module}.py").read_text())
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    assert "settings" in named


@pytest.mark.parametrize(
    "contender", [each for each in CONTENDERS if each.module != "outlast"], ids=str
)
def test_every_peer_is_of_a_certain_version(contender):
    pinned = contender.requirements
    if not pinned:
        folder = PEERS / (contender.peer or contender.module)
        pinned = tomllib.loads((folder / "peer.toml").read_text())["peer"]["requirements"]
    assert any("==" in each for each in pinned)
