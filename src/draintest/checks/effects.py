"""Effects: applied once where the provider can tell, shown and settled where it cannot."""

from __future__ import annotations

from itertools import pairwise

from ..history import Record
from ..program import Act
from .case import Call, Case, Say


def keys(case: Case, say: Say) -> None:
    """C6: each key applied at most once; same step, same key, same arguments; once if it ended."""
    for task, act in _effects(case):
        calls = case.calls(task, act["name"])
        if act["provider"] != "keyed" or not calls:
            if act["provider"] == "keyed" and _succeeded(case, task):
                say.fail(
                    f"{act['name']} was never called, and the task succeeded", _end(case, task)
                )
            continue
        say.saw()
        for field in ("key", "arguments"):
            said = {str(call.came.get(field)): call.came for call in calls}
            if len(said) > 1:
                values = " and ".join(sorted(said))
                say.fail(f"{act['name']} was called with another {field}: {values}", *said.values())
        applied = [call for call in calls if call.word == "applied"]
        if len(applied) > 1:
            say.fail(f"{act['name']} was applied {len(applied)} times", *map(_outcome, applied))
        if not applied and _succeeded(case, task):
            said_ = f"{act['name']} never reached the world, and the task succeeded"
            say.fail(said_, _end(case, task))


def doubts(case: Case, say: Say) -> None:
    """C7: an intent without outcome is settled by its policy: never repeated, never swallowed."""
    for task, act in _effects(case):
        if act["policy"] not in ("ask", "probe"):
            continue
        calls = case.calls(task, act["name"])
        say.saw(sum(call.answered is None or bool(case.harmed(call.pid)) for call in calls))
        for earlier, again in pairwise(case.calls_in_time(task, act["name"])):
            if not _was_known(case, task, act, again) and not _allowed(case, act, earlier, again):
                how = "nobody was asked" if act["policy"] == "ask" else "the provider was not asked"
                said = f"{act['name']} was in doubt and was called again; {how}"
                say.fail(said, earlier.came, again.came)
        _not_swallowed(case, say, task, act, calls)


def _allowed(case: Case, act: Act, earlier: Call, again: Call) -> bool:
    """Whether a second call is what the policy, or the world's own refusal, asked for."""
    if earlier.word == "refused":
        return True
    kind = "settled" if act["policy"] == "ask" else "world.asked"
    return any(
        earlier.came["t_ms"] < record["t_ms"] < again.came["t_ms"] and record["receipt"] is None
        for record in case.view.of(kind, "settled", task=again.came["task"], act=act["name"])
    )


def _was_known(case: Case, task: str, act: Act, again: Call) -> bool:
    """Its result was on record already: then the fault is one of replay."""
    position = [each["name"] for each in case.acts(task)].index(act["name"])
    return any(
        len(call.came.get("after") or []) > position and call.came["t_ms"] < again.came["t_ms"]
        for call in case.calls(task)
    )


def _not_swallowed(case: Case, say: Say, task: str, act: Act, calls: list[Call]) -> None:
    """Whoever goes on past it must have its receipt."""
    position = [each["name"] for each in case.acts(task)].index(act["name"])
    later = [c for c in case.calls(task) if len(c.came.get("after") or []) > position]
    receipts = case.receipts(task, act["name"])
    for call in later:
        if call.came["after"][position] not in receipts:
            said = f"{call.act} was done, though nobody knows whether {act['name']} was"
            say.fail(said, *(c.came for c in calls), call.came)
            return
    answered = any(call.answered for call in calls)
    looked = case.view.of("settled", "world.asked", task=task, act=act["name"])
    if _succeeded(case, task) and not later and not answered and not looked:
        say.fail(f"{act['name']} is in doubt, and the task succeeded", _end(case, task))


def _effects(case: Case) -> list[tuple[str, Act]]:
    return [(t, act) for t in case.tasks for act in case.acts(t) if act["kind"] == "effect"]


def _succeeded(case: Case, task: str) -> bool:
    seen = case.last_seen(task)
    return seen is not None and seen["state"] == "succeeded"


def _end(case: Case, task: str) -> Record | None:
    return case.last_seen(task)


def _outcome(call: Call) -> Record | None:
    return call.outcome
