"""The balancer before the workers of a peer: who is healthy is called, in turn; others are not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from draintest.peers.balancer import HEALTH, Balancer


class Workers:
    """Workers that answer for their health, and tell their name to all who come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()

    def frozen(self, name: str) -> socket.socket:
        """One whose socket takes connections, as the kernel does for it, and who says nothing."""
        listener = self._open.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(self._folder / f"{name}.sock"))
        listener.listen()
        return listener

    def healthy(self, name: str) -> None:
        listener = self.frozen(name)
        threading.Thread(target=self._answer, args=(listener, name), daemon=True).start()

    def dead(self, name: str) -> None:
        """One that left its socket behind."""
        self.frozen(name).close()

    def close(self) -> None:
        self._open.close()

    def _answer(self, listener: socket.socket, name: str) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                asked = client.recv(4096) == HEALTH
                client.sendall(b"HTTP/1.1 200 \r\n\r\n" if asked else name.encode())


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    made = Workers(tmp_path)
    yield made
    made.close()


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Balancer]:
    made = Balancer(tmp_path)
    yield made
    made.close()


def called(balancer: Balancer) -> str:
    """Who answers a new connection; "" if it is closed."""
    place = urlsplit(balancer.url)
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=5) as end:
        try:
            end.sendall(b"who")
            return end.recv(4096).decode()
        except ConnectionError:
            return ""


def test_healthy_workers_are_called_in_turn(workers: Workers, balancer: Balancer) -> None:
    workers.healthy("a")
    workers.healthy("b")
    assert sorted(called(balancer) for _ in range(4)) == ["a", "a", "b", "b"]


def test_nobody_is_sent_to_a_frozen_or_a_dead_worker(workers: Workers, balancer: Balancer) -> None:
    workers.frozen("a")
    workers.dead("b")
    assert called(balancer) == ""
    workers.healthy("c")
    assert [called(balancer) for _ in range(3)] == ["c", "c", "c"]
