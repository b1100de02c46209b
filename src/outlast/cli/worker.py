"""`outlast worker`: run the agents of an app until told to leave."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from ..core.errors import BadSetting
from .options import Session, common
from .output import json_line

if TYPE_CHECKING:
    from ..worker.parent import Parent


LINES_MAX = 1_000
# After these the process may be gone in a moment.
LAST_WORDS = ("worker.ended", "worker.died")
LAST_WORDS_S = 0.2


@click.command("worker")
@click.argument("app")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="Q",
    help="A queue to take from; may be repeated. [OUTLAST_QUEUE]",
)
@click.option("--slots", type=int, metavar="N", help="Tasks at once. [OUTLAST_SLOTS]")
@click.option(
    "--ttl", metavar="TIME", help="How long a lease lasts without a heartbeat. [OUTLAST_TTL]"
)
@click.option("--grace", metavar="TIME", help="How long a drain may take. [OUTLAST_GRACE]")
@click.option("--poll", metavar="TIME", help="How often to look for tasks. [OUTLAST_POLL]")
@click.option("--build", metavar="ID", help="Which build of your code this is. [OUTLAST_BUILD]")
@click.option(
    "--supervisor/--no-supervisor",
    default=None,
    help="Work in a child process, seen to die and started again. [OUTLAST_SUPERVISOR]",
)
@common
def worker(
    session: Session,
    app: str,
    queues: tuple[str, ...],
    slots: int | None,
    ttl: str | None,
    grace: str | None,
    poll: str | None,
    build: str | None,
    supervisor: bool | None,
) -> int:
    """Run the agents of APP, which is MODULE:NAME, like `mine.agents:app`.

    SIGTERM or Ctrl-C hands every task over at its next step and leaves; a second one leaves at
    once. Exit code 75 when the grace was too short, 70 when it ended after losing its leases.

    The work is done by a child process. When that is killed, its tasks are free at once, and
    another takes its place.
    """
    settings = session.settings
    options: dict[str, Any] = {
        "db": session.db,
        "queues": settings.queues(queues),
        "slots": settings.count("slots", slots),
        "ttl_ms": settings.ttl_ms(ttl),
        "grace_ms": settings.duration_ms("grace", grace),
        "poll_ms": settings.duration_ms("poll", poll),
        "build": settings.text("build", build),
    }
    tell = _teller(session.output.form)
    from ..worker.worker import run

    def work(worker_id: str | None = None, parent: Parent | None = None) -> int:
        found = load_app(app)
        # Before there is a worker: a folder that cannot be written, or another schema, is a line.
        session.ask(lambda store: store.now_ms(), create=True)
        session.close()
        code = run(found, **options, env=session.env, on_event=tell, worker_id=worker_id,
                   parent=parent)  # fmt: skip
        if tell.waits:
            os._exit(code)  # an end in order would wait for the stream, too
        return code

    if not settings.switch("supervisor", supervisor):
        return work()
    from ..store.open import load_driver
    from ..worker.recorder import Recorder
    from ..worker.supervisor import supervise

    load_driver(session.db)
    recorder = Recorder(session.db, session.env, tell, options["ttl_ms"])
    return supervise(work, recorder, session.env)


def load_app(name: str) -> Any:
    """The App that MODULE:NAME means; raises BadSetting, saying which half is wrong."""
    from ..worker.app import App

    module_name, colon, attribute = name.partition(":")
    if not module_name or not colon or not attribute:
        raise BadSetting(
            f"{name!r} is not MODULE:NAME; nothing was started. Write it like mine.agents:app"
        )
    module = _import(module_name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, App):
        return found
    apps = [known for known, value in vars(module).items() if isinstance(value, App)]
    hint = f"; it has {', '.join(f'{module_name}:{a}' for a in apps)}" if apps else ""
    what = "has no" if found is None else f"has a {type(found).__name__}, not an outlast.App, as"
    raise BadSetting(f"the module {module_name!r} {what} {attribute!r}; nothing was started{hint}")


def _import(name: str) -> Any:
    # As `python -m` would: what lies in the current folder can be imported.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if missing == name or name.startswith(missing + "."):
            why = f"there is no module {missing!r} in {os.getcwd()} or on the path"
        else:
            why = f"it imports {missing!r}, which is not installed"
    except Exception as error:  # user code, at import: anything may be raised
        why = f"its import raised {_where(error)}"
    raise BadSetting(f"the module {name!r} cannot be loaded: {why}; nothing was started")


def _where(error: Exception) -> str:
    """The error, and the last line of the user's code that led to it."""
    import traceback

    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if len(frames) > 1 else ""
    if isinstance(error, SyntaxError):
        place = f" at {error.filename}:{error.lineno}"
    return f"{type(error).__name__}: {error}{place}"


def _teller(form: str) -> Any:
    """Tells what happens: lines for people on stderr, or one JSON object a line on stdout."""

    def for_people(kind: str, facts: dict[str, Any]) -> str:
        said = " ".join(f"{name}={_short(value)}" for name, value in facts.items())
        return f"{kind} {said}".rstrip() + "\n"

    def for_programs(kind: str, facts: dict[str, Any]) -> str:
        return json_line({"event": kind, **_plain(facts)}) + "\n"

    people = form in ("table", "wide", "name")
    return Telling(for_people if people else for_programs, sys.stderr if people else sys.stdout)


class Telling:
    """Writes lines on a thread of its own: who does not read them holds up no task.

    What finds no room is left out, and said to be. The last words are waited for, briefly.
    """

    def __init__(self, line: Callable[[str, dict[str, Any]], str], stream: TextIO) -> None:
        self._line, self._stream = line, stream
        self._lines: Queue[str] = Queue(LINES_MAX)
        self._left_out = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def __call__(self, kind: str, facts: dict[str, Any]) -> None:
        with self._lock:
            if self._thread is None:  # not before: the supervisor forks, and has no thread
                self._thread = threading.Thread(target=self._write, daemon=True)
                self._thread.start()
            try:
                if self._left_out:
                    self._lines.put_nowait(self._line("lines.left_out", {"count": self._left_out}))
                    self._left_out = 0
                self._lines.put_nowait(self._line(kind, facts))
            except Full:
                self._left_out += 1
        if kind in LAST_WORDS:
            self._wait()

    @property
    def waits(self) -> bool:
        """Whether there are lines that nobody has taken."""
        return self._lines.unfinished_tasks > 0

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            with suppress(OSError, ValueError, AttributeError):  # closed, or none at all
                self._stream.write(line)
                self._stream.flush()
            self._lines.task_done()

    def _wait(self) -> None:
        end_s = time.monotonic() + LAST_WORDS_S
        while self.waits and time.monotonic() < end_s:
            time.sleep(0.002)


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        if isinstance(value, str | int | float | bool | type(None))
        else msgspec.to_builtins(value, enc_hook=str)
        for name, value in facts.items()
    }


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 and " " not in text else repr(text[:200])
