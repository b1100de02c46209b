"""Makes targets of a peer: its library in an environment of its own, its services started by us.

A peer is a folder here: `peer.toml`, as for any target in a file, with

    [peer]
    requirements = ["procrastinate==3.10.0"]   # installed into an environment of their own
    npm = ["..."]                              # and from npm, into the same folder
    service = "postgres"                       # redis restate temporal; {db}: a fresh one of it
    configured = "..."                         # what its documentation recommends, and was done
    not_claimed = ["C5"]                       # what it does not promise, check by check

and `adapter.py.in`, which answers the commands and runs the program (`world.py.in` beside it says
how the world is told). Both are copied to where the environment lies, and run by its Python.
"""

from __future__ import annotations

import hashlib
import shutil
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..command_target import CommandMaker, CommandTarget
from ..postgres import query
from ..server import Server
from ..target import Target
from ..workplace import Workplace
from .environment import Environment
from .redis_server import Redis
from .restate_server import Restate
from .temporal_server import Temporal

HERE = Path(__file__).parent


def names() -> list[str]:
    """The peers that there are adapters for."""
    return sorted(path.parent.name for path in HERE.glob("*/peer.toml"))


class PeerTarget(CommandTarget):
    """A peer with a database of its own, made by `prepare` and dropped by `clean_up`."""

    def __init__(self, *words: Any, service: Any, database_name: str, **more: Any) -> None:
        super().__init__(*words, **more)
        self._service, self._database_name = service, database_name

    def prepare(self) -> None:
        self._service.make(self._database_name)
        super().prepare()

    def litter(self) -> list[str]:
        return [f"database {self._database_name}"] * self._service.has(self._database_name)

    def clean_up(self) -> None:
        super().clean_up()
        self._service.drop(self._database_name)


class PeerMaker(CommandMaker):
    """Makes targets of one peer."""

    def __init__(self, name: str, limits: dict[str, int]) -> None:
        settings = tomllib.loads((HERE / name / "peer.toml").read_text())
        self.peer: Mapping[str, Any] = settings["peer"]
        self.not_claimed = frozenset(self.peer.get("not_claimed", ()))
        self._library = Environment(name, self.peer["requirements"], self.peer.get("npm", ()))
        self._home = self._library.home
        super().__init__(HERE / name / "peer.toml", limits)
        self._service: Any = None

    def open(self, workplace: Workplace) -> None:
        """Install what is not there yet, and start its service."""
        self._library.install()
        for source in (
            HERE / self._settings["target"]["name"] / "adapter.py.in",
            HERE / "world.py.in",
        ):
            shutil.copy(source, self._home / source.name.removesuffix(".in"))
        kinds: dict[str, Callable[[Workplace], Any]] = {
            "postgres": Databases,
            "redis": Redis,
            "restate": lambda workplace: Restate(workplace, self._home, self.limits.ttl_ms),
            "temporal": lambda workplace: Temporal(workplace, self._home),
        }
        self._service = kinds[self.peer["service"]](workplace)

    def make(self, folder: Path, lane: int) -> Target:
        name = "dt_" + hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        words = {
            "python": str(self._library.python),
            "adapter": str(self._home / "adapter.py"),
            "db": self._service.url(name),
        }
        return PeerTarget(
            self._settings,
            self._home,
            folder,
            self.limits,
            self._lane(lane, words, self._home),
            service=self._service,
            database_name=name,
            words=words,
        )

    def close(self) -> None:
        super().close()
        if self._service is not None:
            self._service.close()


class Databases:
    """Databases of a PostgreSQL of our own, one a scenario."""

    def __init__(self, workplace: Workplace) -> None:
        self._server = Server(workplace)

    def url(self, name: str) -> str:
        return self._server.url.rpartition("/")[0] + f"/{name}"

    def make(self, name: str) -> None:
        query(self._server.url, f"create database {name}")

    def has(self, name: str) -> bool:
        return bool(query(self._server.url, "select 1 from pg_database where datname = %s", name))

    def drop(self, name: str) -> None:
        query(self._server.url, f"drop database if exists {name} with (force)")

    def close(self) -> None:
        self._server.close()
