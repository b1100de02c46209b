"""What every command has: where the store is, how to print, how long to try."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from ..core.clock import Env
from ..core.durations import duration_ms
from ..core.errors import BadSetting, OutlastError, Unavailable
from ..settings import Settings
from ..store.verbs import Order, Store
from .output import FORMS, Output

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])
PAUSE_S = 0.5


class TimedOut(OutlastError):
    """The time given with --timeout or --wait is up; what was asked for goes on."""

    exit_code = 124


class NoStoreYet(OutlastError):
    """The SQLite file that is named does not exist."""

    exit_code = 69

    def __init__(self, db: str) -> None:
        super().__init__(
            f"there is no store at {db} yet; nothing was read or written. `outlast submit` and "
            "`outlast worker` make one; or name another with --db or OUTLAST_DB"
        )


class Session:
    """One run of a command: its settings, its output, and the store when it is asked for."""

    def __init__(
        self,
        db: str | None,
        output: str | None,
        as_json: bool,
        timeout: str | None,
        env: Env | None = None,
    ) -> None:
        self.settings = Settings()
        self.env = env or Env()
        self._db = db
        form = "json" if as_json else self.settings.text("output", output)
        if form not in FORMS:
            raise BadSetting(
                f"output: {form!r:.40} is none of {', '.join(FORMS)}; nothing was done"
            )
        self.output = Output(form)
        self.timeout_ms = None if timeout is None else duration_ms(timeout, "--timeout")
        self._opened: Store | None = None
        self._started_ms = self.env.clock.monotonic_ms()

    @property
    def db(self) -> str:
        return self.settings.db(self._db)

    def ask(
        self, request: Callable[[Store], Answer], *, again: bool = True, create: bool = False
    ) -> Answer:
        """The store's answer; while it is away, asked again until --timeout where `again` allows.

        `create`: make a SQLite file that is not there yet. Raises what the verb raises.
        """
        while True:
            try:
                return request(self._store(create))
            except Unavailable:
                self.close()
                left_ms = self.left_ms(self.timeout_ms)
                if not again or left_ms is None or left_ms <= 0:
                    raise
                time.sleep(min(PAUSE_S, left_ms / 1000))

    def left_ms(self, limit_ms: int | None) -> int | None:
        """What is left of a limit that began with the command; None: there is no limit."""
        if limit_ms is None:
            return None
        return limit_ms - (self.env.clock.monotonic_ms() - self._started_ms)

    def order(self, why: str, by: str | None) -> Order:
        return Order(self.by(by), why)

    def by(self, flag: str | None) -> str:
        from ..store.submission import whoami

        return self.settings.text("by", flag) or whoami()

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _store(self, create: bool) -> Store:
        if self._opened is None:
            from ..store.open import open_store, sqlite_path

            db = self.db
            in_file = db.startswith("sqlite:")
            if in_file and not create and not sqlite_path(db).exists():
                raise NoStoreYet(db)
            self._opened = open_store(db, env=self.env, create=create and in_file)
        return self._opened


def common(command: Command) -> Command:
    """Add --db, -o, --json and --timeout; the command's first argument is its Session."""

    @functools.wraps(command)
    def with_session(
        *args: Any,
        db: str | None,
        output: str | None,
        as_json: bool,
        timeout: str | None,
        **named: Any,
    ) -> Any:
        session = Session(db, output, as_json, timeout, click.get_current_context().obj)
        try:
            return command(session, *args, **named)
        finally:
            session.close()

    wrapped: Any = with_session
    for option in reversed(_COMMON):
        wrapped = option(wrapped)
    changed: Command = wrapped
    return changed


_COMMON = [
    click.option(
        "--db", metavar="URL", help="The store: sqlite:PATH or postgresql://... [OUTLAST_DB]"
    ),
    click.option("-o", "--output", metavar="FORM", help=f"{', '.join(FORMS)}."),
    click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
    click.option(
        "--timeout", metavar="TIME", help="How long to wait, or to try a store that is away."
    ),
]
by_option = click.option("--by", metavar="WHO", help="Who gives the order; user@host by default.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be done; do nothing.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirm(consequence: str, yes: bool) -> None:
    """Ask before something that cannot be taken back; without a terminal, refuse.

    Raises BadSetting where nobody can be asked, click.Abort where the answer is no.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadSetting(
            f"{consequence}. There is no terminal to ask on, so nothing was done; add --yes"
        )
    click.confirm(f"{consequence}. Go on?", abort=True, err=True)


@contextmanager
def patience(session: Session, limit_ms: int | None) -> Iterator[Callable[[str], None]]:
    """A pause between two looks, that raises TimedOut with a sentence when the limit is over."""

    def pause(still: str) -> None:
        left_ms = session.left_ms(limit_ms)
        if left_ms is not None and left_ms <= 0:
            raise TimedOut(still)
        time.sleep(PAUSE_S if left_ms is None else min(PAUSE_S, left_ms / 1000))

    yield pause
