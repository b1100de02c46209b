"""The stage of one scenario: a target with a store of its own, its workers, and what is written."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import faults
from .commands import run
from .history import History, Record
from .network import HERE as HOST
from .network import Namespace
from .processes import Process, group
from .program import Act
from .target import FINAL, CannotSay, Shape, Target
from .waiting import pause, until
from .wire import Wire
from .world.witness import Witness

ENDS = ("world.answered", "world.dropped", "world.unheard")
MINUTE_MS = 60_000
# A question to the target is a command: not asked more often than this.
ASK_S = 0.2
ASK_COSTS, ASK_REST_S = 3, 1.0


class Stage:
    """Everything a scenario needs; each act of the harness is a record with the scenario's name."""

    def __init__(
        self, name: str, target: Target, witness: Witness, history: History, folder: Path
    ) -> None:
        self.name, self.target, self.witness = name, target, witness
        self.limits = target.limits
        self._history, self._folder = history, folder
        self._processes: dict[str, Process] = {}
        self._numbers = itertools.count(1)
        self.programs: dict[str, list[Act]] = {}
        self.wire: Any = None
        self.server: Any = None
        self.disk: Any = None
        self.network: Any = None
        self._inside = False  # whether workers that are started now live in that network

    def tell(self, what: str, **fields: Any) -> Record:
        return self._history.add(what, scenario=self.name, **fields)

    # -- those who act ----------------------------------------------------------------------------

    def worker(
        self,
        called: str = "",
        *,
        environment: Mapping[str, str] | None = None,
        patient: bool = True,
    ) -> Process:
        """Start a worker, and if `patient` wait until it is ready. `called`: its own name."""
        name = f"w{next(self._numbers)}"
        launch = self.target.worker(called or name, self._world())
        command = [*(self.network.words if self._inside else ()), *launch.command]
        more = {**launch.environment, **(environment or {})}
        launch = replace(launch, command=command, environment=more)
        process = Process(name, launch, self._folder / f"{name}.out")
        self._processes[name] = process
        self.started(process)
        self.tell("worker.started", worker=name, pid=process.pid, called=called or name)
        if patient:
            self.until_ready(process)
        return process

    def started(self, process: Process) -> None:
        """Called with each process, before anything else: to answer for it."""

    def until_ready(self, process: Process) -> None:
        ready = until(
            lambda: self.target.ready(process.output) or process.code is not None,
            self.limits.patience_s * 3,
        )
        if ready is None or process.code is not None:
            raise faults.Missed(f"worker {process.name} did not start (exit code {process.code})")
        self.tell("worker.ready", worker=process.name, pid=process.pid)

    def submit(self, acts: Sequence[Act]) -> str:
        """Store a task that runs these acts; its id. The record is of the acknowledgement."""
        task = self.target.submit({"scenario": self.name, "acts": list(acts)})
        self.programs[task] = list(acts)
        self.tell("submitted", task=task, acts=list(acts))
        return task

    def submit_until_refused(self, acts: Sequence[Act], at_most: int) -> str:
        """Store one task after the other; what was said when one was refused, "" if none was.

        Those that were acknowledged before count like any other.
        """
        for _ in range(at_most):
            try:
                self.submit(acts)
            except CannotSay as error:
                return str(error)[:300] or "refused"
        return ""

    def cancel(self, task: str) -> None:
        self.tell("cancel.asked", task=task)
        self.target.cancel(task)
        self.tell("cancel.answered", task=task)

    def cancel_if_open(self, task: str) -> None:
        """The same for a task that may have ended: then the order is refused."""
        try:
            self.cancel(task)
        except CannotSay as error:
            self.tell("cancel.refused", task=task, why=str(error)[:300])

    # -- harm -------------------------------------------------------------------------------------

    def harm(
        self,
        fault: str,
        process: Process,
        *,
        idle: bool = False,
        in_flight: list[str] | None = None,
    ) -> None:
        """Strike a worker now; whether it landed, and what was in flight, are on the record."""
        in_flight = self.in_flight(process) if in_flight is None else in_flight
        self.began(fault, process)
        try:
            proof = faults.strike(fault, process, self.target.files())
        except faults.Missed as missed:
            self.missed(fault, process, str(missed))
            raise
        self.landed(fault, process, proof, in_flight, idle, proof.pop("struck_ms"))

    def harm_child(self, held: Record, worker: Process) -> None:
        """Kill the child process that a held call came from."""
        self.began(faults.CHILD, worker)
        try:
            proof = faults.kill_child(held["pid"], worker)
        except faults.Missed as missed:
            self.missed(faults.CHILD, worker, str(missed))
            raise
        fields = {"worker": worker.name, "pid": held["pid"], "proof": proof}
        self.tell(
            "fault.landed", fault=faults.CHILD, in_flight=[held["task"]], idle=False, **fields
        )

    def harmed_by_world(self, fault: str, process: Process, act: str) -> None:
        """The world was told to strike when it has answered that act: wait, and prove it."""
        self.began(fault, process)
        struck = self.witness.until(
            self.name, "world.struck", self.limits.patience_s, act=act, group=process.pid
        )
        try:
            if struck is None:
                raise faults.Missed("the world has not struck: no such answer was given")
            proof = faults.prove(fault, process, self.target.files())
        except faults.Missed as missed:
            self.missed(fault, process, str(missed))
            raise
        in_flight = [struck["task"]]
        self.landed(fault, process, proof, in_flight, idle=False, at_ms=struck["t_ms"])

    def thaw(self, process: Process) -> None:
        faults.thaw(process)
        self.tell("fault.ended", fault=faults.STOP, worker=process.name, pid=process.pid)

    def clock_stepped(self, process: Process, environment: dict[str, str]) -> None:
        """Prove that the clock of a process that was started so is another than ours."""
        self.began("clock", process)
        words = [sys.executable, "-c", "import time; print(time.time_ns() // 1000000)"]
        told = run(words, environment=environment).output.strip()
        shift_ms = int(told or 0) - time.time_ns() // 1_000_000
        if abs(shift_ms) < MINUTE_MS:
            self.missed("clock", process, f"its clock reads {shift_ms} ms beside ours")
            raise faults.Missed("the clock was not stepped")
        self.landed("clock", process, {"shift_ms": shift_ms}, self.in_flight_anywhere(), False)

    def family(self, process: Process, moment: str) -> None:
        """Write down who lives below a worker."""
        below = [pid for pid in group(process.pid) if pid != process.pid]
        self.tell("family", worker=process.name, pid=process.pid, moment=moment, below=below)

    def in_flight_anywhere(self) -> list[str]:
        """The tasks that any worker has a call under way for."""
        return sorted({task for p in self._processes.values() for task in self.in_flight(p)})

    def in_flight(self, process: Process) -> list[str]:
        """The tasks that have a call of this worker under way at this moment."""
        came: dict[tuple[str, str], int] = {}
        for record in self.witness.records(self.name):
            if record.get("pid") == process.pid:
                place = (record["task"], record["act"])
                step = dict.fromkeys(ENDS, -1) | {"world.came": 1}
                came[place] = came.get(place, 0) + step.get(record["what"], 0)
        return sorted({task for (task, _), calls in came.items() if calls > 0})

    def until_exit(self, process: Process, timeout_s: float) -> int | None:
        """Its exit code, recorded; None if it has not ended in time."""
        code = process.wait(timeout_s)
        if code is not None:
            self.tell("worker.ended", worker=process.name, pid=process.pid, code=code)
        else:
            self.tell("worker.stayed", worker=process.name, pid=process.pid)
        return code

    # -- what is seen -----------------------------------------------------------------------------

    def look_owners(self) -> list[Shape]:
        """Who owns what by the target's own word; recorded. Nothing if it does not say."""
        if "owners" not in self.target.offers:
            return []
        try:
            owners = self.target.owners()
        except CannotSay:
            return []
        for owner in owners:
            self.tell("owner", **owner)
        return owners

    def tasks(self) -> list[Shape] | None:
        """Every task as the target shows it; None if it cannot say now."""
        began_s = time.monotonic()
        try:
            return self.target.tasks()
        except CannotSay as error:
            self.tell("target.silent", why=str(error)[:300])
            return None
        finally:
            # What costs much to ask is asked seldom: the machine is the workers'.
            pause(min(ASK_REST_S, ASK_COSTS * (time.monotonic() - began_s)))

    def until_state(self, states: Sequence[str], timeout_s: float = 0) -> bool:
        """Wait until every task is in one of these states."""

        def there() -> bool | None:
            seen = self.tasks()
            return (seen is not None and all(task["state"] in states for task in seen)) or None

        return bool(until(there, timeout_s or self.limits.patience_s, ASK_S))

    def until_quiet(self) -> None:
        """Wait until every task has ended, or is for a person to look at; no demand is made."""
        self.until_state((*FINAL, "review"))

    def until_act(self, act: str, count: int = 1, **wanted: Any) -> Record | None:
        """Wait until the world has seen so many calls of that act."""
        found = self.witness.until(
            self.name, "world.came", self.limits.patience_s, count, act=act, **wanted
        )
        if found is None:
            self.tell("missing", act=act, why="no such call came")
        return found

    def until_held(self, act: str, point: str) -> Record:
        """Wait for the call to be held there. Raises Missed: then there is nothing to harm."""
        found = self.witness.until(
            self.name, "world.held", self.limits.patience_s, act=act, point=point
        )
        if found is None:
            raise faults.Missed(f"no call of {act} came to be held {point}")
        return found

    def until_rest(self, timeout_s: float = 0) -> bool:
        """Heal, and demand progress: every task ends, with doubts settled by the world's record."""
        timeout_s = timeout_s or self.limits.patience_s * 2
        self.tell("healed", demanded_ms=timeout_s * 1000)

        def at_rest() -> bool | None:
            seen = self.tasks()
            if seen is None or not seen:
                return None
            for task in seen:
                if task["state"] == "review":
                    self.settle(task)
            return all(task["state"] in FINAL for task in seen) or None

        rest = bool(until(at_rest, timeout_s, ASK_S))
        self.tell("rested" if rest else "progress.missed", demanded_ms=timeout_s * 1000)
        return rest

    def settle(self, task: Shape) -> None:
        """As a person would: what is in doubt is looked up with the provider, and settled."""
        if "settle" not in self.target.offers:
            return
        self.tell("shown", task=task["id"], state="review", effects=task.get("effects", []))
        for doubt in task.get("effects", []):
            if doubt["state"] not in ("unknown", "intended"):
                continue
            found = self.witness.records(
                self.name, "world.applied", task=task["id"], act=doubt["act"]
            )
            receipt = found[-1]["receipt"] if found else None
            with contextlib.suppress(CannotSay):
                self.target.settle(task["id"], doubt["act"], receipt)
                self.tell("settled", task=task["id"], act=doubt["act"], receipt=receipt)

    # -- the end ----------------------------------------------------------------------------------

    def end_workers(self) -> None:
        for process in self._processes.values():
            code, what = process.code, "worker.had_ended"
            if code is None:
                process.end()
                what = "worker.ended_by_us"
            self.tell(what, worker=process.name, pid=process.pid, code=code)
        for way in (self.wire, self.network):
            if way is not None:
                way.close()

    def workers(self) -> Iterator[Process]:
        yield from self._processes.values()

    # -- the second plane -------------------------------------------------------------------------

    def behind_wire(self) -> None:
        """Workers that are started from now on reach the database through a wire of ours."""
        host, port = self.target.database()
        self.wire = Wire(host, port, self.target.language())
        self.target.through(self.wire.port)

    def before_wire(self) -> None:
        self.target.through(0)

    def make_network(self, port: int) -> Namespace:
        """A network of its own that reaches the database at this port of ours."""
        raise NotImplementedError

    def behind_network(self) -> None:
        """Workers that are started from now on live in a network of their own."""
        _, port = self.target.database()
        self.network, self._inside = self.make_network(port), True
        self.network.relay(urlsplit(self.witness.url).port)
        self.target.through(port, HOST)

    def before_network(self) -> None:
        self._inside = False
        self.target.through(0)

    def _world(self) -> str:
        """Where a worker reaches the world."""
        return self.witness.url.replace("127.0.0.1", HOST) if self._inside else self.witness.url

    def began(self, fault: str, process: Process | None) -> None:
        self.tell("fault.began", fault=fault, **_who(process))

    def landed(
        self,
        fault: str,
        process: Process | None,
        proof: faults.Proof,
        in_flight: list[str],
        idle: bool = False,
        at_ms: float = 0,
    ) -> None:
        """The harm was done. `process`: None if it was done to the database."""
        fields = {"proof": proof, "in_flight": in_flight, "idle": idle}
        struck = {"struck_ms": at_ms} if at_ms else {}
        self.tell("fault.landed", fault=fault, **_who(process), **fields, **struck)

    def missed(self, fault: str, process: Process | None, why: str) -> None:
        self.tell("fault.missed", fault=fault, **_who(process), why=why)


def _who(process: Process | None) -> dict[str, Any]:
    return {"worker": process.name, "pid": process.pid} if process else {"worker": "", "pid": 0}
