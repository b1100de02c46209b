"""Makers of targets: Outlast by name, any other from a TOML file or a Python adapter."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from .commands import Warm, run
from .disks import SmallDisk, can_mount
from .peers import maker as peers
from .postgres import Schema
from .run import Maker
from .server import Server
from .target import Limits, Target
from .targets.outlast.target import Agent, Outlast, offered, warm
from .workplace import Workplace

EMBEDDED = "embedded"


class OutlastMaker:
    """Outlast on SQLite, on the PostgreSQL at `db`, or on one of our own (`embedded`).

    `servers`: how many `outlast serve` stand between its workers and that; 0: none.
    """

    name = "outlast"
    not_claimed: frozenset[str] = frozenset()

    def __init__(
        self, db: str, limits: Limits, agent: Agent | None = None, servers: int = 0
    ) -> None:
        self.db, self.limits, self._agent, self._servers = db, limits, agent, servers
        self.server: Server | None = None
        self._workplace: Workplace | None = None
        self.offers = offered(db, servers) - (frozenset() if db == EMBEDDED else {"server"})
        self._warm: dict[int, Warm] = {}
        self._versions: dict[str, Any] = {}

    def open(self, workplace: Workplace) -> None:
        """Start a PostgreSQL of our own, if that was asked for."""
        self._workplace = workplace
        if self.db == EMBEDDED:
            self.server = Server(workplace)
            self.db = self.server.url

    def make(self, folder: Path, lane: int) -> Target:
        if lane not in self._warm:
            # Its commands run in the folder above, which outlives the scenario.
            self._warm[lane] = warm(folder.parent)
        return Outlast(
            folder,
            self.limits,
            self._warm[lane],
            db=self.db,
            agent=self._agent,
            versions=self._versions,
            servers=self._servers,
            workplace=self._workplace,
        )

    def disk(self, folder: Path, workplace: Workplace) -> Any:
        """For a file: its folder. For PostgreSQL: where one of our own puts the tables."""
        if not can_mount() or (self.db and not self.server):
            return None
        return self.server.disk(workplace) if self.server else SmallDisk(folder, workplace)

    def schema(self, folder: Path) -> tuple[str, str] | None:
        return (self.db, Schema(self.db, folder).name) if self.db else None

    def close(self) -> None:
        for each in self._warm.values():
            each.close()
        if self.server is not None:
            self.server.close()


def own_agent(app: str, name: str, text: str) -> Agent:
    """The user's agent, found from here. Raises ValueError if it is not there, or not named."""
    json.loads(text)
    module, _, attribute = app.partition(":")
    listing = f"import {module}; print(*{module}.{attribute or 'app'}.agents)"
    ran = run([sys.executable, "-c", listing])
    if ran.code != 0:
        raise ValueError(f"{app} cannot be loaded: {ran.errors.strip().splitlines()[-1]}")
    names = ran.output.split()
    if name not in names and (name or len(names) != 1):
        raise ValueError(f"--agent-name must be one of: {', '.join(names)}")
    return Agent(app, name or names[0], text, Path.cwd())


def maker(name: str, db: str, limits: dict[str, int], servers: int = 0) -> Maker:
    """`outlast`, a peer, the path of a TOML file, or MODULE:FUNCTION that returns a Maker."""
    if name == "outlast":
        return OutlastMaker(db, Limits(**limits), servers=servers)
    if servers:
        raise ValueError("servers of its own stand before outlast alone")
    if name in peers.names():
        return peers.PeerMaker(name, limits)
    if name.endswith(".toml"):
        from .command_target import CommandMaker

        return CommandMaker(Path(name), limits)
    module, _, function = name.partition(":")
    made: Any = getattr(importlib.import_module(module), function)(db=db, limits=limits)
    found: Maker = made
    return found
