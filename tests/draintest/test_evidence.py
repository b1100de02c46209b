"""The evidence folder: anybody can verify it, and a changed byte anywhere is named."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from draintest import evidence
from draintest.command_target import CommandMaker
from draintest.plan import Wanted, make
from draintest.run import Run
from tests.draintest.broken import TARGETS
from tests.draintest.conftest import broken_toml
from tests.draintest.independent import problems

BROKEN = "no fence"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evidence of a run that fails, with everything that belongs to it."""
    folder = tmp_path_factory.mktemp("run")
    maker = CommandMaker(broken_toml(folder, BROKEN), {})
    scenarios = make(Wanted(only=("calm", *TARGETS[BROKEN].seen_in)))
    place = folder / "evidence"
    records = Run(maker, place, 2, lambda *_: None, {"limited": True}).play(scenarios)
    evidence.write(place, records, evidence.environment({"broken": "1"}, ["draintest"], {}))
    return place


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoiled."""
    return shutil.copytree(written, tmp_path / "evidence")


def test_an_evidence_folder_is_verified_by_us_and_by_a_stranger(folder: Path) -> None:
    assert evidence.verify(folder) == []
    assert problems(folder) == []
    named = {path.name for path in folder.iterdir()}
    assert named == {
        "history.jsonl", "verdict.json", "report.html", "junit.xml", "env.json", "processes",
        "SHA256SUMS",
    }  # fmt: skip


def test_one_changed_byte_anywhere_is_named(folder: Path) -> None:
    changed = 0
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        text = path.read_bytes()
        for at in {0, len(text) // 3, len(text) - 2} if len(text) > 2 else ():
            path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
            found = evidence.verify(folder)
            name = str(path.relative_to(folder))
            assert found, (name, at)
            if path.name != evidence.SUMS:
                assert found == [f"{name} was changed"]
                assert f"{name} was changed" in _strangers(folder)
            changed += 1
        path.write_bytes(text)
    assert changed > 20
    assert evidence.verify(folder) == []


def test_a_file_that_is_missing_or_was_added_is_named(folder: Path) -> None:
    (folder / "extra.txt").write_text("a note")
    (folder / "junit.xml").unlink()
    assert evidence.verify(folder) == ["junit.xml is missing", "extra.txt was added"]


def test_a_verdict_that_does_not_follow_from_its_history_is_named(folder: Path) -> None:
    told = json.loads((folder / "verdict.json").read_text())
    (folder / "verdict.json").write_text(json.dumps({**told, "verdict": "pass"}))
    sums = "".join(f"{sha}  {name}\n" for name, sha in evidence.sums(folder).items())
    (folder / evidence.SUMS).write_text(sums)
    (wrong,) = evidence.verify(folder)
    assert "does not follow from history.jsonl" in wrong


def test_a_counterexample_is_lines_of_the_history(folder: Path) -> None:
    told = json.loads((folder / "verdict.json").read_text())
    lines = (folder / "history.jsonl").read_text().splitlines()
    finding = next(f for c in told["checks"] for f in c["findings"] if c["check"] == "C4")
    shown = json.loads(lines[finding["lines"][-1] - 1])
    assert (shown["what"], shown["kind"], shown["epoch"]) == ("log", "applied", 1)


def test_the_report_says_the_verdict_first_and_needs_no_network(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    body = page.partition("<body>")[2]
    order = ["fail", "Harm that landed", "C4", "<h2>Checks", "<svg"]
    places = [body.index(words) for words in order]
    assert places == sorted(places)
    assert re.findall(r'(?:src|href)="?(?!#|\')[^"\'>]+', body) == []
    assert "@import" not in page
    assert "url(" not in page


def test_junit_counts_failures_as_ci_does(folder: Path) -> None:
    suites = ElementTree.parse(folder / "junit.xml").getroot()
    checks = next(suite for suite in suites if suite.get("name") == "checks")
    assert (checks.get("tests"), checks.get("failures")) == ("15", "1")
    failed = [case.get("name", "") for case in checks if case.find("failure") is not None]
    assert [name.partition(" ")[0] for name in failed] == ["C4"]


def test_the_environment_names_no_variable_of_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.loads((folder / "env.json").read_text())
    assert {"command", "target", "kernel", "python", "cores"} <= set(told)
    assert "PATH" not in json.dumps(told)


def test_the_command_verifies_and_shows(folder: Path) -> None:
    ran = _command("verify", str(folder))
    assert (ran.returncode, "as it was written" in ran.stdout) == (0, True)
    ran = _command("show", str(folder))
    assert "C4   FAIL" in ran.stdout
    (folder / "env.json").write_text("{}")
    ran = _command("verify", str(folder))
    assert (ran.returncode, ran.stdout) == (1, "env.json was changed\n")


def _command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "draintest", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _strangers(folder: Path) -> list[str]:
    """What the independent script says; a history that it cannot read is named by its sum."""
    try:
        return problems(folder)
    except (ValueError, KeyError):
        name = next(n for n in evidence.verify(folder) if n.endswith("was changed"))
        return [name]
