"""One system under measurement, for one turn: a fresh store, an adapter to ask, its workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import draintest.peers
from draintest.peers.environment import Environment

from .marks import Marks
from .stage import ROOT, until
from .stores import Postgres, Served, Sqlite

PEERS = Path(draintest.peers.__file__).parent
READY_S = 60.0
STOP_S = 10.0
ASK_S = 120.0
# Nothing of whoever runs the bench: not a database of theirs, not a setting of Python's.
NOT_OURS = ("OUTLAST_", "DBOS_", "PG", "PYTHON", "CELERY_", "TEMPORAL_", "RESTATE_", "ABSURD_")


class Missing(Exception):
    """The system has no such call."""


class Failed(Exception):
    """The system said no, or nothing."""


@dataclass(frozen=True)
class Contender:
    """A system and the store it is measured on. `module`: its adapter.

    `peer`: in whose environment that runs, if that is called otherwise. `requirements`, `oldest`:
    of one that the drain test has no adapter for, what is installed, and for which Python.
    """

    name: str
    module: str
    store: str
    peer: str = ""
    requirements: tuple[str, ...] = ()
    oldest: tuple[int, int] = (3, 11)

    def environment(self) -> Environment | None:
        """None: ours, the one that this runs in."""
        if self.module == "outlast":
            return None
        if self.requirements:
            return Environment(self.module, self.requirements, oldest=self.oldest)
        peer = self.peer or self.module
        told = tomllib.loads((PEERS / peer / "peer.toml").read_text())["peer"]
        return Environment(peer, told["requirements"], told.get("npm", ()))


CONTENDERS = [
    Contender("Outlast", "outlast", "postgres"),
    Contender("Outlast, SQLite", "outlast", "sqlite"),
    Contender("Absurd", "absurd", "postgres"),
    Contender("DBOS", "dbos", "postgres"),
    Contender("DBOS, SQLite", "dbos", "sqlite"),
    Contender("LangGraph", "langgraph", "postgres"),
    Contender("Restate", "restate", "restate"),
    Contender("Temporal", "temporal", "temporal"),
    Contender("Temporal, local activities", "temporal_local", "temporal", peer="temporal"),
    Contender("PgQueuer", "pgqueuer", "postgres"),
    Contender("Procrastinate", "procrastinate", "postgres"),
    Contender("Oban", "oban", "postgres", requirements=("oban==0.7.0",), oldest=(3, 12)),
    Contender("Celery", "celery", "redis"),
]


class Stores:
    """The stores of one run, started when the first who needs one comes.

    `settings`: of PostgreSQL, besides ours.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._made: dict[str, Any] = {}

    def of(self, contender: Contender) -> Any:
        """PostgreSQL and the folder of SQLite stay; another server is there for one turn."""
        kind = contender.store
        if kind not in ("postgres", "sqlite"):
            environment = contender.environment()
            assert environment is not None
            environment.install()
            return Served(kind, environment.home)
        if kind not in self._made:
            self._made[kind] = Postgres(self._settings) if kind == "postgres" else Sqlite()
        return self._made[kind]

    def done_with(self, store: Any) -> None:
        if store not in self._made.values():
            store.close()

    def close(self) -> None:
        for store in self._made.values():
            store.close()


class Subject:
    """A contender with its store, prepared; everything of it ends with `close`."""

    def __init__(self, contender: Contender, store: Any) -> None:
        self.contender, self.store = contender, store
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        environment = contender.environment()
        if environment is not None:
            environment.install()
        python = environment.python if environment else Path(sys.executable)
        self.url: str = store.make()
        self._stack.callback(store.drop, self.url)
        self._command = [str(python), "-m", f"bench.systems.{contender.module}", self.url]
        self.marks = Marks(self.folder / "marks")
        self._log = (self.folder / "log").open("ab")
        self._stack.callback(self._log.close)
        self._desk = self._started(self._command, asked=True)
        self._stack.callback(_end, self._desk)

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    def ask(self, call: str, *words: Any) -> Any:
        """What the adapter answers, in two minutes at most. Raises Missing, Failed."""
        assert self._desk.stdin is not None
        assert self._desk.stdout is not None
        self._desk.stdin.write(json.dumps([call, *words]).encode() + b"\n")
        self._desk.stdin.flush()
        bound = threading.Timer(ASK_S, kill, [self._desk])
        bound.start()
        line = self._desk.stdout.readline()
        late = not bound.is_alive()
        bound.cancel()
        if not line:
            why = f"took more than {ASK_S:.0f} s" if late else f"ended: {self.said()}"
            raise Failed(f"{self.contender.name}, {call}: {why}")
        told = json.loads(line)
        if "missing" in told:
            raise Missing(call)
        if "error" in told:
            raise Failed(f"{self.contender.name}, {call}: {told['error']}")
        return told["answer"]

    @contextmanager
    def worker(self, slots: int, lease_s: float = 0) -> Iterator[subprocess.Popen[bytes]]:
        """A worker that is ready; killed at the end, with all that it has started."""
        before = self.marks.count("ready")
        process = self._started([*self._command, "work", str(slots), str(lease_s)])
        try:
            until(
                "the worker is ready",
                lambda: self.marks.count("ready") > before or process.poll() is not None,
                READY_S,
            )
            if process.poll() is not None and self.marks.count("ready") == before:
                raise Failed(f"{self.contender.name}: its worker ended: {self.said()}")
            yield process
        finally:
            _end(process)

    def fill(self, count: int, **words: Any) -> None:
        self.ask("fill", tasks(count, **words))

    def new_marks(self) -> None:
        """Begin anew with an empty file; for when no worker runs."""
        self.marks.path.write_text("")

    def said(self) -> str:
        """The end of what its processes have printed."""
        return (self.folder / "log").read_text(errors="replace")[-1500:]

    def _started(self, command: list[str], *, asked: bool = False) -> subprocess.Popen[bytes]:
        environ = {n: v for n, v in os.environ.items() if not n.startswith(NOT_OURS)}
        environ |= {"BENCH_MARKS": str(self.marks.path), "DO_NOT_TRACK": "1"}
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.PIPE if asked else subprocess.DEVNULL,
            stdout=subprocess.PIPE if asked else self._log,
            stderr=self._log,
            start_new_session=True,
        )


def tasks(count: int, *, steps: int = 0, ms: int = 0, die: str = "") -> list[dict[str, Any]]:
    """The words of so many tasks, numbered."""
    return [{"number": n, "steps": steps, "ms": ms, "die": die} for n in range(count)]


def kill(process: subprocess.Popen[bytes]) -> None:
    """It and all that it has started, as when their machine dies."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    kill(process)
    process.wait(timeout=STOP_S)
    for end in (process.stdin, process.stdout):
        if end is not None:
            with suppress(OSError):
                end.close()


def wait_for(subject: Subject, word: str, count: int, limit_s: float) -> bool:
    """Whether so many of these marks were made in time."""
    end = time.monotonic() + limit_s
    while subject.marks.count(word) < count:
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True
