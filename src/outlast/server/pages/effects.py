"""The page on effects: those in doubt first, since a person must say how they ended."""

from __future__ import annotations

from ...core import limits
from ...core.model import Effect
from ...store.verbs import EffectQuery, Store
from ...view.shapes import json_value
from ..asked import Asked
from .fleet import Fleet
from .page import Facts, Page


def look(fleet: Fleet, store: Store, asked: Asked) -> Facts:
    """What is in doubt; the newest of all others where they are asked for (`all`)."""
    doubts = store.find_effects(EffectQuery(in_doubt=True, limit=limits.LIST_ROWS))
    others: list[Effect] = []
    if asked.one("all"):
        # Only then: the whole ledger is sorted for it.
        newest = store.find_effects(EffectQuery(limit=limits.LIST_ROWS))
        keys = {effect.key for effect in doubts}
        others = [effect for effect in newest if effect.key not in keys]
    counts = fleet.counts.of(store)
    return {
        "doubts": doubts,
        "unknown": sum(counts.unknown.values()),
        "unknown_ms": counts.unknown_ms,
        "others": others,
        "all": bool(asked.one("all")),
        "most": limits.LIST_ROWS,
        "now_ms": store.now_ms(),
    }


def outcome(effect: Effect) -> str:
    """What is known of how it ended: a result, an error, or what came too late to be fenced."""
    return effect.result or effect.error or effect.observed or ""


def observed_applied(effect: Effect) -> bool:
    """Whether somebody who came too late has seen that it was applied."""
    seen = json_value(effect.observed)
    return isinstance(seen, dict) and bool(seen.get("applied"))


EFFECTS = Page("effects", "/effects", look, knows=("all",))
