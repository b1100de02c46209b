"""A network namespace for a worker, whose packets to the database can be dropped; needs root.

A proxy in user land acknowledges what it swallows, so that TCP itself notices nothing. Here the
kernel drops the packets: nothing is acknowledged, and timeouts of TCP are put to the test too.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import threading
from dataclasses import dataclass

from .target import CannotSay
from .workplace import Workplace

NAME = "draintest"
HERE, THERE = "10.231.77.1", "10.231.77.2"
TABLE = "draintest"
# Where Debian keeps both programs, which is not on everybody's path.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
# Which chain of the worker's namespace drops what: all that it sends, or all that it is sent.
WAYS = {"drop": ("output", "ip daddr {here} tcp dport {port}"),
        "drop-answers": ("input", "ip saddr {here} tcp sport {port}")}  # fmt: skip


@functools.cache
def can_drop() -> bool:
    """Whether this process may make namespaces and rules: it is tried."""
    if os.geteuid() != 0 or not all(shutil.which(name, path=PATH) for name in ("ip", "nft")):
        return False
    probe = f"{NAME}-probe-{os.getpid()}"
    made = not _try("ip", "netns", "add", probe)
    ruled = made and not _try("ip", "netns", "exec", probe, "nft", "add", "table", "inet", TABLE)
    _try("ip", "netns", "delete", probe)
    return ruled


class Namespace:
    """One namespace with a way to this one, and rules that drop packets to a port of ours."""

    def __init__(self, workplace: Workplace, port: int) -> None:
        workplace.answer_for_namespace(NAME)
        self._port, self._relays = port, [Relay(HERE, port)]
        _run("ip", "netns", "add", NAME)
        _run("ip", "link", "add", "dt-here", "type", "veth", "peer", "name", "dt-there")
        _run("ip", "link", "set", "dt-there", "netns", NAME)
        _run("ip", "addr", "add", f"{HERE}/30", "dev", "dt-here")
        _run("ip", "link", "set", "dt-here", "up")
        _run(*self.words, "ip", "addr", "add", f"{THERE}/30", "dev", "dt-there")
        _run(*self.words, "ip", "link", "set", "dt-there", "up")
        _run(*self.words, "ip", "link", "set", "lo", "up")
        for relay in self._relays:
            relay.start()

    @property
    def words(self) -> tuple[str, ...]:
        """What to put before a command to run it there; the process is the command's own."""
        return (shutil.which("ip", path=PATH) or "ip", "netns", "exec", NAME)

    def relay(self, port: int) -> None:
        """Let it reach another port of ours, too, by the same number."""
        relay = Relay(HERE, port)
        relay.start()
        self._relays.append(relay)

    def drop(self, way: str) -> None:
        """From now on the kernel drops packets. `way`: drop, drop-answers."""
        hook, match = WAYS[way]
        rule = match.format(here=HERE, port=self._port)
        _run(*self.words, "nft", "add", "table", "inet", TABLE)
        chain = f"{{ type filter hook {hook} priority 0; }}"
        _run(*self.words, "nft", "add", "chain", "inet", TABLE, "drops", chain)
        _run(*self.words, "nft", "add", "rule", "inet", TABLE, "drops", f"{rule} counter drop")

    def heal(self) -> int:
        """Take the rules away; how many packets they had dropped."""
        told = json.loads(_run(*self.words, "nft", "-j", "list", "table", "inet", TABLE))
        _run(*self.words, "nft", "delete", "table", "inet", TABLE)
        expressions = [e for part in told["nftables"] for e in part.get("rule", {}).get("expr", ())]
        return sum(e["counter"]["packets"] for e in expressions if "counter" in e)

    def close(self) -> None:
        for relay in self._relays:
            relay.close()
        remove(NAME)


@dataclass
class Relay:
    """Hands connections to an address of the veth on to the same port of loopback."""

    address: str
    port: int

    def start(self) -> None:
        self._listener = socket.create_server((self.address, self.port))
        threading.Thread(target=self._accept, daemon=True, name="relay").start()

    def close(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(AttributeError):
            self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
                other = socket.create_connection(("127.0.0.1", self.port), timeout=5)
                other.settimeout(None)
            except OSError:
                if self._listener.fileno() < 0:
                    return
                continue
            for source, sink in ((end, other), (other, end)):
                threading.Thread(target=_pump, args=[source, sink], daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65_536):
            sink.sendall(chunk)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
            end.close()


def remove(name: str) -> bool:
    """Delete a namespace of ours, and with it the veth and the rules; False if there is none."""
    return not _try("ip", "netns", "delete", name)


def _run(*words: str) -> str:
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "PATH": PATH},
    )
    if done.returncode:
        raise CannotSay(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def _try(*words: str) -> str:
    """What is said against it; "" if it was done."""
    try:
        _run(*words)
    except (CannotSay, OSError) as error:
        return str(error) or "failed"
    return ""
