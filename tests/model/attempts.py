"""What a worker does with a lease: from the claim to the letting go.

The agent is a script: one act after the other, each answered by the log or done now.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model import log as logs
from tests.model.database import Request, request_of
from tests.model.log import Act, Fold
from tests.model.machine import (
    CALLED_IN_TRUST,
    Attempt,
    Move,
    Scene,
    State,
    Worker,
    in_flight,
    send,
    spend,
    with_attempt,
    with_worker,
    with_world,
    without_attempt,
    world_of,
)


def worker_moves(scene: Scene, state: State) -> Iterator[Move]:
    for number, worker in enumerate(state.workers):
        if worker.attempt is None:
            yield from _claims(state, number, worker)
            continue
        attempt = worker.attempt
        yield from _failures(scene, state, number, attempt)
        if attempt.sent >= 0:
            yield from _asks_again(scene, state, number, attempt)
        elif attempt.phase == "gone":
            yield from _is_gone(state, number, attempt)
        else:
            yield from _acts(scene, state, number, attempt)
        yield from _heartbeat(scene, state, number, attempt)


def _claims(state: State, number: int, worker: Worker) -> Iterator[Move]:
    if Worker() in state.workers[:number]:
        return  # two workers that never worked are alike: the first of them goes
    for task, row in enumerate(state.db.tasks):
        if row.state == "ready":
            token = f"worker {number}.{worker.life}"
            request = Request("claim", token, task)
            asking = with_worker(state, number, worker._replace(attempt=Attempt(task, token)))
            yield f"{token}: asks for task {task}", send(asking, number, request)


def _failures(scene: Scene, state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    if state.left.crashes:
        yield f"{attempt.token}: crashes", spend(without_attempt(state, number), "crashes")
    if state.left.mistrusts and attempt.trust and attempt.phase not in ("asking", "gone"):
        doubting = with_attempt(state, number, attempt._replace(trust=False))
        yield f"{attempt.token}: trusts its lease no longer", spend(doubting, "mistrusts")


# -- what was sent and is not answered -----------------------------------------------------------


def _asks_again(scene: Scene, state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    """The same bytes, until there is an answer; nothing else for this number meanwhile."""
    sent = attempt.sent
    under_way = (sent, 0) in state.flight
    if attempt.silent and not under_way:
        yield from _sends_again(scene, state, number, attempt, request_of(sent))
    if state.left.late and under_way and (sent, 1) not in state.flight:
        copies = spend(in_flight(state, sent, copy=1), "late")
        yield f"{attempt.token}: hears nothing, sends the same again", copies


def _sends_again(
    scene: Scene, state: State, number: int, attempt: Attempt, request: Request
) -> Iterator[Move]:
    yield f"{attempt.token}: sends the same again", send(state, number, request)
    if "sent again in other bytes" in scene.broken and request.verb == "append":
        acts = [Act(entry.kind, entry.holder, entry.about) for entry in request.entries]
        quoted = logs.fold(attempt.quote).last
        other = request._replace(entries=logs.entries(quoted, acts, attempt.token, at=1))
        yield f"{attempt.token}: sends it again with a new at_ms", send(state, number, other)
    if "another entry for the same number" in scene.broken and request.verb == "append":
        release = _letting_go(scene, attempt, [Act("lease.released", 0, ("trust",))])
        yield f"{attempt.token}: sends a release instead", send(state, number, release)


def _is_gone(state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    if state.left.notes:
        fold = logs.fold(attempt.quote)
        note = logs.entries(fold.last, [Act("note", attempt.epoch)], attempt.token)
        request = Request("append", attempt.token, attempt.task, attempt.epoch, note)
        yield f"{attempt.token}: a late finally", spend(send(state, number, request), "notes")
    yield f"{attempt.token}: is done", without_attempt(state, number)


def _heartbeat(scene: Scene, state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    """Renews by the grant's name; hears of a cancel, or that the lease is gone."""
    if attempt.phase in ("asking", "gone"):
        return
    task = state.db.tasks[attempt.task]
    if task.lock.startswith("reaper"):
        return  # skipped: ask again
    grant = logs.fold(attempt.quote).grant
    if task.lease is None or task.lease.grant != grant:
        if attempt.trust:
            doubting = attempt._replace(trust=False)
            yield f"{attempt.token}: hears that it is lost", with_attempt(state, number, doubting)
        return
    if not task.lease.lapsed and task.cancel == attempt.cancel_heard:
        return
    renewed = task._replace(lease=task.lease._replace(lapsed=False))
    state = state._replace(db=state.db.with_task(attempt.task, renewed))
    after = attempt._replace(cancel_heard=task.cancel)
    heard = " and hears of the cancel" if task.cancel else ""
    yield f"{attempt.token}: renews{heard}", with_attempt(state, number, after)


