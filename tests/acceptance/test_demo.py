"""The demo passes; and where a mechanism that its story depends on is missing, it says FAIL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.mutants import MUTANTS
from tests.acceptance.scene import PATIENCE_S, ROOT
from tests.support.processes import OUTLAST, Processes, Running


def test_the_demo_passes_and_leaves_its_evidence(processes: Processes, tmp_path: Path) -> None:
    demo = run_demo(processes, tmp_path)
    assert demo.code == 0, demo.output
    assert "PASS   e-mails sent: a 1, b 1, c 1, d 1, e 1 · 3 resumes" in demo.output
    assert "REFUSED" in demo.output
    assert (tmp_path / "demo" / "report.html").exists()
    verified = processes.outlast("verify", tmp_path / "demo" / "log.jsonl")
    assert verified.wait(PATIENCE_S) == 0, verified.output


@pytest.mark.faults
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_the_demo_fails_without_what_its_story_depends_on(
    processes: Processes, tmp_path: Path, name: str
) -> None:
    mutant = MUTANTS[name]
    demo = run_demo(processes, tmp_path, PYTHONPATH=str(mutant.tree(tmp_path / "tree")))
    last = demo.output.strip().splitlines()[-1]
    print(f"{name}: {mutant.without}\n    {last}")
    if mutant.demo_fails:
        assert demo.code == 1, demo.output
        assert last.startswith("FAIL"), demo.output
    else:
        assert demo.code == 0, f"it does depend on it ({mutant.why_not}): {demo.output}"


@pytest.mark.faults
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", sorted(name for name, mutant in MUTANTS.items() if mutant.fails))
def test_these_tests_fail_without_what_they_vouch_for(
    processes: Processes, tmp_path: Path, name: str
) -> None:
    mutant = MUTANTS[name]
    tree = mutant.tree(tmp_path / "tree")
    ran = processes.python(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "sqlite", "--timeout=150"),
        f"tests/acceptance/{mutant.fails}",
        name="pytest",
        folder=ROOT,
        environment={"PYTHONPATH": str(tree), "OUTLAST_TEST_PATIENCE_S": "25"},
    )
    assert ran.wait(350) == 1, f"nobody missed it: {mutant.without}\n{ran.output[-3000:]}"
    assert " failed" in ran.output or " error" in ran.output


def run_demo(processes: Processes, folder: Path, **environment: str) -> Running:
    demo = processes.start(
        *(OUTLAST, "demo", "--folder", folder / "demo"), name="demo", environment=environment
    )
    demo.wait(PATIENCE_S * 2)
    return demo
