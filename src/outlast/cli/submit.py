"""`outlast submit`: store a task, and wait for its end where that is asked for."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from ..core import limits
from ..core.errors import BadSetting
from ..core.model import Task
from ..core.text import pairs
from ..store.verbs import Held, NewTask, Store
from ..view.shapes import error_line, json_value, task_shape
from .options import Session, by_option, common, dry_run_option, patience
from .output import json_block, printable

REVIEW = 6


@click.command("submit")
@click.argument("agent")
@click.argument("json", default="{}")
@click.option("--key", metavar="KEY", help="The same key gives the same task back.")
@click.option("--queue", metavar="NAME", default="default", show_default=True)
@click.option("--priority", type=int, default=0, show_default=True, help="Higher ones first.")
@click.option("--in", "delay", metavar="TIME", default="0s", help="Not before TIME has passed.")
@click.option("-l", "labels", multiple=True, metavar="K=V", help="A label; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait for the end; --timeout bounds it.")
@by_option
@dry_run_option
@common
def submit(
    session: Session, agent: str, json: str, wait: bool, dry_run: bool, **options: Any
) -> int:
    """Store a task for AGENT; JSON is an object of its arguments by name, `-` reads stdin.

    Prints the task's id. With --wait prints the result: exit code 0 succeeded, 1 failed or
    cancelled, 6 in review, 124 when --timeout is over (the task goes on).
    """
    new = _new_task(session, agent, arguments(json), **options)
    if dry_run:
        session.output.note("Nothing was written (--dry-run); this would be:")
        shape = {**msgspec.to_builtins(new), "id": None, "input": json_value(new.input)}
        session.output.one(shape, lambda: json_block(shape))
        return 0
    answer, unheard = session.ask(lambda store: _submit(store, new), create=True)
    task = answer.task
    if not answer.created:
        session.output.note(f"The key {new.key!r} had been used: this is the task of that time.")
    if unheard:
        session.output.note(
            f"No worker that is alive knows the agent {agent!r}: the task waits until one does."
        )
    if wait:
        return _wait(session, task)
    shape = _shape(session, task)
    shape |= {"created": answer.created, "agent_known": not unheard}
    session.output.one(shape, lambda: task.id)
    return 0


def _new_task(
    session: Session,
    agent: str,
    given: dict[str, Any],
    *,
    key: str | None,
    queue: str,
    priority: int,
    delay: str,
    labels: tuple[str, ...],
    by: str | None,
) -> NewTask:
    from ..store.submission import Submission, new_task

    submission = Submission(
        agent=agent,
        input=given,
        key=key,
        queue=queue,
        priority=priority,
        delay=delay,
        labels=pairs(labels, "-l"),
    )
    return new_task(submission, session.env, session.by(by))


def _submit(store: Store, new: NewTask) -> tuple[Any, bool]:
    """The answer, and whether no living worker knows the agent."""
    answer = store.submit([new])[0]
    now_ms = store.now_ms()
    alive = [w for w in store.workers() if w.state == "active" and w.beat_ms + w.ttl_ms > now_ms]
    unheard = not any(new.agent in (json_value(worker.agents) or ()) for worker in alive)
    return answer, unheard


def arguments(text: str) -> dict[str, Any]:
    """An agent's arguments from JSON text or, for `-`, from stdin; raises BadSetting."""
    value = json_argument(text, "the input")
    if not isinstance(value, dict):
        raise BadSetting(
            f"the input is a JSON {_kind(value)}, and must be an object of the agent's arguments "
            """by name, like '{"repo": "a/b"}'; nothing was written"""
        )
    return value


def json_argument(text: str, what: str) -> Any:
    """What a JSON text stands for, `-` reads stdin; raises BadSetting."""
    if text == "-":
        # One byte over what is stored: enough to be refused for its size, whatever else comes.
        text = sys.stdin.read(4 * limits.PAYLOAD_BYTES)
    try:
        return msgspec.json.decode(text.encode())
    except UnicodeEncodeError:
        why = "it is not valid UTF-8"
    except RecursionError:
        why = "it is nested too deeply"
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        why = str(error)
    raise BadSetting(
        f"{what} is no JSON ({why}): {printable(text, 60)!r}; nothing was written. "
        """Quote it for the shell, like '{"repo": "a/b"}'"""
    )


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {list: "array", str: "string", bool: "boolean"}.get(type(value), "number")


def _wait(session: Session, task: Task) -> int:
    session.output.note(f"task {task.id} submitted")
    with patience(session, session.timeout_ms) as pause:
        while not task.ended and task.state != "review":
            pause(
                f"task {task.id} has not ended in time: it is {task.state}, and goes on. "
                f"`outlast show {task.id}` tells how"
            )
            task = session.ask(lambda store, task_id=task.id: store.get(task_id))  # type: ignore[misc]
    shape = _shape(session, task)
    session.output.one(shape, lambda: _ending(task))
    session.output.note(f"task {task.id} {task.state}")
    return _exit_code(task)


def _ending(task: Task) -> str:
    if task.state == "succeeded":
        return json_block(json_value(task.result))
    error = error_line(task.error)
    return f"{task.state} ({task.reason})" + (f": {error}" if error else "")


def _exit_code(task: Task) -> int:
    if task.state == "review":
        return REVIEW
    return 0 if task.state == "succeeded" else 1


def _shape(session: Session, task: Task) -> dict[str, Any]:
    now_ms = session.ask(lambda store: store.now_ms())
    return task_shape(Held(task, None, None, {}, now_ms), [])
