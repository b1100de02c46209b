"""A Redis of our own for one run: one numbered database a scenario."""

from __future__ import annotations

import itertools
import shutil
import socket

from ..target import CannotSay
from ..waiting import until
from ..workplace import Workplace
from .daemon import Daemon, free_ports

START_S = 20.0
DATABASES = 4096


class Redis:
    """`redis-server`, as Debian packages it, with every write synced."""

    def __init__(self, workplace: Workplace) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise CannotSay("the peer needs redis-server (Debian: redis-server), which is not here")
        folder = workplace.new_folder("redis")
        (self._port,) = free_ports(1)
        command = [program, "--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(folder)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        command += ["--databases", str(DATABASES)]
        self._daemon = Daemon(command, folder, workplace)
        if not until(lambda: self._ask("PING") == "+PONG", START_S):
            raise CannotSay("redis-server did not start")
        self._numbers: dict[str, int] = {}
        self._next = itertools.count()

    def url(self, name: str) -> str:
        number = self._numbers.setdefault(name, next(self._next))
        return f"redis://127.0.0.1:{self._port}/{number}"

    def make(self, name: str) -> None:
        self.drop(name)

    def has(self, name: str) -> bool:
        return self._in(name, "DBSIZE") != ":0"

    def drop(self, name: str) -> None:
        self._in(name, "FLUSHDB")

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def close(self) -> None:
        self._daemon.close()

    def _in(self, name: str, command: str) -> str:
        self.url(name)
        return self._ask(f"SELECT {self._numbers[name]}", command)

    def _ask(self, *commands: str) -> str:
        """The last line of the answers; "" if nobody answers."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as end:
                for command in commands:
                    end.sendall(command.encode() + b"\r\n")
                    said = end.recv(4096).decode().strip()
        except OSError:
            return ""
        return said
