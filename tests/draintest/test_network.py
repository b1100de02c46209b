"""A worker's own network: its packets are dropped by the kernel, counted, and it is taken away.

One test, since the namespace has one name on this machine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from draintest.network import HERE, NAME, Namespace, can_drop
from draintest.workplace import Workplace
from tests.draintest.test_second_plane import Echo
from tests.support import programs

TALK = """
import socket, sys
with socket.create_connection(("{host}", {port}), timeout=2) as end:
    end.settimeout(2)
    end.sendall(b"asked")
    sys.stdout.write(end.recv(100).decode())
"""


def test_packets_are_dropped_each_way_and_the_network_of_a_killed_run_is_removed(
    tmp_path: Path,
) -> None:
    if not can_drop():
        programs.missing("the right to make network namespaces and nft rules")
    echo, workplace = Echo(), Workplace(tmp_path)
    network = Namespace(workplace, echo.port)

    def talk() -> tuple[str, str]:
        code = TALK.format(host=HERE, port=echo.port)
        command = [*network.words, sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout, done.stderr

    try:
        assert talk() == ("asked", "")
        for way in ("drop", "drop-answers"):
            network.drop(way)
            said, errors = talk()
            assert said == ""
            assert "TimeoutError" in errors or "timed out" in errors
            assert network.heal() > 0
            assert talk() == ("asked", "")

        for relay in network._relays:
            relay.close()
        (workplace.folder / "owner").write_text("1 1")
        assert f"network {NAME}" in Workplace(tmp_path).swept
    finally:
        network.close()
        echo.close()
    assert (
        NAME not in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.split()
    )
