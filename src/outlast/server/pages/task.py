"""The page of one task: how it stands and why, who had it, what it did, what may be ordered."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import limits
from ...core.lifecycle import ALLOWED
from ...core.model import IN_DOUBT, Event, Task
from ...store.verbs import Store
from ...view import task as view
from ..asked import Asked
from .cancel import stages
from .fleet import Fleet
from .logs import Logs
from .page import Facts, Page
from .timeline import timeline

LOG_ROWS = 50
ORDERS = ("signal", "cancel", "retry", "revoke")


class TaskLook:
    """Looks at tasks; what their logs said is kept until they say more."""

    def __init__(self) -> None:
        self._logs = Logs()

    def __call__(self, fleet: Fleet, store: Store, asked: Asked) -> Facts:
        """Raises UnknownTask."""
        known = view.look_at(store, asked.one("id") or "")
        held, task = known.held, known.held.task
        history = self._logs.of(store, task.id)
        before = min(asked.number("before", history.last_seq + 1), history.last_seq + 1)
        return {
            "task": task,
            "held": held,
            # Its steps and owners are told by the history, which is not read anew each second.
            "shape": view.full_shape(known, ()),
            "history": history,
            "timeline": timeline(history.spans, held.now_ms),
            "stages": stages(known, history),
            "effects": sorted(known.effects, key=lambda effect: effect.state not in IN_DOUBT),
            "most": limits.LIST_ROWS,
            "doubtful": _doubtful(known),
            "signals": known.signals,
            "observations": known.observations,
            "events": _events(store, task, before),
            "older": before - LOG_ROWS if before - LOG_ROWS > 1 else None,
            "newer": before + LOG_ROWS if before <= history.last_seq else None,
            "orders": [verb for verb in ORDERS if task.state in ALLOWED[verb]],
            "now_ms": held.now_ms,
        }


def _events(store: Store, task: Task, before: int) -> Sequence[Event]:
    """The lines of the log up to `before`."""
    after = max(0, before - 1 - LOG_ROWS)
    wanted = before - 1 - after
    return store.read(task.id, after=after, limit=wanted) if wanted > 0 else []


def _doubtful(known: view.Known) -> set[str]:
    """The keys of effects that a person may settle now."""
    if known.held.task.state not in ALLOWED["settle"]:
        return set()
    return {effect.key for effect in known.effects if effect.state in IN_DOUBT}


def task_page() -> Page:
    return Page("task", "/tasks/{id}", TaskLook(), knows=("id", "before"))
