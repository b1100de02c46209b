"""Where a peer's library lives: an environment of its own, made when it is first asked for."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..target import CannotSay

INSTALL_S = 600.0


class Environment:
    """A folder with a Python, what pip put there and, beside it, what npm did.

    It is kept between runs, and another one for other requirements.
    """

    def __init__(self, name: str, requirements: Sequence[str], npm: Sequence[str] = ()) -> None:
        self._requirements, self._npm = [*requirements], [*npm]
        self.home = _home(name, [*requirements, *npm])
        self.python = self.home / "bin" / "python"

    def install(self) -> None:
        """Install what is not there yet. Raises CannotSay."""
        if not self.python.exists():
            _install(self.home, self._requirements, self._npm)


def _home(name: str, requirements: list[str]) -> Path:
    parent = Path(os.environ.get("DRAINTEST_PEERS", Path.home() / ".cache" / "draintest"))
    digest = hashlib.sha256(repr((sys.version, requirements)).encode()).hexdigest()[:12]
    return parent / f"{name}-{digest}"


def _install(home: Path, requirements: list[str], npm: list[str]) -> None:
    """Make it whole or not at all. Raises CannotSay."""
    commands = [
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", "-q", *requirements],
    ]
    if npm:
        if shutil.which("npm") is None:
            raise CannotSay("the peer needs npm (Debian: npm), which is not here")
        # Without scripts: one of a dependency reports the installation to a third party.
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund"]
        commands.append(["npm", "install", "--prefix", str(home), *quiet, *npm])
    for command in commands:
        done = subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            shutil.rmtree(home, ignore_errors=True)
            wanted = [*requirements, *npm]
            raise CannotSay(f"{wanted}: {done.stderr.decode(errors='replace')[-400:]}")
