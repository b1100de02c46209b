"""The wire and the small disk: what they do to bytes, and that it is undone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from draintest.disks import SmallDisk, can_mount
from draintest.wire import Wire
from draintest.workplace import Workplace
from tests.support import programs
from tests.support.waiting import until


class Echo:
    """A server that keeps what it is sent, and sends it back."""

    def __init__(self) -> None:
        self.heard = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[end], daemon=True).start()

    def _answer(self, end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            while chunk := end.recv(4096):
                self.heard += chunk
                end.sendall(chunk)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def wire(echo: Echo) -> Iterator[Wire]:
    wire = Wire("127.0.0.1", echo.port)
    yield wire
    wire.close()


@pytest.fixture
def end(wire: Wire) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", wire.port), timeout=10) as end:
        yield end


def test_one_way_what_is_sent_arrives_and_what_is_answered_does_not(
    echo: Echo, wire: Wire, end: socket.socket
) -> None:
    wire.set("one-way")
    end.sendall(b"asked")
    until(lambda: wire.lost_bytes == len(b"asked"), "the answer to be lost")
    assert echo.heard == b"asked"
    # Whoever was robbed of an answer is cut off, and never gets the rest of the stream.
    wire.set("whole")
    with contextlib.suppress(ConnectionResetError):
        assert end.recv(4096) == b""


def test_slow_everything_arrives_and_each_message_was_held_up(
    echo: Echo, wire: Wire, end: socket.socket
) -> None:
    wire.set("slow")
    end.sendall(b"asked")
    assert end.recv(4096) == b"asked"
    assert (wire.delayed, wire.lost_bytes) == (2, 0)


def test_what_falls_into_a_black_hole_is_counted(
    echo: Echo, wire: Wire, end: socket.socket
) -> None:
    wire.set("blackhole")
    end.sendall(b"asked")
    until(lambda: wire.lost_bytes == len(b"asked"), "the request to be lost")
    assert echo.heard == b""


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    if not can_mount():
        programs.missing("the right to mount a disk")
    workplace = Workplace(tmp_path)
    yield workplace
    workplace.close()


def test_a_small_disk_is_filled_to_the_last_byte_and_has_room_again(workplace: Workplace) -> None:
    folder = workplace.new_folder("disk")
    disk = SmallDisk(folder, workplace, megabytes=1)
    try:
        (folder / "store").write_bytes(b"kept")
        assert disk.fill() == {"free_blocks": 0, "write_refused": "No space left on device"}
        with pytest.raises(OSError, match="No space left"):
            (folder / "more").write_bytes(b"x" * 4096)
        disk.make_room()
        (folder / "more").write_bytes(b"x" * 4096)
        assert (folder / "store").read_bytes() == b"kept"
    finally:
        disk.close()
    assert list(folder.iterdir()) == []


def test_what_a_broken_off_run_has_mounted_is_taken_away_with_its_folder(
    workplace: Workplace,
) -> None:
    folder = workplace.new_folder("disk")
    SmallDisk(folder, workplace, megabytes=1)
    workplace.close()
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mounts").read_text()


def test_the_disk_of_a_killed_run_is_taken_away_by_the_next(
    workplace: Workplace, tmp_path: Path
) -> None:
    folder = workplace.new_folder("disk")
    SmallDisk(folder, workplace, megabytes=1)
    (workplace.folder / "owner").write_text("1 1")
    assert f"disk {folder}" in Workplace(tmp_path).swept
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mounts").read_text()
