"""The demo, told as it happens: four workers, three of them harmed, one task, one verdict."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

from ..client import connect
from ..core.errors import OutlastError
from ..core.lifecycle import body_of
from ..core.model import Event
from ..store.open import open_store, sqlite_path
from ..store.sqlite import lock_holders
from ..store.verbs import Store
from .judge import Check, Seen, Worker, judge
from .report import write_report

TTL_MS = 2_000
NAMES = ["a", "b", "c", "d", "e"]
PATIENCE_S = 30.0
TRIES, PAUSE_S = 100, 0.01
WORKER = "import sys; from outlast.cli.main import main; sys.exit(main())"
Say = Callable[[str], None]
Crew = dict[str, subprocess.Popen[bytes]]


class StoryBroke(OutlastError):
    """Something that had to happen did not, within the time it may take."""


@dataclass
class Stage:
    """The processes and files of one run; all of them end with it."""

    folder: Path
    say: Say
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    outputs: list[IO[bytes]] = field(default_factory=list)

    @property
    def db(self) -> str:
        return f"sqlite:{self.folder / 'demo.db'}"

    def start(self, name: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        output = (self.folder / f"{name}.log").open("wb")
        self.outputs.append(output)
        process = subprocess.Popen(
            [sys.executable, *arguments], stdout=output, stderr=output, env={**os.environ, **more}
        )
        self.processes.append(process)
        return process

    def worker(self, letter: str, mailbox: str) -> subprocess.Popen[bytes]:
        flags = ["--db", self.db, "--ttl", f"{TTL_MS}ms", "--poll", "100ms", "--build", letter]
        # What is killed here is lost as a whole machine is: nobody is left to see it die.
        flags += ["--no-supervisor"]
        return self.start(
            f"worker-{letter}", "-c", WORKER, "worker", "outlast.demo.agents:app", *flags,
            OUTLAST_DEMO_MAILBOX=mailbox,
        )  # fmt: skip

    def mailbox(self) -> str:
        self.start("mailbox", "-m", "outlast.demo.mailbox", str(self.folder / "letters.jsonl"))
        path = self.folder / "mailbox.log"
        self.until("the mailbox opens", lambda: path.read_text().endswith("\n"))
        return path.read_text().strip()

    def export(self, task_id: str) -> None:
        """The task's log as a user would export it: `outlast verify` checks it offline."""
        words = ("export", task_id, "--db", self.db, "--to", str(self.folder / "log.jsonl"))
        if self.start("export", "-c", WORKER, *words).wait(PATIENCE_S) != 0:
            raise StoryBroke(f"the log cannot be exported; see {self.folder}/export.log")

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Look again and again; raises StoryBroke when patience ends."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                raise StoryBroke(f"{what}: not within {PATIENCE_S:.0f} s; see {self.folder}/*.log")
            time.sleep(0.01)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        for output in self.outputs:
            output.close()


@dataclass
class Watched:
    """The task's log, followed as it grows, and told as it is read."""

    store: Store
    task_id: str
    say: Say
    events: list[Event] = field(default_factory=list)

    def look(self) -> list[Event]:
        for event in self.store.read(self.task_id, after=len(self.events)):
            self.events.append(event)
            tell(event, self.say)
        return self.events

    def has(self, kind: str, **wanted: object) -> bool:
        return any(
            event.kind == kind and wanted.items() <= body_of(event).items() for event in self.look()
        )


def run(folder: Path, *, say: Say = print) -> int:
    """Run the demo in a folder of its own, made anew; 0 if it passed, 1 if not."""
    _empty(folder)
    stage = Stage(folder, say)
    began = time.monotonic()
    try:
        seen = _play(stage)
    except StoryBroke as broke:
        say(f"FAIL   {broke}")
        return 1
    finally:
        stage.close()
    checks = judge(seen)
    report = write_report(folder, seen, checks, took_s=time.monotonic() - began)
    return _conclude(seen, checks, report, say)


def _play(stage: Stage) -> Seen:
    mailbox = stage.mailbox()
    store = open_store(stage.db, create=True)
    try:
        crew = {letter: stage.worker(letter, mailbox) for letter in "ABCD"}
        stage.until("four workers are there", lambda: len(store.workers()) == len(crew))
        with connect(stage.db) as client:
            task_id = client.submit("send_letters", {"names": NAMES}).id
        log = Watched(store, task_id, stage.say)
        return _gather(stage, log, _harm(stage, log, crew))
    finally:
        store.close()


def _harm(stage: Stage, log: Watched, crew: Crew) -> list[Worker]:
    """Kill, drain and freeze whoever owns the task, each in the middle of writing a letter."""
    killed = _owner_in_the_middle_of(stage, log, crew, "b")
    crew[killed].kill()
    stage.say(f"kill -9 {crew[killed].pid} (worker {killed})        <- for real")

    drained = _owner_in_the_middle_of(stage, log, crew, "c")
    crew[drained].terminate()
    stage.say(f"kill -TERM {crew[drained].pid} (worker {drained})     <- a deploy: drain")

    frozen = _owner_in_the_middle_of(stage, log, crew, "d")
    _freeze(stage, crew[frozen])
    stage.say(f"kill -STOP {crew[frozen].pid} (worker {frozen})     <- frozen, its heartbeats too")

    stage.until("another worker owns the task", lambda: log.has("lease.granted", epoch=4))
    crew[frozen].send_signal(signal.SIGCONT)
    stage.say(f"kill -CONT {crew[frozen].pid} (worker {frozen})     <- wakes beside its heir")
    stage.until("the zombie is refused", lambda: _refused(log) > 0)
    stage.say(f"worker {frozen} wants to write: REFUSED, the log has gone on without it")
    stage.until("the task ends", lambda: log.has("task.succeeded"))
    for letter in (killed, drained):
        crew[letter].wait(PATIENCE_S)
    harms = {killed: "killed", drained: "drained", frozen: "frozen"}
    return [
        Worker(letter, process.pid, harms.get(letter, ""), process.poll())
        for letter, process in crew.items()
    ]


def _freeze(stage: Stage, process: subprocess.Popen[bytes]) -> None:
    """Stop a worker between two writes: one that stands still inside a write holds the file.

    SQLite lets nobody else write then, whatever we do; that is another story than this one.
    """
    file = sqlite_path(stage.db)
    for _ in range(TRIES):
        process.send_signal(signal.SIGSTOP)
        # Stopped is what the kernel says, a moment after the signal was sent.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        if process.pid not in lock_holders(file):
            return
        process.send_signal(signal.SIGCONT)
        time.sleep(PAUSE_S)
    raise StoryBroke("the worker to be frozen is in the middle of a write whenever we look")


def _owner_in_the_middle_of(stage: Stage, log: Watched, crew: Crew, name: str) -> str:
    """The worker that is writing this letter: the one before has been sent."""
    sent = f"send-email {NAMES[NAMES.index(name) - 1]}"
    stage.until(f"{sent!r} is done", lambda: log.has("effect.applied", name=sent))
    grant = [event for event in log.events if event.kind == "lease.granted"][-1]
    return str(body_of(grant)["build"])


def _refused(log: Watched) -> int:
    found = log.store.observations(log.task_id)
    return sum(each.count for each in found if each.kind == "refused")


def _gather(stage: Stage, log: Watched, workers: list[Worker]) -> Seen:
    stage.export(log.task_id)
    lines = (stage.folder / "letters.jsonl").read_text().splitlines()
    return Seen(
        names=NAMES,
        letters=[json.loads(line)["to"] for line in lines],
        events=log.look(),
        task=log.store.get(log.task_id),
        workers=workers,
        refused=_refused(log),
        doctor=[found.said for found in log.store.checkup() if found.state == "broken"],
        ttl_ms=TTL_MS,
    )


def tell(event: Event, say: Say) -> None:
    """One line for an event that a person wants to hear of."""
    body = body_of(event)
    if event.kind == "lease.granted":
        owns = f"owns the task · epoch {body['epoch']} · {body['reason']}"
        say(f"worker {body['build']} (pid {body['pid']})  {owns}")
    elif event.kind == "replay.finished":
        say(
            f"  replay ................ {body['answered']} answers from the log, nothing done again"
        )
    elif event.kind == "step.done":
        say(f"  step {body['key']} ".ljust(26, ".") + " recorded")
    elif event.kind == "effect.applied":
        say(f"  effect {body['name']} ".ljust(26, ".") + " applied")
    elif event.kind == "lease.released":
        say(f"  released .............. {body['reason']}: ready at once for another worker")
    elif event.kind == "lease.expired":
        say("  lease expired ......... its owner is declared dead")


def _conclude(seen: Seen, checks: list[Check], report: Path, say: Say) -> int:
    for check in checks:
        if not check.holds:
            say(f"FAILED {check.what}: {check.seen}")
    passed = all(check.holds for check in checks)
    sent = checks[0].seen
    resumes = sum(event.kind == "lease.granted" for event in seen.events) - 1
    word = "PASS" if passed else "FAIL"
    say(f"{word}   e-mails sent: {sent} · {resumes} resumes · evidence: {report}")
    return 0 if passed else 1


def _empty(folder: Path) -> None:
    """A folder of our own; what is not ours is left alone."""
    mark = folder / "letters.jsonl"
    if folder.exists() and any(folder.iterdir()):
        if not mark.exists():
            _refuse(folder)
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _refuse(folder: Path) -> NoReturn:
    raise OutlastError(
        f"{folder} is not empty and not of an earlier demo; nothing was written. "
        "Name another folder with --folder"
    )
