"""Is it safe to deploy? What a deploy would do to each task, and one sentence for them all.

What can hand over does not block: a step is run again by the heir, and an effect that has just
begun has the grace to end. Two things do: an owner that has fallen silent, and an effect in flight
for longer than the grace, which a deploy would cut off with its outcome unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..core import limits
from ..core.model import Effect
from ..store.verbs import Held
from .words import age, printable


class Fate(msgspec.Struct, frozen=True):
    """What would become of a task. `at_most_ms`: when it no longer blocks; None: nobody can say."""

    held: Held
    blocks: bool
    said: str
    at_most_ms: int | None = None


class Gate(msgspec.Struct, frozen=True):
    """The answer: `said` is the sentence."""

    safe: bool
    said: str
    running: int
    blockers: Sequence[Fate]


def marks_of(held: Held) -> list[str]:
    """What is derived beside the stored state: stale (two beats silent), cancelling, draining."""
    if held.lease is None:
        return []
    marks = []
    if is_stale(held):
        marks.append("stale")
    if held.task.cancel_ms is not None:
        marks.append("cancelling")
    if held.worker is not None and (held.worker.state == "draining" or held.worker.drain_by):
        marks.append("draining")
    return marks


def is_stale(held: Held) -> bool:
    lease = held.lease
    if lease is None:
        return False
    return held.now_ms - lease.beat_ms > 2 * lease.ttl_ms // limits.BEATS_PER_TTL


def grace_ms(held: Held) -> int:
    """How long the owner has for a hand-over, by its own word."""
    return held.worker.grace_ms if held.worker is not None else limits.GRACE_MS


def fate(held: Held, in_flight: Sequence[Effect]) -> Fate:
    """What a deploy now would do to one task; `in_flight`: its effects that are under way."""
    if held.lease is None:
        return Fate(held, False, "nothing" if held.task.ended else "nothing, has no owner")
    if is_stale(held):
        at_most_ms = takeover_ms(held)
        silent = age(held.now_ms - held.lease.beat_ms)
        return Fate(held, True, f"blocks: owner silent for {silent}", at_most_ms)
    if held.task.cancel_ms is not None:
        return Fate(held, False, "is being cancelled")
    if in_flight:
        oldest = min(in_flight, key=lambda effect: effect.intended_ms)
        for_ms = held.now_ms - oldest.intended_ms
        tool = printable(oldest.tool, 40)
        if for_ms > grace_ms(held):
            return Fate(held, True, f"blocks: {tool} in flight for {age(for_ms)}")
        return Fate(held, False, f"hands over after {tool}")
    return Fate(held, False, "hands over at next step")


def takeover_ms(held: Held) -> int:
    """The most until a silent owner is declared dead: what is left, an amnesty, and the rounds."""
    lease = held.lease
    if lease is None:
        return 0
    amnesty_ms = 0 if lease.spared else lease.ttl_ms
    return max(0, lease.expires_ms - held.now_ms) + amnesty_ms + 2 * limits.POLL_MS + 1_000


def flights(effects: Sequence[Effect]) -> Mapping[str, list[Effect]]:
    """Effects under way by task."""
    found: dict[str, list[Effect]] = {}
    for effect in effects:
        if effect.state == "intended":
            found.setdefault(effect.task_id, []).append(effect)
    return found


def gate(fates: Sequence[Fate], build: str | None = None) -> Gate:
    """The sentence for all running tasks (of a build): who blocks, why, how long at most."""
    blockers = sorted((f for f in fates if f.blocks), key=_longest_first)
    where = f" by build {build}" if build else ""
    if not fates:
        return Gate(True, f"Safe to deploy: no task is being run{where}.", 0, ())
    if not blockers:
        tasks = "1 task is" if len(fates) == 1 else f"{len(fates)} tasks are"
        graces = [age(ms) for ms in sorted({grace_ms(fate.held) for fate in fates})]
        spread = graces[0] if len(graces) == 1 else f"{graces[0]} to {graces[-1]}"
        said = (
            f"Safe to deploy: {tasks} being run{where}, and can be handed over within the grace "
            f"of {spread}."
        )
        return Gate(True, said, len(fates), ())
    return Gate(False, _blocked(blockers), len(fates), blockers)


def _longest_first(fate: Fate) -> tuple[bool, int]:
    return (fate.at_most_ms is not None, -(fate.at_most_ms or 0))


def _blocked(blockers: Sequence[Fate]) -> str:
    first = blockers[0]
    more = f" (and {len(blockers) - 1} more)" if len(blockers) > 1 else ""
    if first.at_most_ms is None:
        bound = (
            "nobody can say for how long; a deploy would cut it off and leave its outcome unknown"
        )
    else:
        bound = f"for {age(first.at_most_ms)} at most, then it is taken over"
    task = first.held.task
    return (
        f"Not safe to deploy: task {task.id} ({printable(task.agent, 40)}) of {owner(first.held)} "
        f"{first.said}, {bound}{more}."
    )


def owner(held: Held) -> str:
    """host/pid, the worker's id where it is not known, or a dash."""
    if held.worker is not None:
        return f"{printable(held.worker.host, 40)}/{held.worker.pid}"
    return held.lease.worker if held.lease else "-"
