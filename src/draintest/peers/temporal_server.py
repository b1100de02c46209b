"""A Temporal server of our own for one run: one namespace a scenario."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ..target import CannotSay
from ..waiting import until
from ..workplace import Workplace
from .daemon import Daemon, free_ports

START_S = 60.0
ASK_S = 30.0


class Temporal:
    """Its development server, of the peer's environment at `home`, with every write synced."""

    def __init__(self, workplace: Workplace, home: Path) -> None:
        self._program = str(home / "bin" / "temporal")
        folder = workplace.new_folder("temporal")
        # No settings of whoever runs us, and no question about newer versions over the network.
        self._environment = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "TEMPORAL_VERSION_CHECK_DISABLED": "1",
        }
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        command = [self._program, "server", "start-dev", "--headless", "--log-level", "warn"]
        command += ["--ip", "127.0.0.1", "--port", str(port)]
        command += ["--db-filename", str(folder / "data"), "--sqlite-pragma", "synchronous=full"]
        self._daemon = Daemon(command, folder, workplace, self._environment)
        if not until(lambda: self._ask("cluster", "health") == 0, START_S):
            raise CannotSay("the Temporal server did not start")

    def url(self, name: str) -> str:
        return f"{self._address}/{name}"

    def make(self, name: str) -> None:
        if self._ask("namespace", "create", "-n", name):
            raise CannotSay(f"the namespace {name} could not be made")

    def has(self, name: str) -> bool:
        return self._ask("namespace", "describe", "-n", name) == 0

    def drop(self, name: str) -> None:
        self._ask("namespace", "delete", "-n", name, "--yes")

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def close(self) -> None:
        self._daemon.close()

    def _ask(self, *words: str) -> int:
        """The exit code of an operator's command."""
        command = [self._program, "operator", *words, "--address", self._address]
        try:
            done = subprocess.run(
                command, capture_output=True, env=self._environment, timeout=ASK_S, check=False
            )
        except subprocess.TimeoutExpired:
            return -1
        return done.returncode
