"""Programs: what a task does, as JSON that each target's workload interprets."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

Act = dict[str, Any]
POINTS = ("before", "applied", "answered")
# Acts that the world sees: only there can harm be placed.
SEEN = ("step", "effect")
POLICIES = {"keyed": "retry", "fenced": "ask", "keyless": "ask"}


def step(name: str) -> Act:
    """Work whose result is recorded; done again if its worker dies before that."""
    return {"name": name, "kind": "step", "provider": "step"}


def effect(
    name: str, provider: str, *, queryable: bool = False, policy: str = "", arguments: Any = None
) -> Act:
    """An act on the outside world. `policy`: what a doubt asks for: retry, ask or probe."""
    return {
        "name": name,
        "kind": "effect",
        "provider": provider,
        "queryable": queryable,
        "policy": policy or ("probe" if queryable else POLICIES[provider]),
        "arguments": {"amount": 7} if arguments is None else arguments,
    }


def other(name: str, kind: str, **more: Any) -> Act:
    """An act that the world does not see: sleep, wait, block, die, spawn."""
    return {"name": name, "kind": kind, **more}


def core() -> list[Act]:
    """The program of the enumeration: a step, and an effect of every class of provider."""
    return [
        step("plan"),
        effect("charge", "keyed"),
        effect("email", "keyless"),
        effect("ticket", "keyed", queryable=True),
    ]


def points(acts: Sequence[Act]) -> list[tuple[str, str]]:
    """Every place at which harm can be done: (act, point)."""
    return [(act["name"], point) for act in acts if act["kind"] in SEEN for point in POINTS]


def random_program(chance: Random, *, epochs: bool = True) -> list[Act]:
    """Some acts of any kind, the same for the same chance. `epochs`: whether calls carry one."""
    fenced = "fenced" if epochs else "keyless"
    kinds = [
        lambda name: step(name),
        lambda name: effect(name, "keyed"),
        lambda name: effect(name, "keyless"),
        lambda name: effect(name, "keyed", queryable=True),
        lambda name: effect(name, fenced, policy="ask"),
        lambda name: other(name, "sleep", ms=chance.choice([50, 300])),
    ]
    acts = [chance.choice(kinds)(f"act{number}") for number in range(chance.randint(3, 6))]
    return [step("first"), *acts, effect("last", "keyed")]
