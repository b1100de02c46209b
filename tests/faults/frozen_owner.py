"""An owner that stops in its tracks inside a transaction. Run as a program.

`URL VERB STATEMENT MOMENT`: claims a task and calls the verb; the first time that the statement has
been run it stops itself (SIGSTOP), after the server's answer or, in mid-pipeline, before the
client has said that the pipeline ends. Woken, it goes on as any worker would: it sends the same
once more until it is answered.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from outlast.core.errors import Unavailable
from outlast.core.model import Answer
from outlast.store import sqlite
from outlast.store.database import Call, LockedOut, Row
from outlast.store.open import open_store
from outlast.store.postgres import PostgresSession
from tests.store import world

TTL_MS = 1_000
ANSWERED, MID_PIPELINE = "answered", "mid-pipeline"
TRIES = 20


class Freezer:
    """Stops this process once, when a statement of that name has been run."""

    def __init__(self, statement: str, moment: str) -> None:
        self.statement, self.moment = statement, moment
        self.armed = False

    def install(self) -> None:
        PostgresSession.send = self._sending(PostgresSession.send)  # type: ignore[method-assign]
        sqlite.SqliteSession.run = self._running(sqlite.SqliteSession.run)  # type: ignore[method-assign]

    def freeze(self) -> None:
        self.armed = False
        print("freezing", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        print("thawed", flush=True)

    def _sending(self, send: Callable[..., list[list[Row]]]) -> Callable[..., list[list[Row]]]:
        def sending(session: PostgresSession, calls: Sequence[Call]) -> list[list[Row]]:
            hit = self.armed and any(name == self.statement for name, _ in calls)
            if not hit:
                return send(session, calls)
            if self.moment == ANSWERED:
                rows = send(session, calls)
                self.freeze()
                return rows
            # Inside the outer pipeline the inner one does not end with a Sync of its own.
            with session.connection.pipeline():
                opening, session._opening = session._opening, []
                for text in opening:
                    session.connection.execute(text)
                cursors = [
                    session.connection.execute(session._statements[name], params)
                    for name, params in calls
                ]
                session.connection.pgconn.send_flush_request()
                session.connection.pgconn.flush()
                self.freeze()
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

        return sending

    def _running(self, run: Callable[..., list[Row]]) -> Callable[..., list[Row]]:
        def running(session: sqlite.SqliteSession, name: str, /, **params: Any) -> list[Row]:
            rows = run(session, name, **params)
            if self.armed and name == self.statement:
                self.freeze()
            return rows

        return running


def main(url: str, verb: str, statement: str, moment: str) -> None:
    freezer = Freezer(statement, moment)
    freezer.install()
    store = open_store(url, ttl_ms=TTL_MS)
    owner = world.claim(store, "frozen", ttl_ms=TTL_MS)
    assert owner.step("before")
    freezer.armed = True
    if verb == "renew":
        say("renewed", until_answered(lambda: owner.renew().state))
    elif verb == "release":
        offer = owner.offer(owner.releasing("drain"))
        say("answered", until_answered(lambda: owner.send(offer)))
    else:
        offer = owner.offer(("effect.intended", owner.intent("pay")))
        say("answered", until_answered(lambda: owner.send(offer)))
    say("late note", until_answered(owner.note))


def until_answered(ask: Callable[[], Answer | str]) -> Answer | str:
    for _ in range(TRIES):
        try:
            return ask()
        except (Unavailable, LockedOut) as error:
            say("not answered", error)
    raise SystemExit("never answered")


def say(what: str, answer: object) -> None:
    print(f"{what}: {answer}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
