"""`outlast export` and `outlast verify`: the record, for anybody to check without a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from ..core import limits
from ..core.errors import BadSetting
from ..core.model import Task
from ..settings import redacted
from ..store.verbs import Query
from ..view.shapes import event_shape
from . import archive
from .log import read
from .options import Session, common
from .output import json_block, printable, rfc3339


@click.command("export")
@click.argument("task", required=False)
@click.option("--all", "everything", is_flag=True, help="Every task of the store.")
@click.option("--to", "path", metavar="FILE", help="Write there instead of stdout.")
@click.option("--since", metavar="TIME", help="With --all: only tasks submitted in the last TIME.")
@common
def export(
    session: Session, task: str | None, everything: bool, path: str | None, since: str | None
) -> int:
    """Write the log of TASK, or of all, as JSON lines that `outlast verify` checks.

    Each log comes after its head, and a last line counts and seals them: a tail that was cut off or
    rewritten shows.
    """
    if (task is None) != everything:
        raise BadSetting("say either TASK or --all; nothing was exported")
    if since is not None and not everything:
        raise BadSetting("--since goes with --all; nothing was exported")
    # Asked before the file is made: an unknown task leaves no empty file behind.
    tasks = _all(session, since) if task is None else [session.ask(lambda s: s.get(task))]
    with _opened(path) as file:
        counts = _write(session, file, tasks)
    session.output.note("{} tasks, {} events exported".format(*counts))
    return 0


def _write(session: Session, file: IO[str], tasks: Any) -> tuple[int, int]:
    seal = archive.Seal()

    def line(shape: dict[str, Any]) -> None:
        file.write(seal.line(shape))

    line(_card(session))
    for task in tasks:
        head = session.ask(lambda store, task=task: store.last(task.id, ""))  # type: ignore[misc]
        line(archive.task_line(task, head))
        for event in read(session, task.id):
            if head is not None and event.seq > head.seq:
                break
            line(event_shape(event))
            seal.events += 1
        seal.tasks += 1
    file.write(seal.end())
    return seal.tasks, seal.events


def _card(session: Session) -> dict[str, Any]:
    """Where this comes from: which database, which version, who exported it, as of when."""
    from .main import version

    return {
        "outlast": archive.HEADER,
        "version": version(),
        "database": redacted(session.db),
        "by": session.by(None),
        "as_of": rfc3339(session.ask(lambda store: store.now_ms())),
    }


def _all(session: Session, since: str | None) -> Iterator[Task]:
    """Every task, newest first, in pages."""
    from ..core.durations import duration_ms

    since_ms = None
    if since is not None:
        since_ms = session.ask(lambda s: s.now_ms()) - duration_ms(since, "--since")
    after: str | None = None
    while True:
        query = Query(after=after, since_ms=since_ms, limit=limits.LIST_ROWS)
        page = session.ask(lambda store, query=query: store.find(query))  # type: ignore[misc]
        yield from (held.task for held in page)
        if len(page) < limits.LIST_ROWS:
            return
        after = page[-1].task.id


class _Stdout:
    """stdout as a file that is not closed."""

    def __enter__(self) -> IO[str]:
        return sys.stdout

    def __exit__(self, *error: object) -> None:
        sys.stdout.flush()


def _opened(path: str | None) -> Any:
    if path is None:
        return _Stdout()
    try:
        return Path(path).open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadSetting(
            f"{path!r} cannot be written ({error.strerror}); nothing was exported"
        ) from error


@click.command("verify")
@click.argument("file", type=click.Path())
@common
def verify(session: Session, file: str) -> int:
    """Check an exported FILE (`-`: stdin): every digest, every head, the seal; exit code 1 if not.

    Who rewrites a log, its head and the seal alike is not found out from the file: compare the
    heads with those that you have from elsewhere.
    """
    verdict = archive.check(_lines(file))
    shape = {
        "ok": not verdict.faults,
        "tasks": verdict.tasks,
        "events": verdict.events,
        "faults": [
            {"line": f.line, "task": f.task, "seq": f.seq, "said": f.said} for f in verdict.faults
        ],
        "heads": verdict.heads if len(verdict.heads) == 1 else None,
    }
    if not session.output.for_people:
        session.output.one(shape, lambda: json_block(shape))
        return 1 if verdict.faults else 0
    for fault in verdict.faults:
        session.output.line(f"BROKEN  line {fault.line}: {printable(fault.said, 300)}")
    if not verdict.faults:
        session.output.line(
            f"OK      {verdict.tasks} tasks, {verdict.events} events: every digest, head and the "
            "seal fit"
        )
    return 1 if verdict.faults else 0


def _lines(file: str) -> Iterator[bytes]:
    if file == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as opened:
            yield from opened
    except OSError as error:
        raise BadSetting(
            f"{file!r} cannot be read ({error.strerror}); nothing was checked"
        ) from error
