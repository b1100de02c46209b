"""The seam to a database: transactions of named statements. Two implementations, one protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from ..core.errors import NeedsReview
from .verbs import HintsCome

Row = dict[str, Any]
Call = tuple[str, dict[str, Any]]


class LockedOut(Exception):
    """A lock could not be had in time, or two sessions blocked each other; nothing was written."""


class LogMoved(LockedOut):
    """An owner wrote while somebody else was about to; nothing was written, look again."""


class WrittenInPart(LockedOut):
    """Of an offer of several entries only some would be written; nothing was written."""


class Unstorable(Exception):
    """The database refuses a value; nothing was written."""


class WrongTables(NeedsReview):
    """A table or column that a statement names is not there: another schema, or none."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"the database's tables are not those of this version ({said}), whatever their number "
            "says: somebody has changed them, or another version made them before it was released. "
            "Nothing was written. Use a new database, or restore this one"
        )


class Session(Protocol):
    """One transaction."""

    def run(self, name: str, /, **params: Any) -> list[Row]:
        """Run one statement and fetch all its rows."""

    def send(self, calls: Sequence[Call]) -> list[list[Row]]:
        """Run several statements in one round trip, in order; the rows of each."""

    def send_last(self, calls: Sequence[Call]) -> None:
        """Run the last statements of the transaction and commit, in one round trip if it can be."""

    @property
    def connection(self) -> Any:
        """The driver's connection, for work that joins the transaction."""


class Database(Protocol):
    """A connection for one thread; reconnects after Unavailable."""

    @property
    def dialect(self) -> Literal["sqlite", "postgres"]: ...

    @property
    def server(self) -> str:
        """Which start of which server this is; another one after a restart or failover."""

    @property
    def timeline(self) -> str:
        """Which history of the server this is: another after a failover, not after a restart."""

    def transaction(self, *, lock_timeout_ms: int | None = None) -> AbstractContextManager[Session]:
        """A transaction that writes. Raises Unavailable, LockedOut, Unstorable."""

    def once(self, name: str, /, **params: Any) -> list[Row]:
        """One statement in a transaction of its own."""

    def migrating(self) -> AbstractContextManager[Callable[[str], None]]:
        """A transaction for definitions, one process at a time; yields what runs a script."""

    def hinted(self) -> bool:
        """Whether another connection may have made a task ready since this was asked last."""

    def hints_come(self, worker_id: str) -> HintsCome:
        """How to wait for the next hint."""

    def has_tables(self) -> bool:
        """Whether our tables are there, of whatever version."""

    def blockers(self) -> list[tuple[int, str]]:
        """(process id, what it is) of whoever holds locks that others wait for."""

    def end_blockers(self, task_id: str) -> int:
        """End the sessions that hold locks on a task's rows; how many."""

    def settings(self) -> dict[str, str]:
        """What decides durability, as it is in force."""

    def close(self) -> None: ...
