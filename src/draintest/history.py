"""The history: everything that was seen, one record a line, all by one monotonic clock."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

Record = dict[str, Any]


def now_ms() -> float:
    """The recorder's clock: monotonic, the same for every process of this machine."""
    return time.monotonic_ns() / 1e6


def stamped(what: str, fields: Record) -> Record:
    """A record as it is written: when (monotonic and wall time), what, and its fields."""
    wall_ms = time.time_ns() // 1_000_000
    return {"t_ms": round(now_ms(), 3), "wall_ms": wall_ms, "what": what, **fields}


class History:
    """Records as they come: kept in memory, and on disk before the next act."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: BinaryIO = path.open("ab")
        self._records: list[Record] = []

    def add(self, what: str, **fields: Any) -> Record:
        """Write one record; the fields must be JSON."""
        with self._lock:
            record = stamped(what, fields)
            self._file.write(line_of(record))
            self._file.flush()
            self._records.append(record)
        return record

    def records(self) -> list[Record]:
        with self._lock:
            return list(self._records)

    def close(self) -> None:
        self._file.close()


def line_of(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def read(path: Path) -> list[Record]:
    """The complete lines of a file of records; a line that its writer died in is left out."""
    if not path.exists():
        return []
    text = path.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in text.split(b"\n") if line]


def merged(*parts: Iterable[Record]) -> list[Record]:
    """All records in the order of the clock, each with its line number `n`, from 1."""
    together = sorted((r for part in parts for r in part), key=lambda record: record["t_ms"])
    return [{"n": number, **record} for number, record in enumerate(together, 1)]


class View:
    """A history as checks ask it: the records of a kind, of a scenario, of a task."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records

    def of(self, *kinds: str, **wanted: Any) -> list[Record]:
        """The records of these kinds that hold this, oldest first."""
        return [
            record
            for record in self.records
            if record["what"] in kinds and wanted.items() <= record.items()
        ]

    def first(self, *kinds: str, **wanted: Any) -> Record | None:
        return next(iter(self.of(*kinds, **wanted)), None)

    def last(self, *kinds: str, **wanted: Any) -> Record | None:
        return next(reversed(self.of(*kinds, **wanted)), None)

    def scenarios(self) -> Iterator[tuple[str, View]]:
        """Each scenario's name with its own records."""
        sorted_out: dict[str, list[Record]] = {}
        for record in self.records:
            if name := record.get("scenario"):
                sorted_out.setdefault(name, []).append(record)
        for name, records in sorted_out.items():
            yield name, View(records)
