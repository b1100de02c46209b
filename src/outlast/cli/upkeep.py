"""`outlast prune`, `outlast migrate`, `outlast doctor`: looking after the store."""

from __future__ import annotations

import click

from ..core import limits
from ..core.durations import duration_ms
from ..core.errors import BadSetting, SchemaMismatch
from ..settings import redacted
from ..store.verbs import Finding, Pruned, Store
from .options import Session, common, confirm, dry_run_option, yes_option
from .output import age, printable

BROKEN = 1


@click.command("prune")
@click.option("--older-than", "older", metavar="TIME", required=True, help="Ended before then.")
@dry_run_option
@yes_option
@common
def prune(session: Session, older: str, dry_run: bool, yes: bool) -> int:
    """Remove tasks that ended long ago, with their logs; never what is not final.

    Shared idempotency keys and the counters of metrics stay.
    """
    older_ms = duration_ms(older, "--older-than")
    before_ms = session.ask(lambda store: store.now_ms()) - older_ms
    would = session.ask(lambda store: store.prune(before_ms=before_ms, dry_run=True))
    removed = would
    if not dry_run and would.tasks:
        confirm(
            f"This will remove tasks that ended more than {age(older_ms)} ago, and their logs", yes
        )
        removed = _prune_all(session, before_ms)
    shape = {"tasks": removed.tasks, "events": removed.events, "dry_run": dry_run}
    verb = "Would remove" if dry_run else "Removed"
    session.output.one(shape, lambda: f"{verb} {removed.tasks} tasks and {removed.events} events")
    return 0


def _prune_all(session: Session, before_ms: int) -> Pruned:
    """In batches, so that no transaction is long."""
    tasks = events = 0
    while True:
        batch = session.ask(
            lambda store: store.prune(before_ms=before_ms, limit=limits.PRUNE_BATCH)
        )
        tasks, events = tasks + batch.tasks, events + batch.events
        if not batch.tasks:
            return Pruned(tasks, events)


@click.command("migrate")
@click.option("--check", "only_check", is_flag=True, help="Say whether it is needed; exit code 6.")
@click.option("--sql", is_flag=True, help="Print what would be run; run nothing.")
@common
def migrate(session: Session, only_check: bool, sql: bool) -> int:
    """Bring the store's tables to this version; a store that is there already is left alone."""
    from ..store import migrate as steps
    from ..store.open import open_database

    if only_check and sql:
        raise BadSetting("say either --check or --sql; nothing was done")
    changes = not (only_check or sql)
    database, schema = open_database(session.db, env=session.env, create=changes)
    try:
        found = steps.found_version(database)
        if sql:
            for _version, text in steps.scripts(database.dialect, schema, above=found or 0):
                session.output.line(text)
            return 0
        if only_check and found != steps.VERSION:
            raise SchemaMismatch(found, steps.VERSION)
        applied = steps.migrate(database, schema) if changes else []
    finally:
        database.close()
    shape = {
        "db": redacted(session.db),
        "found": found,
        "version": steps.VERSION,
        "applied": applied,
    }
    done = f"applied {', '.join(map(str, applied))}" if applied else "nothing to do"
    session.output.one(shape, lambda: f"schema {steps.VERSION}: {done}", name="version")
    return 0


@click.command("doctor")
@click.option(
    "--tasks",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="How many logs to fold.",
)
@common
def doctor(session: Session, tasks: int) -> int:
    """Look for what is wrong: durability in force, rows against logs, who blocks whom.

    Exit code 1 if something is broken; a warning alone is 0.
    """

    def look(store: Store) -> list[Finding]:
        return list(store.checkup(tasks=tasks))

    found = session.ask(look)
    shapes = [{"check": f.check, "state": f.state, "said": f.said} for f in found]
    colours = {"ok": "green", "warn": "yellow", "broken": "red"}
    session.output.items(
        shapes,
        lambda: [
            ["STATE", "CHECK", "SAID"],
            *(
                [
                    session.output.coloured(f.state, colours[f.state]),
                    f.check,
                    printable(f.said, 200),
                ]
                for f in found
            ),
        ],
        name="check",
    )
    return BROKEN if any(f.state == "broken" for f in found) else 0
