"""A task as its submitter describes it, checked and made ready to be sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from ..core import payload
from ..core.clock import Env
from ..core.durations import Duration, duration_ms
from .verbs import NewTask


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A task for `submit_many`; the fields are the arguments of `Client.submit`."""

    agent: str
    input: Mapping[str, Any] = {}
    key: str | None = None
    queue: str = "default"
    priority: int = 0
    delay: Duration = 0
    labels: Mapping[str, str] | None = None


def new_task(one: Submission | tuple[str, Mapping[str, Any]], env: Env, by: str) -> NewTask:
    """What the store is sent, with an id made here, so that it may be sent again.

    Raises BadSetting, UsageError, NotSerializable, PayloadTooLarge.
    """
    if not isinstance(one, Submission):
        one = Submission(agent=one[0], input=one[1])
    agent = payload.name("the agent's name", one.agent)
    return NewTask(
        id=env.new_id(),
        agent=agent,
        input=payload.input_text(agent, one.input),
        key=None if one.key is None else payload.key(one.key),
        queue=payload.name("the queue's name", one.queue),
        priority=payload.priority(one.priority),
        delay_ms=duration_ms(one.delay, "the delay"),
        labels=payload.labels(one.labels),
        by=by,
    )


def whoami() -> str:
    """user@host of this process, for the record."""
    # Looked up when it is needed: `outlast ps` starts without them.
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
