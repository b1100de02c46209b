"""The processes below this one: those whose parents died are adopted, so that they can be ended."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Collection

PR_SET_CHILD_SUBREAPER = 36
ENDS_S = 1.0
LOOK_S = 0.005


def adopt_orphans() -> bool:
    """From now on, whatever below us loses its parent becomes our child; False: not on this system.

    Also what has left its group and session (`setsid`, a daemon): nobody escapes by that.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def children() -> set[int]:
    """The pids of our children, dead ones that nobody has waited for included; Linux only."""
    mine = os.getpid()
    try:
        # We are one thread. Not every kernel has this file, and then all processes are looked at.
        with open(f"/proc/{mine}/task/{mine}/children") as file:
            return set(map(int, file.read().split()))
    except OSError:
        names = os.listdir("/proc") if os.path.isdir("/proc/self") else []
        return {int(name) for name in names if name.isdigit() and _parent(name) == mine}


def end_children(spared: Collection[int]) -> None:
    """Kill our children but these, then what becomes ours by that, until there is none.

    One that sleeps in the kernel, where no signal reaches it, is not waited for longer than a
    second.
    """
    give_up = time.monotonic() + ENDS_S
    while (left := children() - set(spared)) and time.monotonic() < give_up:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            _wait_for(pid, give_up)


def end_group(leader: int) -> None:
    """Kill what is left of a process group: where orphans cannot be adopted."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def reaped() -> list[tuple[int, int]]:
    """(pid, status) of each child that has ended, adopted ones included; waits for none."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def oom_kills() -> int:
    """How many processes of our control group the kernel has killed for want of memory.

    -1 where it does not say: only version 2 of control groups counts them for each.
    """
    try:
        with open("/proc/self/cgroup") as file:
            path = next(line[3:].strip() for line in file if line.startswith("0::"))
        with open(f"/sys/fs/cgroup{path.rstrip('/')}/memory.events") as file:
            return oom_kills_in(file.read())
    except (OSError, StopIteration):
        return -1


def oom_kills_in(events: str) -> int:
    """From the text of `memory.events`."""
    words = dict(line.split(maxsplit=1) for line in events.splitlines() if " " in line)
    return int(words.get("oom_kill", -1))


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may hold anything, parentheses too.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _wait_for(pid: int, until: float) -> None:
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < until:
            time.sleep(LOOK_S)
