"""Outlast: a task outlasts its worker.

Names are loaded when they are asked for, so that `import outlast` costs next to nothing.
"""

from __future__ import annotations

# `typing` alone costs more than everything else here.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from .client import Client, TaskHandle, connect
    from .core.errors import (
        AttemptEnded,
        BadSetting,
        BrokenChain,
        Cancelled,
        Drained,
        EffectConflict,
        EffectUnknown,
        KeyReused,
        LeaseLost,
        LeaseLostNow,
        NeedsReview,
        NotAllowedNow,
        NotDone,
        NotSerializable,
        OutlastError,
        PayloadTooLarge,
        Refused,
        ReplayMismatch,
        Reviewed,
        SchemaMismatch,
        Suspended,
        TaskCancelled,
        TaskEnded,
        TaskFailed,
        TimedOut,
        Unavailable,
        UnknownAgent,
        UnknownEffect,
        UnknownTask,
        UnknownWorker,
        UsageError,
    )
    from .worker.act import Applied
    from .worker.app import App
    from .worker.context import Context, PlainContext, current

__version__ = "0.1.0"

_HOMES = {
    "client": ("Client", "TaskHandle", "connect"),
    "core.errors": (
        "AttemptEnded",
        "BadSetting",
        "BrokenChain",
        "Cancelled",
        "Drained",
        "EffectConflict",
        "EffectUnknown",
        "KeyReused",
        "LeaseLost",
        "LeaseLostNow",
        "NeedsReview",
        "NotAllowedNow",
        "NotDone",
        "NotSerializable",
        "OutlastError",
        "PayloadTooLarge",
        "Refused",
        "ReplayMismatch",
        "Reviewed",
        "SchemaMismatch",
        "Suspended",
        "TaskCancelled",
        "TaskEnded",
        "TaskFailed",
        "TimedOut",
        "Unavailable",
        "UnknownAgent",
        "UnknownEffect",
        "UnknownTask",
        "UnknownWorker",
        "UsageError",
    ),
    "worker.app": ("App",),
    "worker.context": ("Context", "PlainContext", "current"),
    "worker.act": ("Applied",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "App",
    "Applied",
    "AttemptEnded",
    "BadSetting",
    "BrokenChain",
    "Cancelled",
    "Client",
    "Context",
    "Drained",
    "EffectConflict",
    "EffectUnknown",
    "KeyReused",
    "LeaseLost",
    "LeaseLostNow",
    "NeedsReview",
    "NotAllowedNow",
    "NotDone",
    "NotSerializable",
    "OutlastError",
    "PayloadTooLarge",
    "PlainContext",
    "Refused",
    "ReplayMismatch",
    "Reviewed",
    "SchemaMismatch",
    "Suspended",
    "TaskCancelled",
    "TaskEnded",
    "TaskFailed",
    "TaskHandle",
    "TimedOut",
    "Unavailable",
    "UnknownAgent",
    "UnknownEffect",
    "UnknownTask",
    "UnknownWorker",
    "UsageError",
    "connect",
    "current",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'outlast' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
