"""A worker that dies before or after the n-th commit of a kind. Run as a program.

`DB GO_PATH [before|after KIND NTH]`: waits for the file, then works. Every commit that writes is
named on stdout by what it writes. Nothing in the product knows of this: the seam to the database
is wrapped when it is opened.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outlast.store import open as opening
from outlast.store.database import Call, Database, Row, Session
from outlast.store.statements import texts
from outlast.worker.worker import run
from tests.faults.errands import app
from tests.support.waiting import until

TTL_MS = int(os.environ.get("ERRANDS_TTL_MS", "600"))
POLL_MS = 100
GRACE_MS = 3_000
# What carries events, one or several, and the parameter that has them.
APPENDS = {"append": None, "append_all": "offers", "first_events": "events"}
WRITING = {n for n, text in texts().items() if re.search(r"\b(insert|update|delete)\b", text)}


class Fate:
    """Names every commit, and kills this process at the one that was told."""

    def __init__(self, moment: str = "", kind: str = "", nth: int = 0) -> None:
        self.moment, self.kind, self.nth = moment, kind, nth
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def at(self, kind: str) -> Iterator[None]:
        """Around one commit."""
        with self._lock:
            self._seen[kind] += 1
            nth = self._seen[kind]
            print(f"commit {kind} {nth}", flush=True)
        fatal = (kind, nth) == (self.kind, self.nth)
        if fatal and self.moment == "before":
            die()
        yield
        if fatal and self.moment == "after":
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kinds(name: str, params: dict[str, Any]) -> list[str]:
    """The kinds of the events that a statement writes."""
    several = APPENDS[name]
    events = [params] if several is None else json.loads(params[several])
    return [event["kind"] for event in events]


class WatchedSession:
    """A transaction that remembers what it wrote."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.events: list[str] = []
        self.statements: list[str] = []

    def run(self, name: str, /, **params: Any) -> list[Row]:
        return self.send([(name, params)])[0]

    def send(self, calls: Sequence[Call]) -> list[list[Row]]:
        answers = self._session.send(calls)
        for (name, params), rows in zip(calls, answers, strict=True):
            if name in APPENDS:
                self.events += kinds(name, params) if rows else []
            elif name in WRITING and name not in self.statements:
                self.statements.append(name)
        return answers

    def send_last(self, calls: Sequence[Call]) -> None:
        self.send(calls)  # the commit is seen where all others are

    @property
    def kind(self) -> str:
        """What the commit is called: its events, or the statements that wrote where it has none."""
        return "+".join(self.events or sorted(self.statements))

    @property
    def connection(self) -> Any:
        return self._session.connection


class MortalDatabase:
    """A database whose commits are watched by fate."""

    def __init__(self, database: Database, fate: Fate) -> None:
        self._database, self._fate = database, fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def transaction(self, **options: Any) -> Iterator[WatchedSession]:
        with self._database.transaction(**options) as session:
            watched = WatchedSession(session)
            yield watched
            if not watched.kind:
                return
            commit = self._fate.at(watched.kind)
            commit.__enter__()  # the commit itself is what the outer `with` does on leaving
        commit.__exit__(None, None, None)

    def once(self, name: str, /, **params: Any) -> list[Row]:
        if name not in WRITING:
            return self._database.once(name, **params)
        with self._fate.at("+".join(kinds(name, params)) if name in APPENDS else name):
            return self._database.once(name, **params)


def main(db: str, go_path: str, moment: str = "", kind: str = "", nth: str = "0") -> int:
    fate = Fate(moment, kind, int(nth))
    whole = opening.open_database

    def mortal(*words: Any, **options: Any) -> tuple[Database, str]:
        database, schema = whole(*words, **options)
        return MortalDatabase(database, fate), schema

    opening.open_database = mortal
    print("ready", flush=True)
    until(Path(go_path).exists, "somebody to let it go", timeout_s=120)
    return run(app, db=db, ttl_ms=TTL_MS, poll_ms=POLL_MS, grace_ms=GRACE_MS, on_event=tell)


def tell(kind: str, facts: dict[str, Any]) -> None:
    print(f"told {kind} {facts}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
