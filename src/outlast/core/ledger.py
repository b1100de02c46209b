"""The effect ledger as the fold of the log: what each event says of an act on the outside world."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from msgspec.structs import replace

from .lifecycle import Body, body_of, payload_of, raw_text
from .model import Effect, EffectState, Event

OUTCOMES: dict[str, EffectState] = {
    "effect.applied": "applied",
    "effect.failed": "failed",
    "effect.unknown": "unknown",
}


def outcome_state(event: Event, body: Body) -> EffectState | None:
    """The state that an outcome event puts its effect in; None for other kinds."""
    if event.kind == "effect.settled":
        return "applied" if body["applied"] else "not_applied"
    return OUTCOMES.get(event.kind)


def intended(event: Event) -> Effect:
    """The ledger's row that `effect.intended` makes, or makes anew."""
    body = body_of(event)
    return Effect(
        key=body["key"],
        task_id=event.task_id,
        name=body["name"],
        tool=body["tool"],
        fingerprint=body["fingerprint"],
        shared=int(body.get("shared") or 0),
        state="intended",
        tries=body.get("try", 1),
        intent_seq=event.seq,
        outcome_seq=None,
        result=None,
        error=None,
        observed=None,
        intended_ms=event.at_ms,
        settled_ms=None,
    )


def with_outcome(effect: Effect, event: Event) -> Effect:
    """The row after an outcome of it."""
    body = body_of(event)
    payload = payload_of(event)
    state = outcome_state(event, body)
    if state is None:
        return effect
    return replace(
        effect,
        state=state,
        outcome_seq=event.seq,
        result=raw_text(payload.result),
        error=raw_text(payload.error),
        settled_ms=event.at_ms,
    )


def fold_effects(events: Iterable[Event]) -> dict[str, Effect]:
    """Every effect that one task's log began, by key, in its last state."""
    effects: dict[str, Effect] = {}
    for event in events:
        if event.kind == "effect.intended":
            effect = intended(event)
            effects[effect.key] = effect
        elif event.kind in OUTCOMES or event.kind == "effect.settled":
            key = cast(str, body_of(event)["key"])
            if key in effects:
                effects[key] = with_outcome(effects[key], event)
    return effects
