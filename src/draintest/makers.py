"""Makers of targets: Outlast by name, any other from a TOML file or a Python adapter."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .commands import Warm
from .postgres import Schema
from .run import Maker
from .server import Server
from .target import Limits, Target
from .targets.outlast.target import Outlast, offered, warm
from .workplace import Workplace

EMBEDDED = "embedded"


class OutlastMaker:
    """Outlast on SQLite, on the PostgreSQL at `db`, or on one of our own (`embedded`)."""

    name = "outlast"

    def __init__(self, db: str, limits: Limits) -> None:
        self.db, self.limits = db, limits
        self.server: Server | None = None
        self.offers = offered(db) - (frozenset() if db == EMBEDDED else {"server"})
        self._warm: dict[int, Warm] = {}

    def open(self, workplace: Workplace) -> None:
        """Start a PostgreSQL of our own, if that was asked for."""
        if self.db == EMBEDDED:
            self.server = Server(workplace)
            self.db = self.server.url

    def make(self, folder: Path, lane: int) -> Target:
        if lane not in self._warm:
            # Its commands run in the folder above, which outlives the scenario.
            self._warm[lane] = warm(folder.parent)
        return Outlast(folder, self.limits, self._warm[lane], db=self.db)

    def schema(self, folder: Path) -> tuple[str, str] | None:
        return (self.db, Schema(self.db, folder).name) if self.db else None

    def close(self) -> None:
        for each in self._warm.values():
            each.close()
        if self.server is not None:
            self.server.close()


def maker(name: str, db: str, limits: dict[str, int]) -> Maker:
    """`outlast`, the path of a TOML file, or MODULE:FUNCTION that returns a Maker."""
    if name == "outlast":
        return OutlastMaker(db, Limits(**limits))
    if name.endswith(".toml"):
        from .command_target import CommandMaker

        return CommandMaker(Path(name), limits)
    module, _, function = name.partition(":")
    made: Any = getattr(importlib.import_module(module), function)(db=db, limits=limits)
    found: Maker = made
    return found
