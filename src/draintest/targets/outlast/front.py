"""Servers of Outlast at one address before a store: workers reach it over HTTP alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from ...processes import born, state
from ...target import CannotSay
from ...waiting import until, until_gone
from ...workplace import Workplace

START_S = 30.0
STOP_S = 10.0


class Front:
    """`count` servers that share a port. Its harm is done to the first of them, with proof."""

    def __init__(
        self, program: str, db: str, folder: Path, count: int, workplace: Workplace
    ) -> None:
        self._command = [program, "serve", "--db", db, "--reuse-port"]
        self._folder, self._workplace = folder, workplace
        # Kept bound, and never listened to: nobody else is given the port while a server is away.
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port = int(self._kept.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._servers = [self._start(number) for number in range(count)]

    def restart(self) -> dict[str, Any]:
        return self._again(signal.SIGTERM)

    def kill(self) -> dict[str, Any]:
        return self._again(signal.SIGKILL)

    def freeze(self, seconds: float) -> dict[str, Any]:
        """It stands still for so long: its connections stay, and nothing answers on them."""
        pid = self._servers[0].pid
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state(pid) == "T", STOP_S)
        seen = {str(pid): state(pid)}
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        return {"states": seen}

    def close(self) -> None:
        for process in self._servers:
            process.kill()
            process.wait()
        self._kept.close()

    def _again(self, number: signal.Signals) -> dict[str, Any]:
        first = self._servers[0]
        before = born(first.pid)
        first.send_signal(number)
        if not until_gone(lambda: first.poll() is not None, STOP_S):
            raise CannotSay("outlast serve does not end")
        code = first.returncode
        self._servers[0] = self._start(0)
        after = born(self._servers[0].pid)
        return {"started_before": before, "started_after": after, "code": code}

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        output = self._folder / f"serve-{number}.log"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [*self._command, "--port", str(self.port)],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._workplace.answer_for_process(process.pid)
        if not until(lambda: b"serves at" in output.read_bytes(), START_S):
            process.kill()
            process.wait()
            raise CannotSay(f"outlast serve did not start: {output.read_text()[-400:]}")
        return process
