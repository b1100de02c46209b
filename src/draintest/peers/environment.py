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
# The newest minor version of Python 3 that is looked for.
NEWEST = 15


class Environment:
    """A folder with a Python, what pip put there and, beside it, what npm did.

    It is kept between runs, and another one for other requirements. `oldest`: which Python it
    needs at least, if ours may be too old for it.
    """

    def __init__(
        self,
        name: str,
        requirements: Sequence[str],
        npm: Sequence[str] = (),
        oldest: tuple[int, int] = (3, 11),
    ) -> None:
        self._requirements, self._npm, self._oldest = [*requirements], [*npm], oldest
        self.home = _home(name, [*requirements, *npm])
        self.python = self.home / "bin" / "python"

    def install(self) -> None:
        """Install what is not there yet. Raises CannotSay."""
        if not self.python.exists():
            _install(self.home, interpreter(self._oldest), self._requirements, self._npm)


def interpreter(oldest: tuple[int, int]) -> str:
    """A Python that is not older: ours, or one on the PATH. Raises CannotSay."""
    newer = (f"python3.{minor}" for minor in range(oldest[1], NEWEST + 1))
    for name in (sys.executable, *newer):
        # Called, not only found: a version manager's stand-in may be there and refuse to run.
        command = [name, "-c", f"import sys; sys.exit(sys.version_info < {oldest})"]
        if shutil.which(name) and not subprocess.run(command, capture_output=True).returncode:
            return name
    raise CannotSay(f"the peer needs Python {oldest[0]}.{oldest[1]} or newer, which is not here")


def _home(name: str, requirements: list[str]) -> Path:
    parent = Path(os.environ.get("DRAINTEST_PEERS", Path.home() / ".cache" / "draintest"))
    digest = hashlib.sha256(repr((sys.version, requirements)).encode()).hexdigest()[:12]
    return parent / f"{name}-{digest}"


def _install(home: Path, python: str, requirements: list[str], npm: list[str]) -> None:
    """Make it whole or not at all. Raises CannotSay."""
    commands = [
        [python, "-m", "venv", str(home)],
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
