"""A SQLite file as a database: WAL, synchronous=full, one writer at a time, our own waiting."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..core import limits
from ..core.clock import Env
from ..core.errors import BadSetting, Unavailable
from .database import Call, LockedOut, Row, Unstorable, WrongTables
from .doorbell import Doorbell, ring
from .verbs import HintsCome

T = TypeVar("T")
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs"}


class SqliteSession:
    """One transaction on the file."""

    def __init__(self, connection: sqlite3.Connection, statements: Mapping[str, str]) -> None:
        self.connection = connection
        self._statements = statements
        self.to_ring: list[str] = []  # the workers to be told of what this transaction made ready

    def run(self, name: str, /, **params: Any) -> list[Row]:
        # Fetched to the end: an unfinished RETURNING would keep COMMIT from succeeding.
        rows: list[Row] = self.connection.execute(self._statements[name], params).fetchall()
        if name == "hint":
            self.to_ring = [row["id"] for row in rows]
        return rows

    def send(self, calls: Sequence[Call]) -> list[list[Row]]:
        return [self.run(name, **params) for name, params in calls]

    def send_last(self, calls: Sequence[Call]) -> None:
        self.send(calls)


class SqliteDatabase:
    """A connection to one file, for one thread."""

    dialect: Literal["sqlite"] = "sqlite"

    def __init__(self, path: Path, statements: Mapping[str, str], env: Env) -> None:
        self.path = path
        self._statements = statements
        self._env = env
        self._open: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._version: int | None = None  # of what this connection saw last, as `hinted` asks
        self._bell: Doorbell | None = None

    @property
    def server(self) -> str:
        return _boot_id()

    @property
    def timeline(self) -> str:
        return ""

    @contextmanager
    def transaction(self, *, lock_timeout_ms: int | None = None) -> Iterator[SqliteSession]:
        connection = self._connect()
        wait_ms = limits.SQLITE_BUSY_MS if lock_timeout_ms is None else lock_timeout_ms
        with self._translated():
            # IMMEDIATE: a transaction that reads first and writes later is refused for good once
            # another has written in between, and does not wait.
            try:
                self._patiently(lambda: connection.execute("begin immediate"), wait_ms)
            except Unavailable as error:
                if lock_timeout_ms is None:
                    raise
                raise LockedOut(str(error)) from None
        try:
            with self._translated():
                session = SqliteSession(connection, self._statements)
                yield session
                if not connection.in_transaction:
                    return
                self._patiently(lambda: connection.execute("commit"), wait_ms)
                if session.to_ring:
                    ring(session.to_ring)
        finally:
            if connection.in_transaction:
                connection.execute("rollback")

    def once(self, name: str, /, **params: Any) -> list[Row]:
        connection = self._connect()
        session = SqliteSession(connection, self._statements)
        with self._translated():
            return self._patiently(lambda: session.run(name, **params), limits.SQLITE_BUSY_MS)

    def has_tables(self) -> bool:
        with self._translated():
            query = "select 1 from sqlite_schema where name = 'schema'"
            return self._connect().execute(query).fetchone() is not None

    def blockers(self) -> list[tuple[int, str]]:
        return [(pid, _command(pid)) for pid in lock_holders(self.path) if pid != os.getpid()]

    def end_blockers(self, task_id: str) -> int:
        return 0

    def settings(self) -> dict[str, str]:
        connection = self._connect()
        wanted = ("journal_mode", "synchronous", "application_id")
        found = {name: str(_pragma(connection, name)) for name in wanted}
        return {**found, "sqlite": sqlite3.sqlite_version, "file": str(self.path)}

    def hinted(self) -> bool:
        """Whether another connection has committed, whatever; costs a read, takes no lock."""
        if self._open is None:
            return False  # the next look connects
        rung = self._bell is not None and self._bell.rung()
        with self._translated():
            before, self._version = self._version, _pragma(self._connect(), "data_version")
        return rung or before not in (None, self._version)

    def hints_come(self, worker_id: str) -> HintsCome:
        if self._bell is None:
            try:
                self._bell = Doorbell(worker_id)
            except OSError:
                return HintsCome(look_ms=limits.HINT_MS)
        # Who is in another container, or of another version, rings nobody.
        return HintsCome(self._bell.fileno(), limits.HINT_MAX_MS)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = self._version = None
        if self._bell is not None:
            self._bell.close()
            self._bell = None

    @contextmanager
    def migrating(self) -> Iterator[Callable[[str], None]]:
        def run(script: str) -> None:
            for statement in _split(script):
                self._connect().execute(statement)

        with self.transaction() as session:
            tables = session.connection.execute("select name from sqlite_schema").fetchall()
            names = {row["name"] for row in tables}
            if names and "schema" not in names:
                raise BadSetting(
                    f"{self.path} is a SQLite file of something else (tables: "
                    f"{', '.join(sorted(names)[:5])}); nothing was written. Name another file"
                )
            yield run

    # -- how it connects and waits ------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._open is not None and _inode(self.path) != self._inode:
            # SQLite would go on for ever with a file that nobody else can see any more.
            self.close()
            raise Unavailable(
                f"the SQLite file {self.path}", "it was taken away, or another put in its place"
            )
        if self._open is None:
            with self._translated():
                self._inode = _inode(self.path)
                self._open = self._fresh()
        return self._open

    def _fresh(self) -> sqlite3.Connection:
        refuse_network_file_system(self.path)
        if not self.path.exists():
            raise Unavailable(f"the SQLite file {self.path}", "there is no such file")
        connection = sqlite3.connect(
            f"file:{_quoted(self.path)}?mode=rw", uri=True, timeout=0, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        connection.row_factory = _dict_row
        connection.create_function("now_ms", 0, self._env.clock.wall_ms)
        # SQLite's own waiting is unfair (a heartbeat waited 5 s behind six writers) and deaf to
        # signals, so it is off; ours is below.
        connection.execute("pragma busy_timeout = 0")
        mode = self._patiently(
            lambda: connection.execute("pragma journal_mode = wal").fetchone(),
            limits.SQLITE_BUSY_MS,
        )
        if mode["journal_mode"] != "wal":
            raise BadSetting(f"{self.path} cannot use SQLite's WAL here; choose a local folder")
        connection.execute("pragma synchronous = full")
        return connection

    def _patiently(self, act: Callable[[], T], wait_ms: int) -> T:
        """Do it, again and again while another writes, with jitter; bounded."""
        until = time.monotonic() + wait_ms / 1000
        while True:
            try:
                return act()
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
                if time.monotonic() > until:
                    raise Unavailable(f"the SQLite file {self.path}", self._who_holds()) from None
            time.sleep(random.uniform(0.0005, 0.003))

    def _who_holds(self) -> str:
        others = ", ".join(f"pid {pid} ({what})" for pid, what in self.blockers()) or "nobody seen"
        return f"another process holds its write lock: {others}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """The driver's errors as ours, by who must act."""
        try:
            yield
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
                raise Unstorable(str(error)) from error
            if isinstance(error, sqlite3.ProgrammingError):
                raise
            if "not a database" in str(error):
                raise BadSetting(f"{self.path} is no SQLite file; nothing was written") from error
            if "no such table" in str(error) or "no such column" in str(error):
                raise WrongTables(str(error)) from error
            raise Unavailable(f"the SQLite file {self.path}", _in_words(error)) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise Unstorable(str(error)) from error


