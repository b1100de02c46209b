"""Ending what a test run started and clearing what it left, whoever survives to do it.

Run as a program it is the keeper: it sits behind a pipe and outlives the test process. When
that process is gone, kill -9 included, the keeper ends its children and removes its folders.
Standard library only, and Linux: it reads /proc.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

GRACE_S = 3.0
POLL_S = 0.02
IPC_RMID = 0


def born(pid: int) -> int:
    """When process `pid` began, in clock ticks since boot; 0 if there is none, or a dead one.

    A pid is used again, a pid with its birth is not.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    after_name = stat.rpartition(")")[2].split()
    return 0 if after_name[0] in "ZX" else int(after_name[19])


def descendants(pid: int) -> list[int]:
    """All processes below `pid`, children before grandchildren."""
    below: list[int] = []
    for thread in _listed(Path(f"/proc/{pid}/task")):
        try:
            children = (thread / "children").read_text().split()
        except OSError:
            continue
        below.extend(int(child) for child in children)
    return below + [deeper for child in list(below) for deeper in descendants(child)]


def end(pid: int, birth: int, polite: int | None = None) -> None:
    """End process `pid`, if it still is the one born then, and everything below it.

    `polite` is a signal to try first; a process that is stopped is woken to hear it.
    """
    if not birth or born(pid) != birth:
        return
    tree = {each: born(each) for each in [pid, *descendants(pid)]}
    if polite is not None:
        _send(pid, birth, polite)
        for each, its_birth in tree.items():
            _send(each, its_birth, signal.SIGCONT)
        _wait_for_end_of(tree)
    # What was started meanwhile is below one of these.
    for each in {**tree, **{late: born(late) for root in tree for late in descendants(root)}}:
        if its_birth := tree.get(each, born(each)):
            _send(each, its_birth, signal.SIGKILL)
    _wait_for_end_of(tree)


def remove_folder(folder: Path) -> None:
    """Remove `folder`, and the shared memory of PostgreSQL servers that were killed in it."""
    for lock_file in folder.glob("**/postmaster.pid"):
        remove_shared_memory(lock_file)
    deadline = time.monotonic() + GRACE_S
    while folder.exists():
        # A process that is just ending may still put a file in.
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > deadline:
            break
        if folder.exists():
            time.sleep(POLL_S)


def remove_shared_memory(lock_file: Path) -> None:
    """Give back the System V segment that a postmaster killed by signal 9 could not."""
    try:
        segment = int(lock_file.read_text().splitlines()[6].split()[1])
    except (OSError, IndexError, ValueError):
        return
    ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)


def sweep(parent: Path, pattern: str) -> None:
    """Clear the folders of runs whose process and keeper are both gone."""
    for folder in parent.glob(pattern):
        try:
            owner, birth = map(int, (folder / "owner").read_text().split())
        except (OSError, ValueError):
            continue
        if born(owner) != birth:
            end_all(_adopted(folder))
            remove_folder(folder)


def end_all(processes: Iterable[dict[str, int]]) -> None:
    """End every adopted process, the youngest first: what stands before a server, then it."""
    for process in reversed(list(processes)):
        end(process["pid"], process["born"], process.get("polite"))


def keep(folder: Path) -> None:
    """Be the keeper of `folder`: wait for the test process to go, then end and clear."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    parent = os.getppid()
    # The pipe tells at once; the parent's pid tells even if a fork holds the pipe open.
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        if readable and not os.read(sys.stdin.fileno(), 1024):
            break
    end_all(_adopted(folder))
    remove_folder(folder)


def _adopted(folder: Path) -> list[dict[str, int]]:
    try:
        lines = (folder / "processes").read_text().splitlines()
    except OSError:
        return []
    return [json.loads(line) for line in lines]


def _send(pid: int, birth: int, number: int) -> None:
    if birth and born(pid) == birth:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _wait_for_end_of(processes: dict[int, int]) -> None:
    deadline = time.monotonic() + GRACE_S
    while any(birth and born(pid) == birth for pid, birth in processes.items()):
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_S)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
