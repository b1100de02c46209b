"""What passes must fail when the mechanism it vouches for is taken out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.store.mutants import IDEA, MUTANTS, VARIABLE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENOUGH = 3
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-r", "N"]


def failures(mutant: str, *arguments: str, databases: str = "sqlite and not http") -> int:
    """Run tests of this folder under a mutant in a process of their own; how many fail."""
    done = subprocess.run(
        [*PYTEST, "-k", databases, "-m", "not faults", *arguments],
        cwd=ROOT,
        env={**os.environ, VARIABLE: mutant},
        capture_output=True,
        text=True,
        timeout=600,
    )
    # Told apart from a run that never began: 0 and 1 are pytest's own "all passed", "some failed".
    assert done.returncode in (0, 1), done.stdout + done.stderr
    counted = re.findall(r"(\d+) (?:failed|error)", done.stdout.splitlines()[-1])
    return sum(map(int, counted))


def paths(files: Sequence[str]) -> list[str]:
    return [str(HERE / file) for file in files]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", IDEA)
def test_a_store_without_this_promise_is_noticed(name: str) -> None:
    failed = failures(name, f"--maxfail={ENOUGH}", *paths(MUTANTS[name].seen_in))

    assert failed >= ENOUGH, f"without {MUTANTS[name].without}: {failed} tests fail"


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_every_missing_promise_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each mutant against the files that speak of it; and those files without a mutant."""
    files = sorted({file for mutant in MUTANTS.values() for file in mutant.seen_in})
    assert failures("", *paths(files)) == 0, "without a mutant everything passes"

    seen = {name: failures(name, *paths(mutant.seen_in)) for name, mutant in MUTANTS.items()}

    with capsys.disabled():
        print("\n\ntests that fail on SQLite without")
        for name, failed in sorted(seen.items(), key=lambda item: -item[1]):
            print(f"{failed:>6}  {MUTANTS[name].without}")
    assert {name for name, failed in seen.items() if failed == 0} == set()
    assert {name for name in IDEA if seen[name] < ENOUGH} == set()