def _inode(path: Path) -> tuple[int, int] | None:
    """Which file this is; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_network_file_system(path: Path) -> None:
    """WAL needs shared memory, which network file systems do not share. Raises BadSetting."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return
    real = str(path.resolve())
    best = ("", "")
    for line in mounts:
        point, kind = line.split()[1:3]
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    if best[1] in NETWORK_FILE_SYSTEMS:
        raise BadSetting(
            f"{path} is on a network file system ({best[1]}), where SQLite loses data; nothing was "
            "written. Use a local folder, or PostgreSQL"
        )


def lock_holders(path: Path) -> list[int]:
    """The processes that hold a write lock on the file or its WAL index (/proc/locks)."""
    inodes = set()
    for name in (path, Path(f"{path}-shm")):
        try:
            inodes.add(name.stat().st_ino)
        except OSError:
            continue
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return []
    found = set()
    for line in lines:
        fields = line.split()
        if "WRITE" in fields and fields[1] != "->":
            pid, place = int(fields[4]), fields[5]
            if int(place.rsplit(":", 1)[1]) in inodes and pid > 0:
                found.add(pid)
    return sorted(found)


def _in_words(error: sqlite3.Error) -> str:
    if "malformed" in str(error):
        return (
            f"{error}: the file is damaged. Stop its workers, keep a copy, and restore a backup "
            "(sqlite3's .recover saves what can be read)"
        )
    if "readonly" in str(error):
        return f"{error}: its folder or file system may only be read here"
    return str(error)


def _dict_row(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return next(iter(connection.execute(f"pragma {name}").fetchone().values()))


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def _quoted(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "this machine"


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()[:80]
    except OSError:
        return "gone"


def _split(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.strip().startswith("--")]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]
