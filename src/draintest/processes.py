"""Processes of the target: each in a session of its own, its output in a file, its end known."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .waiting import until, until_gone

END_S = 5.0


@dataclass(frozen=True)
class Launch:
    """How a process is started: words, and what is added to our own environment."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


class Process:
    """One process of the target; its group is its own, so that harm reaches all below it."""

    def __init__(self, name: str, launch: Launch, output: Path) -> None:
        self.name = name
        self.output_path = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                list(launch.command),
                cwd=launch.folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **launch.environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.born = born(self.pid)

    @property
    def output(self) -> str:
        return self.output_path.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code, -9 after a kill; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """The exit code; None if it has not ended in time."""
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def send(self, number: int) -> None:
        """Send a signal to the whole group. Raises ProcessLookupError if it is gone."""
        os.killpg(self.pid, number)

    def state(self) -> str:
        return state(self.pid)

    def end(self) -> None:
        """Kill it and its group, stopped or not."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except OSError:
            pass
        self.wait(END_S)
        until_gone(lambda: not group(self.pid), END_S)  # what it had forked dies a moment later


def state(pid: int) -> str:
    """The letter of /proc/PID/status: R, S, D, T (stopped), Z; `-` once it is gone."""
    return status(pid).get("State", "-")[:1]


def status(pid: int) -> dict[str, str]:
    """/proc/PID/status by its names; empty once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def born(pid: int) -> int:
    """When a process began, in ticks since boot; 0: none. A pid is used again, with this not."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if after_name[0] in "ZX" else int(after_name[19])


def until_state(pids: Sequence[int], letters: str, timeout_s: float) -> bool:
    """Wait until each of these is in one of the states."""
    return bool(until(lambda: all(state(pid) in letters for pid in pids), timeout_s))


def group(pid: int) -> list[int]:
    """Every living process of the session that `pid` leads."""
    found = []
    for folder in Path("/proc").iterdir():
        if (
            folder.name.isdigit()
            and _session(folder) == pid
            and state(int(folder.name)) not in "ZX-"
        ):
            found.append(int(folder.name))
    return found


def lock_holders(path: Path) -> set[int]:
    """Who holds a lock for writing on a file at this moment, by /proc/locks."""
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return set()
    return {int(words[4]) for words in map(str.split, lines) if _locks(words, inode)}


def _locks(words: list[str], inode: int) -> bool:
    return (
        "->" not in words
        and "WRITE" in words
        and len(words) > 5
        and words[5].rpartition(":")[2] == str(inode)
    )


def _session(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError):
        return 0
