"""Where running agent code is: its context, its branch, the key of its effect."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .context import Context

current_context: ContextVar[Context | None] = ContextVar("outlast_context", default=None)
current_scope: ContextVar[str] = ContextVar("outlast_scope", default="")
current_key: ContextVar[str | None] = ContextVar("outlast_key", default=None)
