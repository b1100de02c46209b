"""The pytest plugin: `drain_test` runs the test against a target, and returns its verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .verdict import Verdict


@pytest.fixture
def drain_test(tmp_path: Path) -> Callable[..., Verdict]:
    """`drain_test("outlast", only=("kill-",))` plays scenarios and returns the Verdict.

    `target`: outlast, a file.toml or MODULE:FUNCTION. `db`, `profile`, `faults`, `only`, `seed`,
    `lanes` and `limits` are as on the command line. The evidence is in `tmp_path/drain-test`.
    `verdict.verdict` is pass, fail or inconclusive; `str(verdict)` says why.
    """

    def run(target: str = "outlast", **options: Any) -> Verdict:
        # Only now: every pytest run loads this file, few need what is behind it.
        from .once import run_once

        return run_once(target, tmp_path / "drain-test", **options)

    return run
