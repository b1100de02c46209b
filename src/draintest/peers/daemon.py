"""A service of a peer, as a process of ours: its output in a file, ended with the run."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from ..workplace import Workplace

STOP_S = 10.0


class Daemon:
    """One process, for which the workplace answers."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        workplace: Workplace,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with Path(folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                list(command),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        workplace.answer_for_process(self._process.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def free_ports(count: int) -> list[int]:
    """Held together, so that they differ."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
