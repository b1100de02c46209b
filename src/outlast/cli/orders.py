"""What a person may order of a task: `signal`, `cancel`, `retry`, `revoke`."""

from __future__ import annotations

import click

from ..core.errors import NotAllowedNow
from ..core.lifecycle import ALLOWED
from ..core.model import Signal, Task
from ..store.verbs import CancelAnswer, Held, Store
from ..view.shapes import task_shape
from .options import Session, by_option, common, confirm, dry_run_option, yes_option
from .output import printable
from .submit import json_argument

reason_option = click.option("--reason", metavar="WHY", help="Why; it goes on the record.")
reason_required = click.option(
    "--reason", metavar="WHY", required=True, help="Why; it goes on the record."
)


@click.command("signal")
@click.argument("task")
@click.argument("name")
@click.argument("json", default="null")
@click.option("--id", "signal_id", metavar="ID", help="Sent twice with one id it is one signal.")
@by_option
@dry_run_option
@common
def signal(
    session: Session,
    task: str,
    name: str,
    json: str,
    signal_id: str | None,
    by: str | None,
    dry_run: bool,
) -> int:
    """Send TASK the signal NAME with a JSON value (`-`: stdin); kept until it is waited for."""
    from ..core import payload

    value = payload.payload_text(json_argument(json, "the signal's value"), f"the signal {name!r}")
    checked = payload.name("the signal's name", name)
    sent_id = payload.name("the signal's id", signal_id) if signal_id else session.env.new_id()
    found = _allowed(session, task, "signal")
    if dry_run:
        return _would(session, found, f"send task {found.id} the signal {name!r}")
    sent = Signal(sent_id, found.id, checked, value, session.by(by), 0)
    is_new = session.ask(lambda store: store.signal(found.id, sent))
    said = "sent" if is_new else "had been sent before: nothing was added"
    shape = {"id": sent_id, "task": found.id, "name": name, "new": is_new}
    session.output.one(shape, lambda: f"signal {printable(name)} to task {found.id} {said}")
    return 0


@click.command("cancel")
@click.argument("task")
@reason_required
@click.option("--force", is_flag=True, help="Take the lease away and end it now.")
@by_option
@yes_option
@dry_run_option
@common
def cancel(
    session: Session, task: str, reason: str, force: bool, by: str | None, yes: bool, dry_run: bool
) -> int:
    """Ask TASK to stop for good; without an owner it ends at once.

    Exit code 4 if it had ended otherwise: then nothing was changed.
    """
    found = session.ask(lambda store: store.get(task))
    order = session.order(reason, by)
    if dry_run:
        return _would(session, found, _cancel_consequence(found, force))
    if force and found.state == "running":
        confirm(_cancel_consequence(found, force).capitalize(), yes)
    answer = session.ask(lambda store: store.cancel(found.id, order, force=force))
    if answer.state == "ended":
        raise NotAllowedNow(
            f"task {found.id} had ended before ({answer.task.state}); nothing was changed"
        )
    shape = {
        **_shape(session, answer.task),
        "answer": answer.state,
        "running_on": answer.running_on,
        "children": list(answer.children),
    }
    session.output.one(shape, lambda: _cancel_text(answer))
    return 0


@click.command("retry")
@click.argument("task")
@reason_option
@by_option
@dry_run_option
@common
def retry(session: Session, task: str, reason: str | None, by: str | None, dry_run: bool) -> int:
    """Open TASK again, from review or after its end: what it has on record is kept."""
    found = _allowed(session, task, "retry")
    if dry_run:
        return _would(session, found, f"open task {found.id} again ({found.state} now)")
    order = session.order(reason or "asked for on the command line", by)
    # Not sent twice: by then it may have been claimed, and an heir must not be reopened.
    opened = session.ask(lambda store: store.retry(found.id, order), again=False)
    session.output.one(
        _shape(session, opened), lambda: f"task {opened.id} is {opened.state}; epoch {opened.epoch}"
    )
    return 0


@click.command("revoke")
@click.argument("task")
@reason_required
@click.option("--now", is_flag=True, help="Due at once, not when the old lease would have ended.")
@by_option
@yes_option
@dry_run_option
@common
def revoke(
    session: Session, task: str, reason: str, now: bool, by: str | None, yes: bool, dry_run: bool
) -> int:
    """Take TASK away from its owner, who can write nothing from here on.

    Another worker may have it when the old lease would have ended; with --now at once, while code
    of the old owner may still be running.
    """
    found = _allowed(session, task, "revoke")
    consequence = (
        f"take task {found.id} away from its owner (epoch {found.epoch}), whose code may still run"
        + (" beside the next one's" if now else " until its lease would have ended")
    )
    if dry_run:
        return _would(session, found, consequence)
    if now:
        confirm(f"This will {consequence}", yes)
    order = session.order(reason, by)
    taken = session.ask(lambda store: store.revoke(found.id, order, now=now), again=False)
    session.output.one(
        _shape(session, taken),
        lambda: f"task {taken.id} was taken from epoch {taken.epoch}; it is {taken.state}",
    )
    return 0


def _allowed(session: Session, task_id: str, verb: str) -> Task:
    """The task, if its state allows the verb now; raises UnknownTask, NotAllowedNow."""
    task = session.ask(lambda store: store.get(task_id))
    if task.state not in ALLOWED[verb]:
        raise NotAllowedNow(
            f"task {task.id} is {task.state}, and `{verb}` is for tasks that are "
            f"{' or '.join(sorted(ALLOWED[verb]))}; nothing was written"
        )
    return task


def _would(session: Session, task: Task, what: str) -> int:
    shape = {**_shape(session, task), "would": what}
    session.output.one(shape, lambda: f"Would {what}. Nothing was written (--dry-run)")
    return 0


def _cancel_consequence(task: Task, force: bool) -> str:
    if task.ended:
        return f"change nothing: task {task.id} has ended ({task.state})"
    if task.state != "running":
        return f"end task {task.id} now, which is {task.state}"
    if force:
        return (
            f"take the lease of task {task.id} away and end it now; its code may still be running, "
            "and what it is doing to the outside world stays unknown"
        )
    return f"ask the owner of task {task.id} to stop it"


def _cancel_text(answer: CancelAnswer) -> str:
    said = {
        "cancelled": f"task {answer.task.id} is cancelled",
        "asked": f"task {answer.task.id}: its owner is asked, and stops it at its next heartbeat",
    }[answer.state]
    if answer.running_on:
        said += f"; its code may still be running on {printable(answer.running_on)}"
    if answer.children:
        said += f"; so are its {len(answer.children)} children"
    return said


def _shape(session: Session, task: Task) -> dict[str, object]:
    def held(store: Store) -> Held:
        return Held(task, None, None, {}, store.now_ms())

    return task_shape(session.ask(held), [])
