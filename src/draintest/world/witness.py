"""The witness: the harness's side of the world. What was seen, and orders to hold or to strike."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from ..history import Record, read
from ..waiting import until

START_S = 30.0
ORDER_S = 30.0


class Witness:
    """Starts the world's process, and reads its record as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._read_to = 0
        self._seen: dict[str, list[Record]] = {}
        command = [sys.executable, "-m", "draintest.world.server", str(path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        if not self.url:
            raise RuntimeError("the world did not start")

    @property
    def pid(self) -> int:
        return self._process.pid

    def records(self, scenario: str, what: str = "", **wanted: Any) -> list[Record]:
        """What was written down of a scenario so far, oldest first."""
        with self._lock:
            self._catch_up()
            return [
                record
                for record in self._seen.get(scenario, ())
                if what in ("", record["what"]) and wanted.items() <= record.items()
            ]

    def hold(self, scenario: str, act: str, point: str, times: int = 1) -> None:
        """Hold the next calls of that act: `before` they are applied, or when `applied`."""
        self._order("/hold", scenario, act, point=point, times=times, signal=0, group=0)

    def strike(self, scenario: str, act: str, signal: int, group: int) -> None:
        """Send a signal to a process group in the moment after that act was answered."""
        self._order("/hold", scenario, act, point="answered", times=1, signal=signal, group=group)

    def let_go(self, scenario: str, act: str, pid: int = 0) -> None:
        """Let all held calls of that act go on, and hold no more; or those of one process."""
        self._order("/let-go", scenario, act, pid=pid)

    def until(
        self, scenario: str, what: str, timeout_s: float, count: int = 1, **wanted: Any
    ) -> Record | None:
        """The record, once there are so many of them; None if they do not come in time."""

        def there() -> Record | None:
            found = self.records(scenario, what, **wanted)
            return found[count - 1] if len(found) >= count else None

        return until(there, timeout_s)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def whole(self) -> list[Record]:
        """The record from the disk, as it stands there."""
        return read(self.path)

    def _catch_up(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            text = file.read().rpartition(b"\n")[0]
        if text:
            self._read_to += len(text) + 1
            for line in text.split(b"\n"):
                record = json.loads(line)
                self._seen.setdefault(record["scenario"], []).append(record)

    def _order(self, path: str, scenario: str, act: str, **asked: Any) -> None:
        body = json.dumps({"scenario": scenario, "act": act, **asked}).encode()
        with urllib.request.urlopen(
            urllib.request.Request(self.url + path, body), timeout=ORDER_S
        ) as answer:
            answer.read()
