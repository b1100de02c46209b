"""Peers and the table: what a system does not claim is marked so, and its findings are counted."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from draintest import peers, plan
from draintest.checks.table import TABLE
from draintest.compare import COLUMNS, Compared, table, write
from draintest.peers.environment import Environment
from draintest.peers.maker import names
from draintest.target import OFFERS, CannotSay
from draintest.verdict import CheckVerdict, Finding, Verdict
from tests.draintest.conftest import BrokenMaker, Judged

FOLDER = Path(peers.__file__).parent
NUMBERS = {entry.number for entry in TABLE}


@pytest.mark.parametrize("name", names())
def test_a_peer_is_pinned_and_says_how_it_is_configured_and_what_it_does_not_claim(
    name: str,
) -> None:
    told = tomllib.loads((FOLDER / name / "peer.toml").read_text())
    assert told["target"]["name"] == name
    assert set(told["target"]["offers"]) <= set(OFFERS)
    assert set(told["peer"].get("not_claimed", ())) <= NUMBERS
    assert "==" in told["peer"]["requirements"][0]
    assert all("@" in package[1:] for package in told["peer"].get("npm", ()))
    assert len(told["peer"]["configured"]) > 40
    ast.parse((FOLDER / name / "adapter.py.in").read_text())


def test_a_peer_that_needs_npm_says_so_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("DRAINTEST_PEERS", str(tmp_path))
    peer = Environment("peer", [], ["@restatedev/restate-server@1.7.12"])
    with pytest.raises(CannotSay, match="needs npm"):
        peer.install()
    assert not peer.home.exists()


def test_what_a_system_does_not_claim_is_no_failure_and_its_findings_are_kept(
    play: Callable[..., Judged], tmp_path: Path
) -> None:
    maker = BrokenMaker(tmp_path)
    wanted = [
        replace(each, name=f"{each.name} of no replay")
        for each in plan.make(plan.Wanted(only=("kill-charge-applied",)))
    ]
    assert play(wanted, maker).check("C5") == "fail"

    humble = BrokenMaker(tmp_path)
    humble.not_claimed = frozenset({"C5"})
    judged = play(wanted, humble)
    check = next(c for c in judged.verdict.checks if c.check == "C5")
    assert (check.verdict, bool(check.findings)) == ("unsupported", True)
    assert "not claimed" in check.promise
    assert judged.verdict.verdict == "pass"


def checks(**verdicts: str) -> tuple[CheckVerdict, ...]:
    found = Finding("C0", "fail", "calm", "a finding")
    return tuple(
        CheckVerdict(
            number,
            "a promise (not claimed)" if verdicts.get(number) == "not claimed" else "a promise",
            verdicts.get(number, "pass").replace("not claimed", "unsupported"),
            seen=0 if verdicts.get(number) == "unseen" else 3,
            findings=(found, found) if verdicts.get(number) in ("fail", "not claimed") else (),
        )
        for number in sorted(NUMBERS)
    )


def test_the_table_says_pass_fail_not_claimed_or_nothing(tmp_path: Path) -> None:
    one = Verdict("fail", checks(C6="fail", C5="not claimed", C4="unsupported", C7="unseen"), ())
    compared = [
        Compared("mine", {"mine": "1.0"}, "as its guide says", one),
        Compared("away", {}, "", None, "its server is not in any registry"),
    ]
    lines = table(compared, seed=7).splitlines()

    cells = dict(
        zip(["system", *COLUMNS], [c.strip() for c in lines[2].split("|")][1:], strict=False)
    )
    assert cells["system"] == "mine"
    assert (cells["C8"], cells["C6"]) == ("**pass**", "fail (2)")
    assert (cells["C5"], cells["C4"], cells["C7"]) == ("*not claimed (2)*", "—", "—")
    assert "not run" in lines[3]
    assert "* away: not known. its server is not in any registry" in lines
    assert "Seed 7" in "\n".join(lines)

    path = write(tmp_path, compared, 7, ["draintest", "compare"])
    assert path.read_text() == table(compared, 7)
    assert (tmp_path / "comparison.json").exists()


def test_a_system_that_cannot_be_run_does_not_end_the_comparison() -> None:
    from draintest.compare import compare

    def play_one(system: str) -> Compared:
        if system == "away":
            raise CannotSay("it could not be installed")
        return Compared(system, {}, "", Verdict("pass", checks(), ()))

    told: list[str] = []
    found = compare(["away", "mine"], play_one, told.append)
    assert [each.why for each in found] == ["it could not be installed", ""]
    assert told == ["away: it could not be installed", "mine: pass"]
