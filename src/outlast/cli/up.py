"""`outlast up`: a worker and the server in one go, for one machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from types import FrameType

import click

from .options import Session, common
from .serve import PORT, need_server_extra

OUTLAST = (sys.executable, "-c", "import sys; from outlast.cli.main import run; sys.exit(run())")
LOOK_S = 0.1


@click.command("up", context_settings={"ignore_unknown_options": True})
@click.argument("app")
@click.argument("worker_flags", nargs=-1, type=click.UNPROCESSED)
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True)
@common
def up(session: Session, app: str, worker_flags: tuple[str, ...], port: int) -> int:
    """Run the agents of APP, and serve their store at http://127.0.0.1:PORT, until Ctrl-C.

    Other flags are the worker's. Ctrl-C or SIGTERM drains: the server answers until the worker has
    handed over. The exit code is the worker's.
    """
    need_server_extra()
    # Whatever is wrong with the store is a line now, and not two.
    session.ask(lambda store: store.now_ms(), create=True)
    session.close()
    told = _Told()
    # By the environment: an address may hold a password, and anybody reads the words of a command.
    environ = {**os.environ, "OUTLAST_DB": session.db}
    environ.pop("OUTLAST_DB_FILE", None)
    server = _start(environ, "serve", "--port", str(port))
    worker = told.worker = _start(environ, "worker", app, *worker_flags)
    told.pass_on()
    while worker.poll() is None and server.poll() is None:
        time.sleep(LOOK_S)
    if worker.poll() is None:
        session.output.warn(f"the server has ended with {server.returncode}; the worker drains")
        worker.send_signal(signal.SIGTERM)
        return worker.wait() or max(1, server.returncode)
    server.send_signal(signal.SIGTERM)
    server.wait()
    return max(0, worker.returncode)


def _start(environ: Mapping[str, str], *words: str) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C is ours to pass on, and the server must outlive the worker.
    return subprocess.Popen([*OUTLAST, *words], env=environ, start_new_session=True)


class _Told:
    """What we are told is passed on to the worker, from before there is one; a hang-up drains."""

    def __init__(self) -> None:
        self.worker: subprocess.Popen[bytes] | None = None
        self._heard: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._hear)

    def pass_on(self) -> None:
        while self._heard and self.worker is not None and self.worker.poll() is None:
            number = self._heard.pop(0)
            self.worker.send_signal(signal.SIGTERM if number == signal.SIGHUP else number)

    def _hear(self, number: int, _: FrameType | None) -> None:
        self._heard.append(number)
        self.pass_on()
