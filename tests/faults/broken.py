"""Stores with their fence taken out: a judge that finds nothing in what they leave is no judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outlast.core.clock import Env
from outlast.core.model import Offer, Written
from outlast.store import effects, log
from outlast.store.database import Session
from outlast.store.open import open_database
from outlast.store.sql_store import SqlStore
from outlast.store.statements import load
from outlast.store.verbs import Store


@dataclass(frozen=True)
class Edit:
    """One edit of the statement that appends; `without` says what is then no longer so."""

    without: str
    pattern: str
    replacement: str

    def of(self, text: str, events: str) -> str:
        """The statement without that part; `events`: the table as it is called there."""
        replacement = self.replacement.replace("outlast.events", events)
        edited = re.sub(self.pattern, replacement, text, flags=re.S)
        assert edited != text, f"{self.without}: there is nothing to take out"
        return edited


# How the append can lose its fence.
FENCES: dict[str, Edit] = {
    "place": Edit(
        without="whoever writes takes the place after the last event, whatever was quoted",
        pattern=r"select last\.task_id.*?(?=\s+on conflict)",
        replacement="select :task_id, max(last.seq) + 1, :holder, :kind, :body, :at_ms, :digest"
        "  from outlast.events last where last.task_id = :task_id",
    ),
    "holder": Edit(
        without="whoever knows the last event may write, its holder or not",
        pattern=r"and last\.holder = :epoch",
        replacement="",
    ),
    "conflict": Edit(
        without="a place that is taken is written over",
        pattern=r"on conflict do nothing",
        replacement="on conflict (task_id, seq) do update set holder = excluded.holder,"
        " kind = excluded.kind, body = excluded.body, at_ms = excluded.at_ms,"
        " digest = excluded.digest",
    ),
}
RESENDS = "resends"
NAMES = (*FENCES, RESENDS)


def open_store(url: str, broken: str = "", *, ttl_ms: int = 1_000) -> Store:
    """A store on a connection of its own, whole or with one of `NAMES` taken out."""
    env = Env()
    statements = None
    if broken in FENCES:
        sqlite = url.startswith("sqlite:")
        texts = load("sqlite" if sqlite else "postgres")
        events = "events" if sqlite else '"outlast".events'
        statements = {**texts, "append": FENCES[broken].of(texts["append"], events)}
    database, _ = open_database(url, env=env, statements=statements, ttl_ms=ttl_ms)
    return SqlStore(database, env)


def write_rows_of_resends() -> None:
    """From now on, in this process, rows follow an event that exists, not one just inserted."""
    careful: Callable[[Session, Sequence[Offer]], list[Offer]] = log.insert

    def careless(session: Session, offers: Sequence[Offer]) -> list[Offer]:
        accepted = careful(session, offers)
        return [each for each in offers if each in accepted or _is_there(session, each)]

    log.insert = careless
    effects.insert = careless  # type: ignore[attr-defined]


def _is_there(session: Session, offer: Offer) -> bool:
    return isinstance(log.standing_in(session, offer), Written)
