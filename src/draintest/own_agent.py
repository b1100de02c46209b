"""The user's own agent as the workload: harm at moments of its life, judged by its log alone.

Its tools act on its own world, not on ours; so nothing can be held, and nothing is said of what
reached that world. What is judged is who owned the task, what was written, and how it ended.
"""

from __future__ import annotations

import time
from random import Random

from .faults import KILL, STOP, TERM, Missed
from .scenarios import Play, Scenario, linger
from .stage import Stage
from .waiting import pause, until

LIVES_PER_FAULT = 3


def scenarios(seed: int, seconds: float, kinds: tuple[str, ...]) -> list[Scenario]:
    """A calm life, then lives with one fault each, at moments spread over `seconds`."""
    chance = Random(seed)
    found = [Scenario("own-calm", _calm)]
    for number in range(LIVES_PER_FAULT):
        for fault in (KILL, TERM, STOP):
            if fault in kinds:
                share = (number + chance.random()) / LIVES_PER_FAULT
                play = _harmed(fault, seconds * share)
                found.append(Scenario(f"own-{fault}-{number + 1}", play, (fault,)))
    return found


def _calm(stage: Stage) -> None:
    stage.submit([])
    stage.worker()
    began_s = time.monotonic()
    stage.until_rest()
    stage.tell("own.lasted", seconds=round(time.monotonic() - began_s, 3))


def _harmed(fault: str, after_s: float) -> Play:
    def play(stage: Stage) -> None:
        victim = stage.worker("victim")
        heir = stage.worker("heir")
        task = stage.submit([])
        # Whoever took it is the one to be harmed.
        owned = until(lambda: _owner(stage, task), stage.limits.patience_s, 0.1)
        if owned is None:
            raise Missed("nobody took the task, or it had ended before it could be seen")
        struck = victim if owned == victim.pid else heir
        pause(after_s)
        if _owner(stage, task) != struck.pid:
            raise Missed(f"{after_s:.1f} s on it had ended, or waited: try another --agent-seconds")
        stage.harm(fault, struck, in_flight=[task])
        if fault == STOP:
            pause(2.2 * stage.limits.ttl_ms / 1000)
            stage.thaw(struck)
            linger(stage, struck)
        if fault == TERM:
            stage.until_exit(struck, stage.limits.grace_ms / 1000 + stage.limits.patience_s)
        stage.until_rest()

    return play


def _owner(stage: Stage, task: str) -> int:
    """The pid of the owner, 0 if there is none."""
    return next((int(o["pid"]) for o in stage.look_owners() if o["task"] == task), 0)
