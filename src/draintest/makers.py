"""Makers of targets: Outlast by name, any other from a TOML file or a Python adapter."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from .commands import Warm
from .postgres import Schema
from .run import Maker
from .target import Limits, Target
from .targets.outlast.target import Outlast, offered, warm


class OutlastMaker:
    """Outlast on SQLite, or on the PostgreSQL at `db`."""

    name = "outlast"

    def __init__(self, db: str, limits: Limits) -> None:
        self.db, self.limits = db, limits
        self.offers = offered(db)
        self._warm: dict[int, Warm] = {}

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
