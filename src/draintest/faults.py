"""Faults of processes: what is done to a worker, and the proof that it landed."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from typing import Any

from .history import now_ms
from .processes import Process, born, group, lock_holders, state, status, until_state

KILL, TERM, STOP, CHILD = "kill", "term", "stop", "child"
SIGNALS = {KILL: signal.SIGKILL, TERM: signal.SIGTERM, STOP: signal.SIGSTOP}
LANDS_S = 10.0
STOPS_MAX = 200
Proof = dict[str, Any]


class Missed(Exception):
    """The harm did not land: nothing can be concluded from what follows."""


def strike(fault: str, process: Process, files: list[Path]) -> Proof:
    """Do it to a worker and everything below it; the proof that it landed. Raises Missed."""
    if not alive(process):
        raise Missed(f"the worker was already dead (exit code {process.code})")
    return _send(fault, process, files)


def kill_child(pid: int, worker: Process) -> Proof:
    """Kill a process below a worker, which lives on; the proof that it landed. Raises Missed."""
    if pid == worker.pid or pid not in group(worker.pid):
        raise Missed(f"process {pid} is no child of worker {worker.name}")
    os.kill(pid, signal.SIGKILL)
    if not until_state([pid], "Z-", LANDS_S):
        raise Missed(f"process {pid} is still there ({state(pid)})")
    if not alive(worker):
        raise Missed("the worker died with it")
    return {"state": state(pid), "worker_state": worker.state()}


def prove(fault: str, process: Process, files: list[Path]) -> Proof:
    """The proof for a signal that the world has sent. Raises Missed."""
    if fault == KILL:
        return _killed(process)
    if fault == STOP:
        return _stopped(process, files)
    return _told(process)


def thaw(process: Process) -> None:
    """Let a stopped worker, and all below it, go on."""
    process.send(signal.SIGCONT)


def alive(process: Process) -> bool:
    return process.code is None and born(process.pid) == process.born and process.state() != "Z"


def _send(fault: str, process: Process, files: list[Path]) -> Proof:
    try:
        if fault == TERM:
            # To the worker alone, as a supervisor does: what it started is its own to end.
            os.kill(process.pid, signal.SIGTERM)
        else:
            process.send(SIGNALS[fault])
    except ProcessLookupError as error:
        raise Missed("the worker died before the signal came") from error
    # Now, not when it is proven: a busy machine makes the proof late, not the harm.
    struck_ms = now_ms()
    return {"struck_ms": struck_ms, **prove(fault, process, files)}


def _killed(process: Process) -> Proof:
    code = process.wait(LANDS_S)
    if code != -signal.SIGKILL:
        raise Missed(f"the exit code is {code}, not -9")
    return {"exit_code": code}


def _stopped(process: Process, files: list[Path]) -> Proof:
    """All of the group stand still, and none of them in the middle of a write to these files.

    A file lock of a process that stands still would hold up everybody: the embedded database's
    limit, not what is judged here. It is then let go a moment and stopped again.
    """
    for stops in range(1, STOPS_MAX):
        pids = group(process.pid)
        if not pids or not until_state(pids, "Tt", LANDS_S):
            raise Missed(f"not stopped: {[state(pid) for pid in pids]}")
        if not any(lock_holders(path) & set(pids) for path in files):
            return {"states": {str(pid): state(pid) for pid in pids}, "stops": stops}
        process.send(signal.SIGCONT)
        process.send(signal.SIGSTOP)
    raise Missed("it held a lock of the database's file each time that it was stopped")


def _told(process: Process) -> Proof:
    """The signal is no longer pending: it was delivered, whatever the worker makes of it."""
    pending = status(process.pid)
    mask = int(pending.get("ShdPnd", "0"), 16) | int(pending.get("SigPnd", "0"), 16)
    bit = 1 << (signal.SIGTERM - 1)
    return {"delivered": not mask & bit, "exit_code": process.code}


def faketime_library() -> str:
    """The library that steps a process's clock, from the wheel libfaketime; "" without it."""
    found = importlib.util.find_spec("libfaketime")
    if found is None or found.origin is None:
        return ""
    vendored = sorted(Path(found.origin).parent.rglob("libfaketime*.so*"))
    return str(vendored[0]) if vendored else ""