# -- the next act --------------------------------------------------------------------------------


def _acts(scene: Scene, state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    fold = logs.fold(attempt.quote)
    if not attempt.trust:
        release = _letting_go(scene, attempt, [Act("lease.released", 0, ("trust",))])
        yield f"{attempt.token}: gives back without trust", send(state, number, release)
    elif attempt.cancel_heard:
        ends = _letting_go(scene, attempt, [Act("task.cancelled", 0)])
        yield f"{attempt.token}: acknowledges the cancel", send(state, number, ends)
    else:
        yield from _ways_to_stop(scene, state, number, attempt)
    stopped = attempt.cancel_heard or not attempt.trust
    act = scene.scripts[attempt.task][fold.results]
    if attempt.phase.startswith("probed ") and not stopped:
        yield from _begins(scene, state, number, attempt, act)
    elif attempt.phase == "acting" and not stopped:
        yield from _next_of_script(scene, state, number, attempt, act)
    elif attempt.phase == "call" and (
        not stopped or "no second look before the call" in scene.broken
    ):
        yield from _calls(scene, state, number, attempt, act)
    elif attempt.phase == "called":
        outcome = _append(attempt, Act("effect.applied", attempt.epoch, (act,)))
        yield f"{attempt.token}: has the outcome of {act}", send(state, number, outcome)
    elif attempt.phase in ("doubt", "probe") and not stopped:
        yield from _resolves(scene, state, number, attempt, act)


def _ways_to_stop(scene: Scene, state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    if state.left.drains:
        release = _letting_go(scene, attempt, [Act("lease.released", 0, ("drain",))])
        yield f"{attempt.token}: is drained", spend(send(state, number, release), "drains")
    if state.left.fails and attempt.phase == "acting":
        failure = _letting_go(scene, attempt, [Act("attempt.failed", 0)])
        yield f"{attempt.token}: the agent raises", spend(send(state, number, failure), "fails")


def _next_of_script(
    scene: Scene, state: State, number: int, attempt: Attempt, act: str
) -> Iterator[Move]:
    if act == "step":
        step = _append(attempt, *_replayed(scene, attempt), Act("step.done", attempt.epoch))
        yield f"{attempt.token}: does a step", send(state, number, step)
    elif act == "pair":
        two = [Act("step.done", attempt.epoch)] * 2
        pair = _append(attempt, *_replayed(scene, attempt), *two)
        yield f"{attempt.token}: does two steps at once", send(state, number, pair)
    elif act == "wait":
        yield from _waits(scene, state, number, attempt)
    elif act == "end":
        ends = _letting_go(scene, attempt, [Act("task.succeeded", 0)])
        yield f"{attempt.token}: ends", send(state, number, ends)
    else:
        yield from _begins(scene, state, number, attempt, act)


def _append(attempt: Attempt, *acts: Act) -> Request:
    frozen = logs.entries(logs.fold(attempt.quote).last, acts, attempt.token)
    return Request("append", attempt.token, attempt.task, attempt.epoch, frozen)


def _replayed(scene: Scene, attempt: Attempt) -> list[Act]:
    if logs.fold(attempt.quote).replayed or "no replay before the first act" in scene.broken:
        return []
    return [Act("replay.finished", attempt.epoch)]


def _letting_go(scene: Scene, attempt: Attempt, last: list[Act]) -> Request:
    """What lets a lease go, and what is written instead if a cancel is found under the lock.

    Both are frozen here: whichever of the two stands, the sender knows it for his own.
    """
    fold = logs.fold(attempt.quote)
    shown = _shown(scene, fold)
    ends = last[-1].kind in logs.FINAL_KINDS
    acts = [*(shown if ends else ()), *last]
    instead = (
        () if ends else logs.entries(fold.last, [*shown, Act("task.cancelled", 0)], attempt.token)
    )
    if "release keeps its holder" in scene.broken:
        acts[-1] = acts[-1]._replace(holder=attempt.epoch)
    frozen = logs.entries(fold.last, acts, attempt.token)
    return Request("let go", attempt.token, attempt.task, attempt.epoch, frozen, instead)


def _shown(scene: Scene, fold: Fold) -> list[Act]:
    if "no unknown before final" in scene.broken:
        return []
    return [Act("effect.unknown", fold.epoch, (key,)) for key in fold.open_intents()]


def _waits(scene: Scene, state: State, number: int, attempt: Attempt) -> Iterator[Move]:
    fold = logs.fold(attempt.quote)
    unread = [n for n, consumed in state.db.tasks[attempt.task].signals if not consumed]
    if fold.waited and unread:
        ended = Act("wait.ended", attempt.epoch, (unread[0],))
        consumes = _append(attempt, *_replayed(scene, attempt), ended)
        yield f"{attempt.token}: has signal {unread[0]}", send(state, number, consumes)
    elif fold.waited and state.left.timers == 0:
        # Woken by the timer: it has fired, and nothing is there to read.
        timeout = Act("wait.ended", attempt.epoch, ("timeout",))
        ends = _append(attempt, *_replayed(scene, attempt), timeout)
        yield f"{attempt.token}: the wait has timed out", send(state, number, ends)
    else:
        acts = [*_replayed(scene, attempt), Act("wait.started", 0)]
        yield f"{attempt.token}: waits", send(state, number, _letting_go(scene, attempt, acts))


# -- effects -------------------------------------------------------------------------------------


def _begins(scene: Scene, state: State, number: int, attempt: Attempt, key: str) -> Iterator[Move]:
    quoted = logs.fold(attempt.quote).last
    acts = _replayed(scene, attempt)
    intended = [*acts, Act("effect.intended", attempt.epoch, (key,))]
    reused = [*acts, Act("effect.reused", attempt.epoch, (key,))]
    request = Request(
        "begin",
        attempt.token,
        attempt.task,
        attempt.epoch,
        logs.entries(quoted, intended, attempt.token),
        logs.entries(quoted, reused, attempt.token),
        key,
    )
    probes_first = "probe before take-over" in scene.broken and attempt.phase == "acting"
    if probes_first and _in_doubt(state, attempt, key):
        if _nothing_under_way(state, number, key):
            phase = "called" if world_of(state, key).applied else "call"
            probed = with_attempt(state, number, attempt._replace(phase="probed " + phase))
            yield f"{attempt.token}: probes {key} before it has taken it over", probed
        return
    yield f"{attempt.token}: begins {key}", send(state, number, request)


def _in_doubt(state: State, attempt: Attempt, key: str) -> bool:
    row = state.db.effect(key)
    if row.state != "intended":
        return False
    lease = state.db.tasks[row.task].lease
    return row.task == attempt.task or lease is None or lease.grant != row.grant


def _nothing_under_way(state: State, number: int, key: str) -> bool:
    """A probe waits for the end of the old lease's trust, and for the calls made under it.

    (That this wait is long enough is a matter of time: ``lease_time.py``.)
    """
    if world_of(state, key).packets:
        return False
    for other, worker in enumerate(state.workers):
        attempt = worker.attempt
        if other == number or attempt is None or attempt.phase in ("asking", "gone"):
            continue
        lease = state.db.tasks[attempt.task].lease
        leased = lease is not None and lease.grant == logs.fold(attempt.quote).grant
        if attempt.trust and not leased:
            return False
    return True


def _calls(scene: Scene, state: State, number: int, attempt: Attempt, key: str) -> Iterator[Move]:
    """Trust and cancel were looked at right before; from here on the world may act."""
    world = world_of(state, key)
    sent_key = f"{key}/{attempt.epoch}" if "epoch in the key" in scene.broken else key
    world = world._replace(
        calls=world.calls + (scene.on_unknown == "ask"),
        packets=world.packets | {(sent_key, attempt.token)},
    )
    after = with_world(state, key, world)
    after = with_attempt(after, number, attempt._replace(phase="calling"))
    if attempt.cancel_heard or not attempt.trust:
        after = after._replace(wrong=CALLED_IN_TRUST)
    yield f"{attempt.token}: calls the world with {sent_key}", after


def _resolves(
    scene: Scene, state: State, number: int, attempt: Attempt, key: str
) -> Iterator[Move]:
    """The holder of a doubt, by the policy of its tool."""
    if scene.on_unknown == "retry":
        again = with_attempt(state, number, attempt._replace(phase="call"))
        yield f"{attempt.token}: will call again with the same key", again
    elif scene.on_unknown == "probe":
        if not _nothing_under_way(state, number, key):
            return
        applied = bool(world_of(state, key).applied)
        after = attempt._replace(phase="called" if applied else "call")
        answer = "applied" if applied else "not applied"
        yield f"{attempt.token}: probes {key}: {answer}", with_attempt(state, number, after)
    else:
        acts = [
            Act("effect.unknown", attempt.epoch, (key,)),
            Act("lease.released", 0, ("review",)),
        ]
        yield (
            f"{attempt.token}: asks a person",
            send(state, number, _letting_go(scene, attempt, acts)),
        )
