"""Stores with their fence taken out: a judge that finds nothing in what they leave is no judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outlast.core.clock import Env
from outlast.core.model import Offer, Written
from outlast.store import effects, log
from outlast.store.database import Session
from outlast.store.open import open_database
from outlast.store.sql_store import SqlStore
from outlast.store.statements import load
from outlast.store.verbs import Store
from outlast.store.writing import event_of
from tests.store.mutants import Mutant

# How the append can lose its fence; each is an edit of that one statement.
FENCES: dict[str, Mutant] = {
    "place": Mutant(
        without="whoever writes takes the place after the last event, whatever was quoted",
        statement="append",
        pattern=r"select last\.task_id.*?(?=\s+on conflict)",
        replacement="select :task_id, max(last.seq) + 1, :holder, :kind, :body, :at_ms, :digest"
        "  from outlast.events last where last.task_id = :task_id",
    ),
    "holder": Mutant(
        without="whoever knows the last event may write, its holder or not",
        statement="append",
        pattern=r"and last\.holder = :epoch",
        replacement="",
    ),
    "conflict": Mutant(
        without="a place that is taken is written over",
        statement="append",
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
        mutant = FENCES[broken]
        dialect = "sqlite" if url.startswith("sqlite:") else "postgres"
        schema = "" if dialect == "sqlite" else "outlast."
        texts = load(dialect)
        place = mutant.replacement.replace("outlast.", '"outlast".' if schema else "")
        statements = Mutant(mutant.without, mutant.statement, mutant.pattern, place).applied(texts)
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
    quoted_seq = offer.entries[0].event.seq - 1
    rows = session.run("standing_events", task_id=offer.task_id, quoted_seq=quoted_seq)
    return isinstance(log.standing(offer, [event_of(row) for row in rows]), Written)
