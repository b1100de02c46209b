"""Replay before act: what was known once is known to every later owner, and not done again."""

from __future__ import annotations

from typing import Any

from ..history import Record
from .case import Call, Case, Say

ACTS = ("recorded", "intended")


def replay(case: Case, say: Say) -> None:
    """C5: the heir's first act comes after it has read all that was written."""
    for task in case.tasks:
        _results(case, say, task)
        _order(case, say, task)


def _results(case: Case, say: Say, task: str) -> None:
    """A result that a later act was told of is on record; each later call must know it."""
    names = [act["name"] for act in case.acts(task)]
    known: dict[str, tuple[Any, Record]] = {}
    owners: set[int] = set()
    for call in case.calls_in_time(task):
        owners.add(call.pid)
        say.saw(len(owners) > 1)
        if call.act in known:
            result, shown = known[call.act]
            said = f"{call.act} was done again, though its result ({result}) was on record"
            say.fail(said, shown, call.came)
            continue
        _compare(say, names, known, call)


def _compare(say: Say, names: list[str], known: dict[str, Any], call: Call) -> None:
    told = dict(zip(names, call.came.get("after") or [], strict=False))
    for name in names[: names.index(call.act)] if call.act in names else []:
        if name not in known:
            if name in told:
                known[name] = (told[name], call.came)
        elif told.get(name) != known[name][0]:
            said = f"{call.act} was done without the result of {name} that was on record"
            say.fail(said, known[name][1], call.came)
            return


def _order(case: Case, say: Say, task: str) -> None:
    """Where the log tells of replays, each stands before the first act of its epoch."""
    log = case.log(task)
    if not any(event["kind"] == "replayed" for event in log):
        return
    told: set[int] = {1}
    for event in log:
        if event["kind"] == "replayed":
            told.add(event["epoch"])
        elif event["kind"] in ACTS and event["epoch"] and event["epoch"] not in told:
            say.fail(f"epoch {event['epoch']} acted before it had read the log", event)
            return
