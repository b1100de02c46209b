"""A Restate server of our own for one run: one service a scenario, behind a balancer of its own."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path

from ..target import CannotSay
from ..waiting import until
from ..workplace import Workplace
from .balancer import Balancer
from .daemon import Daemon, free_ports

START_S = 30.0
PROGRAM = "node_modules/@restatedev/restate-server-*/bin/restate-server"
# Of the lease, how much a worker may be silent before it is asked whether it lives. The rest is
# its time to answer, then its connection is closed; a busy machine needs the larger part for that.
SILENT = 1 / 4


class Restate:
    """`restate-server`, a single node with its defaults, but for how soon it misses a worker.

    `ttl_ms`: 0 for its default there, too.
    """

    def __init__(self, workplace: Workplace, home: Path, ttl_ms: int) -> None:
        program = next(home.glob(PROGRAM), None)
        if program is None:
            raise CannotSay(f"npm has no restate-server for this machine (none in {home})")
        self._folder = workplace.new_folder("restate")
        fabric, ingress, admin = free_ports(3)
        self._ingress, self._admin = (f"http://127.0.0.1:{port}" for port in (ingress, admin))
        settings = {
            "BASE_DIR": self._folder / "data",
            "NODE_NAME": "draintest",
            "LISTEN_MODE": "tcp",
            "BIND_IP": "127.0.0.1",
            "ADVERTISED_HOST": "127.0.0.1",
            "BIND_PORT": fabric,
            "INGRESS__BIND_PORT": ingress,
            "ADMIN__BIND_PORT": admin,
            "ADMIN__DISABLE_WEB_UI": "true",
            "DISABLE_TELEMETRY": "true",
        }
        if ttl_ms:
            keep_alive = "WORKER__INVOKER__HTTP2_KEEP_ALIVE"
            settings[f"{keep_alive}_INTERVAL"] = f"{ttl_ms * SILENT:.0f}ms"
            settings[f"{keep_alive}_TIMEOUT"] = f"{ttl_ms * (1 - SILENT):.0f}ms"
        environment = {f"RESTATE_{name}": str(value) for name, value in settings.items()}
        command = [str(program), "--no-logo"]
        told = {**os.environ, **environment, "DO_NOT_TRACK": "1"}
        self._daemon = Daemon(command, self._folder, workplace, told)
        self._balancers: dict[str, Balancer] = {}
        if not until(self._is_up, START_S):
            self.close()
            raise CannotSay("restate-server did not start")

    def url(self, name: str) -> str:
        """All that an adapter must know, as JSON."""
        if name not in self._balancers:
            self._workers(name).mkdir()
            self._balancers[name] = Balancer(self._workers(name))
        return json.dumps(
            {
                "service": name,
                "ingress": self._ingress,
                "admin": self._admin,
                "workers": str(self._workers(name)),
                "balancer": self._balancers[name].url,
            }
        )

    def make(self, name: str) -> None:
        """The adapter's `prepare` registers it: that takes a worker who says what it serves."""

    def has(self, name: str) -> bool:
        return _answers(f"{self._admin}/services/{name}")

    def drop(self, name: str) -> None:
        """What the adapter's `clean_up` has left: it knows the deployment."""
        self._balancers.pop(name).close()

    @property
    def pid(self) -> int:
        return self._daemon.pid

    def close(self) -> None:
        for balancer in self._balancers.values():
            balancer.close()
        self._daemon.close()

    def _workers(self, name: str) -> Path:
        return self._folder / name

    def _is_up(self) -> bool:
        ends = f"{self._admin}/health", f"{self._ingress}/restate/health"
        return all(map(_answers, ends))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
