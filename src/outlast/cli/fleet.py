"""Orders to many: `queue pause|resume`, `drain`, `deploy-gate`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..core.durations import duration_ms
from ..core.errors import BadSetting, UnknownWorker
from ..core.model import Worker
from ..store.verbs import Store
from ..view.fleet import gate_shape, judge, running
from .options import (
    Session,
    TimedOut,
    by_option,
    common,
    confirm,
    dry_run_option,
    patience,
    yes_option,
)
from .output import printable

NOT_SAFE = 5


@click.group("queue")
def queue() -> None:
    """Pause or resume a queue: what runs goes on, nothing new is given out."""


@queue.command("pause")
@click.argument("name")
@click.option("--reason", metavar="WHY", default="paused on the command line")
@by_option
@dry_run_option
@common
def pause(session: Session, name: str, reason: str, by: str | None, dry_run: bool) -> int:
    """Give out no more tasks of the queue NAME."""
    return _set_paused(session, name, dry_run, lambda s: s.pause(name, session.order(reason, by)))


@queue.command("resume")
@click.argument("name")
@dry_run_option
@common
def resume(session: Session, name: str, dry_run: bool) -> int:
    """Give out tasks of the queue NAME again."""
    return _set_paused(session, name, dry_run, lambda store: store.unpause(name))


def _set_paused(session: Session, name: str, dry_run: bool, change: Any) -> int:
    from ..core.text import named

    named("the queue's name", name)
    if not dry_run:
        session.ask(change)
    paused = session.ask(lambda store: store.paused())
    shape = {"queue": name, "paused": name in paused, "all_paused": list(paused)}
    told = ". Nothing was changed (--dry-run)" if dry_run else ""
    session.output.one(
        shape,
        lambda: f"queue {printable(name)} is {'paused' if name in paused else 'open'}{told}",
        name="queue",
    )
    return 0


@click.command("drain")
@click.argument("worker", required=False)
@click.option("--build", metavar="B", help="Every worker of this build.")
@click.option("--all", "everyone", is_flag=True, help="Every worker.")
@click.option("--reason", metavar="WHY", default="drained on the command line")
@click.option("--wait", metavar="TIME", help="Wait so long until they hold nothing and have left.")
@by_option
@yes_option
@dry_run_option
@common
def drain(
    session: Session,
    worker: str | None,
    build: str | None,
    everyone: bool,
    reason: str,
    wait: str | None,
    by: str | None,
    yes: bool,
    dry_run: bool,
) -> int:
    """Have WORKER (its id, or host/pid) hand over its tasks at their next step, and leave.

    With --wait exit code 124 if some still hold tasks when the time is over.
    """
    wait_ms = None if wait is None else duration_ms(wait, "--wait")
    if [worker is not None, build is not None, everyone].count(True) != 1:
        raise BadSetting("say one of WORKER, --build B or --all; nothing was drained")
    chosen = session.ask(lambda store: _chosen(store, worker, build))
    if everyone and not dry_run:
        confirm(f"This will drain all {len(chosen)} workers: nothing runs until others start", yes)
    if not dry_run:
        order = session.order(reason, by)
        for worker_id, of_build in _targets(chosen, worker, build):
            session.ask(
                lambda store, w=worker_id, b=of_build: store.order_drain(
                    order, worker_id=w, build=b
                )  # type: ignore[misc]
            )
    left = [] if dry_run or wait_ms is None else _wait_until_gone(session, chosen, wait_ms)
    _say_drained(session, chosen, left, dry_run, waited=wait_ms is not None)
    if left:
        raise TimedOut(
            f"{len(left)} of {len(chosen)} workers have not left in time: "
            f"{', '.join(f'{printable(w.host)}/{w.pid}' for w in left[:5])}; the order stands"
        )
    return 0


def _chosen(store: Store, worker: str | None, build: str | None) -> list[Worker]:
    """The living workers that are meant. Raises UnknownWorker where none ever was."""
    everyone = store.workers()
    if worker is not None:
        known = [w for w in everyone if w.id.startswith(worker) or f"{w.host}/{w.pid}" == worker]
        if len({w.id for w in known if w.state != "retired"}) > 1:
            raise BadSetting(f"{worker!r} could mean {len(known)} workers; nothing was drained")
    else:
        known = [w for w in everyone if build is None or w.build == build]
    if not known and (worker or build):
        raise UnknownWorker(worker or f"build {build}")
    return [w for w in known if w.state != "retired"]


def _targets(
    chosen: Sequence[Worker], worker: str | None, build: str | None
) -> list[tuple[str | None, str | None]]:
    """What to ask the store: (worker id, build). One of a build started meanwhile is meant too."""
    if worker is not None:
        return [(each.id, None) for each in chosen]
    return [(None, build)]


def _wait_until_gone(session: Session, chosen: Sequence[Worker], wait_ms: int) -> list[Worker]:
    """Those that have not left when the time is over."""
    names = {each.id for each in chosen}
    left: list[Worker] = list(chosen)
    with patience(session, wait_ms) as pause:
        while left:
            left = session.ask(lambda store: _still_there(store, names))
            if not left:
                break
            try:
                pause("")
            except TimedOut:
                return left
    return []


def _still_there(store: Store, names: set[str]) -> list[Worker]:
    """Workers that live, or are dead and still hold a lease."""
    now_ms = store.now_ms()
    holders = {held.lease.worker for held in running(store) if held.lease is not None}
    return [
        worker
        for worker in store.workers()
        if worker.id in names
        and (
            worker.id in holders
            or (worker.state != "retired" and now_ms - worker.beat_ms <= worker.ttl_ms)
        )
    ]


def _say_drained(
    session: Session, chosen: Sequence[Worker], left: Sequence[Worker], dry_run: bool, waited: bool
) -> None:
    gone = {w.id for w in chosen} - {w.id for w in left}
    shape = {
        "workers": [
            {
                "worker": w.id,
                "host": w.host,
                "pid": w.pid,
                "build": w.build,
                "left": waited and w.id in gone,
            }
            for w in chosen
        ],
        "dry_run": dry_run,
    }

    def text() -> str:
        if not chosen:
            return "No such worker is alive: nothing to drain"
        names = ", ".join(f"{printable(w.host)}/{w.pid}" for w in chosen)
        if dry_run:
            return f"Would drain {names}. Nothing was ordered (--dry-run)"
        if waited:
            return f"{len(gone)} of {len(chosen)} have left: {names}"
        return f"Asked to drain: {names}"

    session.output.one(shape, text)


@click.command("deploy-gate")
@click.option(
    "--build", metavar="B", help="Only what is run by this build: the one to be replaced."
)
@click.option("--wait", metavar="TIME", help="Look again until it is safe, for so long.")
@common
def deploy_gate(session: Session, build: str | None, wait: str | None) -> int:
    """Say in one sentence whether it is safe to deploy: exit code 0 yes, 5 no.

    Tasks that can be handed over do not block, however many there are.
    """
    wait_ms = 0 if wait is None else duration_ms(wait, "--wait")
    with patience(session, wait_ms) as pause:
        while True:
            answer, now_ms = session.ask(lambda store: judge(store, build))
            if answer.safe:
                break
            try:
                pause(answer.said)
            except TimedOut:
                break
    session.output.one(gate_shape(answer, now_ms), lambda: answer.said)
    return 0 if answer.safe else NOT_SAFE
