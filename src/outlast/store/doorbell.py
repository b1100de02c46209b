"""Doorbells between the processes of one machine: SQLite has no NOTIFY, and polling is slow.

A worker binds a datagram socket under its own id, in Linux's abstract namespace: there is no file,
and it is gone with the process. Whoever makes a task ready rings all active workers; a ring that is
lost costs the rest of a poll.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from contextlib import suppress

RING = b"!"


class Doorbell:
    """Listens under a name until it is closed."""

    def __init__(self, name: str) -> None:
        """Raises OSError where there are no such sockets, or another has the name."""
        if sys.platform != "linux":
            raise OSError("abstract sockets are Linux's")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(_address(name))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def rung(self) -> bool:
        """Whether it was, since this was asked last."""
        rung = False
        with suppress(BlockingIOError):
            while self._socket.recv(1):
                rung = True
        return rung

    def close(self) -> None:
        self._socket.close()


def ring(names: Iterable[str]) -> None:
    """Ring them all; nobody is waited for, and who is not there is no error."""
    if sys.platform != "linux":
        return
    # What was to be told of is committed: no descriptor to be had must not look like a failure.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.setblocking(False)
        for name in names:
            with suppress(OSError):
                bell.sendto(RING, _address(name))


def _address(name: str) -> bytes:
    return b"\0outlast/" + name.encode()
