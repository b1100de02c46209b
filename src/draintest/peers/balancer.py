"""A load balancer before the workers of one scenario: connections go to whoever is healthy."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from pathlib import Path

HEALTH_S = 0.5
CHUNK = 65_536
HEALTH = b"GET /health HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n"


class Balancer:
    """One port for all workers of a folder, each of them a Unix socket there.

    Each new connection goes to the next in turn that answers for its health. What becomes of it
    then is the affair of its two ends, as behind any balancer of connections: one whose worker is
    frozen stays, until whoever called has enough of it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turns = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True, name="balancer").start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits in `accept`
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        """Connect it to a worker, and carry both ways until both are done."""
        worker = self._next()
        if worker is None:
            client.close()
            return
        with client, worker:
            back = threading.Thread(target=_carry, args=(worker, client), daemon=True)
            back.start()
            _carry(client, worker)
            back.join()

    def _next(self) -> socket.socket | None:
        workers = sorted(self._folder.glob("*.sock"))
        turn = next(self._turns) % max(len(workers), 1)
        for path in (*workers[turn:], *workers[:turn]):
            if _is_healthy(path):
                with contextlib.suppress(OSError):
                    return _connected(path)
        return None


def _is_healthy(path: Path) -> bool:
    try:
        with _connected(path, HEALTH_S) as probe:
            probe.sendall(HEALTH)
            return b" 200 " in probe.recv(CHUNK)
    except OSError:
        return False


def _connected(path: Path, timeout_s: float | None = None) -> socket.socket:
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(timeout_s)
    try:
        end.connect(str(path))
    except OSError:
        end.close()
        raise
    return end


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
