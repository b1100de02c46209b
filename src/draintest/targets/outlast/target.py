"""Outlast: a store of its own for each scenario, asked by the commands that everybody has."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ...commands import Ran, Warm
from ...languages import Http, Language, Postgres
from ...postgres import Schema
from ...processes import Launch
from ...target import OFFERS, CannotSay, Limits, Shape
from ...workplace import Workplace
from .front import Front
from .log import neutral

HERE = Path(__file__).parent
# Outlast does not end child processes with their task yet: its README says so.
OFFERED = frozenset(OFFERS) - {"children"}


def offered(db: str, servers: int = 0) -> frozenset[str]:
    """A file has no clock of its own: there each worker reads its machine's."""
    found = OFFERED if db else OFFERED - {"clock", "wire", "server"}
    return found | {"wire"} if servers else found - {"front"}


@dataclass(frozen=True)
class Agent:
    """The user's own workload. `app`: MODULE:APP, found from `folder`; `name`: which agent."""

    app: str
    name: str
    input: str
    folder: Path


class Outlast:
    """`db`: "" for a SQLite file in `folder`, or the URL of a PostgreSQL whose schema is ours.

    `agent`: the user's own workload instead of ours. `versions`: what all scenarios of a run share:
    it is asked once. `servers`: how many stand before the store; 0: workers reach it themselves.
    """

    name = "outlast"

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        warm: Warm,
        *,
        db: str = "",
        agent: Agent | None = None,
        versions: Shape | None = None,
        servers: int = 0,
        workplace: Workplace | None = None,
    ) -> None:
        self.folder, self.limits, self._warm = folder, limits, warm
        self.offers = offered(db, servers)
        self._servers, self._workplace = servers, workplace
        self._front: Front | None = None
        self._agent = agent
        self._schema = Schema(db, folder) if db else None
        self.db = self._schema.outlast_url if self._schema else f"sqlite:{folder / 'store.db'}"
        self._through = ""
        self._versions = {} if versions is None else versions

    def version(self) -> Shape:
        if not self._versions:
            self._versions.update(self._ask_versions())
        return self._versions

    def _ask_versions(self) -> Shape:
        said = self._run("--version").output.strip()
        durable = [
            line["said"]
            for line in self._run("doctor", "--json", "--db", self.db).json()["items"]
            if line["check"] == "durability"
        ]
        return {"outlast": said, "durability": "; ".join(durable), "python": sys.version.split()[0]}

    def prepare(self) -> None:
        if self._schema:
            self._schema.claim()
        shutil.copy(HERE / "workload.py.in", self.folder / "drain_workload.py")
        ran = self._run("migrate", "--db", self.db)
        if ran.code != 0:
            raise CannotSay(f"outlast migrate: {ran.errors or ran.output}")
        if self._servers and self._workplace:
            self._front = Front(_outlast(), self.db, self.folder, self._servers, self._workplace)

    def front(self) -> Front:
        if self._front is None:
            raise CannotSay("no server stands before this store")
        return self._front

    def database(self) -> tuple[str, int]:
        parts = urlsplit(self._reached)
        return parts.hostname or "127.0.0.1", parts.port or 5432

    def language(self) -> Callable[[], Language]:
        return Http if self._front else Postgres

    @property
    def _reached(self) -> str:
        """The URL by which workers reach the store."""
        return self._front.url if self._front else self.db

    def through(self, port: int, host: str = "127.0.0.1") -> None:
        parts = urlsplit(self._reached)
        who, at, _ = parts.netloc.rpartition("@")
        self._through = urlunsplit(parts._replace(netloc=f"{who}{at}{host}:{port}")) * bool(port)

    def worker(self, name: str, world: str) -> Launch:
        limits = self.limits
        flags = {
            "--db": self._through or self._reached,
            "--ttl": f"{limits.ttl_ms}ms",
            "--poll": f"{limits.poll_ms}ms",
            "--grace": f"{limits.grace_ms}ms",
            "--build": name,
            "-o": "jsonl",
        }
        words = [_outlast(), "worker", self._agent.app if self._agent else "drain_workload:app"]
        # Harm is the loss of a machine, and a worker is known by one pid.
        words += ["--no-supervisor"]
        folder = self._agent.folder if self._agent else self.folder
        environment = {
            "DRAINTEST_WORLD": world,
            "RESUMES": str(limits.resumes),
            # A hundred workers are started: each would compile what an installed package has.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(self.folder.parent / "compiled"),
        }
        return Launch(
            [*words, *(word for pair in flags.items() for word in pair)], environment, folder
        )

    def ready(self, output: str) -> bool:
        return '"worker.started"' in output

    def submit(self, program: Mapping[str, Any]) -> str:
        told = ("program", json.dumps(program))
        if self._agent:
            told = (self._agent.name, self._agent.input)
        # A disk that is full is full for long: one that refuses is not asked again and again.
        answer = self._json("submit", *told, "--json", patience="2s")
        return str(answer["id"])

    def tasks(self) -> list[Shape]:
        told = ("id", "state", "reason", "epoch", "failures")
        found = [{name: task[name] for name in told} for task in self._items("ps")]
        doubts: dict[str, list[Shape]] = {}
        # Each question costs the machine that the workers need: this one only where it matters.
        for effect in self._items("effects") if any(t["state"] == "review" for t in found) else ():
            act = {"act": effect["name"], "key": effect["key"], "state": effect["state"]}
            doubts.setdefault(effect["task"], []).append(act)
        return [{**task, "effects": doubts.get(task["id"], [])} for task in found]

    def owners(self) -> list[Shape]:
        return [
            {
                "task": task["id"],
                "epoch": task["epoch"],
                "worker": task["owner"]["worker"],
                "pid": task["owner"]["pid"],
                "expires_ms": _ms(task["lease"]["expires_at"]),
                "store_ms": _ms(task["as_of"]),
            }
            for task in self._items("ps")
            if task["lease"] and task["owner"]
        ]

    def log(self) -> list[Shape]:
        ran = self._run("export", "--all", "--db", self.db)
        if ran.code != 0:
            raise CannotSay(ran.errors)
        return neutral(json.loads(line) for line in ran.output.splitlines())

    def metrics(self) -> Shape:
        ran = self._run("metrics", "--db", self.db)
        if ran.code != 0:
            raise CannotSay(ran.errors)
        told: Shape = {"resumes": {}, "terminal": {}, "duplicates": {}}
        told |= {"silence_s": 0.0, "repeated": 0}
        names = {
            "agent_task_resume_total": ("resumes", "reason"),
            "agent_task_terminal_total": ("terminal", "state"),
            "agent_tool_effect_duplicate_total": ("duplicates", "disposition"),
        }
        for line in ran.output.splitlines():
            name, _, rest = line.partition("{")
            value = line.rpartition(" ")[2]
            if name == "agent_task_heartbeat_age_seconds":
                told["silence_s"] = max(told["silence_s"], float(value))
            elif name == "agent_task_resume_total" and 'nth="3+"' in rest:
                told["repeated"] += int(float(value))
            if name in names:
                part, label = names[name]
                which = rest.partition(f'{label}="')[2].partition('"')[0]
                told[part][which] = told[part].get(which, 0) + int(float(value))
        return told

    def cancel(self, task: str) -> None:
        self._json("cancel", task, "--reason", "the drain test", "--yes", "--json")

    def settle(self, task: str, act: str, receipt: str | None) -> None:
        end = ["--applied", json.dumps(receipt)] if receipt else ["--not-applied"]
        key = f"{task}/{act}"
        self._json("settle", key, *end, "--reason", "the world's record", "--json")

    def export(self, path: Path) -> None:
        ran = self._run("export", "--all", "--to", str(path), "--db", self.db)
        if ran.code != 0:
            raise CannotSay(ran.errors)

    def verify(self, path: Path) -> tuple[bool, str]:
        ran = self._run("verify", str(path))
        return ran.code == 0, (ran.errors + ran.output).strip()[:500]

    def files(self) -> list[Path]:
        return (
            []
            if self._schema or self._front
            else [self.folder / f"store.db{end}" for end in ("", "-shm", "-wal")]
        )

    def litter(self) -> list[str]:
        return self._schema.litter() if self._schema else []

    def clean_up(self) -> None:
        if self._front:
            self._front.close()
        if self._schema:
            self._schema.drop()

    def _items(self, command: str) -> list[Shape]:
        found: list[Shape] = self._json(command, "--json", "--limit", "1000")["items"]
        return found

    def _json(self, *words: str, patience: str = "20s") -> Any:
        return self._run(*words, "--db", self.db, "--timeout", patience).json()

    def _run(self, *words: str) -> Ran:
        return self._warm.run(*words)


def warm(folder: Path) -> Warm:
    """The process that runs the commands of one scenario after the other.

    From where the script lies: a copy that several lanes made at once was seen to be run half-made.
    """
    return Warm([sys.executable, str(HERE / "commands.py.in")], folder)


def _outlast() -> str:
    beside = Path(sys.executable).with_name("outlast")
    return str(beside) if beside.exists() else shutil.which("outlast") or "outlast"


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
