"""`outlast up`: a worker and the server in one go, for one machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
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
    on = ("--db", session.db)
    server = _start("serve", "--port", str(port), *on)
    worker = _start("worker", app, *worker_flags, *on)
    _pass_on_signals(worker)
    while worker.poll() is None and server.poll() is None:
        time.sleep(LOOK_S)
    if worker.poll() is None:
        session.output.warn(f"the server has ended with {server.returncode}; the worker drains")
        worker.send_signal(signal.SIGTERM)
    code = worker.wait()
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    return server.wait() or code


def _start(*words: str) -> subprocess.Popen[bytes]:
    # In a session of its own: Ctrl-C is ours to pass on, and the server must outlive the worker.
    return subprocess.Popen([*OUTLAST, *words], start_new_session=True)


def _pass_on_signals(worker: subprocess.Popen[bytes]) -> None:
    def pass_on(number: int, _: FrameType | None) -> None:
        if worker.poll() is None:
            worker.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
