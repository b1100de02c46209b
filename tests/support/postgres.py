"""A real PostgreSQL server that a test may stop, kill, freeze and start again."""

import itertools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import psycopg
from psycopg import sql

from tests.support import leftovers
from tests.support.postgres_release import Release
from tests.support.waiting import POLL_S, until

START_S = 30.0
STOP_S = 15.0
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
# A start is tried again for these: the children of a killed postmaster are still going.
NOT_YET = ("lock file", "pre-existing shared memory block", "still in use")

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "synchronous_commit": "on",
    # In the data folder, not in /dev/shm: removed with it after a kill -9.
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
}
# For a server that only answers questions and never dies in the middle of one.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}

END_OTHERS = """
select pg_terminate_backend(pid, 5000)
  from pg_stat_activity
 where datname = current_database()
   and pid <> pg_backend_pid()
   and backend_type = 'client backend'
"""
DROP_SCHEMAS = """
do $$
declare name text;
begin
    for name in select nspname from pg_namespace where nspname !~ '^(pg_|information_schema)' loop
        execute format('drop schema %I cascade', name);
    end loop;
end $$
"""
LIKE_NEW = """
create schema public authorization pg_database_owner;
 grant usage on schema public to public
"""


class PostgresServer:
    """One server on a loopback port of its own, started at once; user `postgres`, no password.

    `durable=False` turns fsync off: right where nothing kills the server. `environment` is added
    to the server's, to step its clock for instance.
    """

    def __init__(
        self,
        release: Release,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.release = release
        self.folder = release.new_cluster()
        self.log_path = self.folder / "log"
        self.port = free_port()
        self._settings = {**SETTINGS, **({} if durable else NOT_DURABLE), **(settings or {})}
        self._environment = {**release.environment, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)
        self._empty: list[str] = []
        self.start()

    # Databases

    def url(self, database: str = "postgres") -> str:
        """The address of `database` on this server."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """Make an empty database, or a copy of `template`; returns its address."""
        name = name or f"test_{next(self._names)}"
        self._administer("create database {} template {}", name, template)
        return self.url(name)

    def drop_database(self, url_or_name: str) -> None:
        """Drop a database, ending whatever is connected to it; one that is gone is no error."""
        self._administer("drop database if exists {} with (force)", database_name(url_or_name))

    def borrow_database(self) -> str:
        """The address of an empty database, to be returned: ten times cheaper than a new one."""
        return self._empty.pop() if self._empty else self.create_database()

    def return_database(self, url: str) -> None:
        """End whatever is connected to a borrowed database, empty it, and keep it for the next."""
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            connection.execute(END_OTHERS)
            connection.execute(DROP_SCHEMAS)
            connection.execute(LIKE_NEW)
        self._administer("alter database {} reset all", database_name(url))
        self._empty.append(url)

    def run(self, statement: str, *, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement outside of any transaction; returns its rows, if it has some."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _administer(self, statement: str, *names: str) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=5) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    # Life and death

    @property
    def pid(self) -> int:
        """The process id of the postmaster; raises if it does not run."""
        if self._process is None:
            raise RuntimeError("this server does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and return when connections are accepted.

        Tried again while the children of a killed postmaster are still there, and on another
        port if somebody took this one before it was ever used.
        """
        assert not self.running, "this server runs already"
        deadline = time.monotonic() + START_S
        while (complaint := self._try_to_start()) is not None:
            if time.monotonic() > deadline or not self._worth_another_try(complaint):
                raise RuntimeError(f"PostgreSQL {self.release.name} did not start:\n{complaint}")
            time.sleep(POLL_S)

    def stop(self, mode: str = "fast") -> None:
        """Stop in order: `smart` waits for clients, `fast` ends them, `immediate` is a crash."""
        self._end(STOP_SIGNALS[mode])

    def kill9(self) -> None:
        """Kill the postmaster; its children notice and go by themselves a moment later."""
        self._end(signal.SIGKILL)

    def restart(self, mode: str = "fast") -> None:
        """Stop if it runs, then start on the same port with the same data."""
        if self.running:
            self.stop(mode)
        self.start()

    def freeze(self) -> None:
        """Stop every process of the server in its tracks: connections stay, nothing answers."""
        for pid in [self.pid, *leftovers.descendants(self.pid)]:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        for pid in [*leftovers.descendants(self.pid), self.pid]:
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End the server, however it stands, and remove its files."""
        if self.running:
            leftovers.end(self.pid, leftovers.born(self.pid), polite=signal.SIGQUIT)
            self._forget()
        leftovers.remove_folder(self.folder)

    def __enter__(self) -> "PostgresServer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _try_to_start(self) -> str | None:
        """Start once; returns None when ready, or what the server said before it ended."""
        log_before = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            process = self._process = self.release.account.start(
                self.release.programs / "postgres",
                "-D",
                "data",
                *self._options(),
                folder=self.folder,
                output=log,
                environment=self._environment,
            )
        self.release.keeper.adopt(process.pid, polite=signal.SIGQUIT)
        until(
            lambda: self._is_ready() or process.poll() is not None,
            "PostgreSQL to accept connections",
            timeout_s=START_S,
            detail=self.log_path.read_text,
        )
        if process.poll() is None:
            return None
        self._process = None
        return self.log_path.read_bytes()[log_before:].decode(errors="replace")

    def _options(self) -> list[str]:
        settings = {**self._settings, "port": str(self.port)}
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def _is_ready(self) -> bool:
        """True once the lock file names our process and says `ready`."""
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _worth_another_try(self, complaint: str) -> bool:
        if "Address already in use" in complaint and "database system is ready" not in (
            self.log_path.read_text()
        ):
            self.port = free_port()
            return True
        return any(words in complaint for words in NOT_YET)

    def _end(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)
        assert self._process is not None
        self._process.wait(timeout=STOP_S)
        self._process = None

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait(timeout=STOP_S)
            self._process = None


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def database_name(url_or_name: str) -> str:
    """`name` from `postgresql://.../name?...`, or the name itself."""
    return url_or_name.rpartition("/")[2].partition("?")[0]


def log_of(server: PostgresServer) -> str:
    """Everything the server has said so far."""
    return Path(server.log_path).read_text(errors="replace")
