"""What processes have used, from /proc: a process, all below it, and all that they have buried."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds of CPU, user and system, of these processes and their descendants."""
    return sum(_used_s(each) for pid in pids for each in tree(pid))


def tree(pid: int) -> list[int]:
    """It, and all below it that live."""
    children: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (thread / "children").read_text().split())
    except OSError:
        return []
    return [pid, *(below for child in children for below in tree(child))]


def _used_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime, stime, and those of children that were waited for
    return sum(map(int, fields[11:15])) / TICKS
