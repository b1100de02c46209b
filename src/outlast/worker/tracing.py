"""Spans for OpenTelemetry, where the process uses it: a trace an attempt, linked to the one before.

Only the API is called, and only if somebody has imported it; what becomes of spans is the affair of
the SDK that the user has set up. The ids that a trace begins with are derived from the task and its
epoch, so that an heir can link to a life that left nothing behind.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

NOBODY_ASKS = nullcontext()


@contextmanager
def attempt(facts: dict[str, Any]) -> Iterator[None]:
    """Around one attempt; `facts`: its task, agent, epoch and reason."""
    trace = _api()
    if trace is None:
        yield
        return
    task, epoch = facts["task"], facts["epoch"]
    before = [trace.Link(_context(trace, task, epoch - 1))] if epoch > 1 else []
    parent = trace.set_span_in_context(trace.NonRecordingSpan(_context(trace, task, epoch)))
    with _tracer(trace).start_as_current_span(
        f"attempt {facts['agent']}", parent, attributes=_named(facts), links=before
    ):
        yield


def act(name: str, facts: Callable[[], dict[str, Any]]) -> AbstractContextManager[Any]:
    """Around a step, or a call of a tool: a child of its attempt."""
    trace = _api()
    if trace is None:
        return NOBODY_ASKS
    span: AbstractContextManager[Any] = _tracer(trace).start_as_current_span(
        name, attributes=_named(facts())
    )
    return span


def _api() -> Any:
    return sys.modules.get("opentelemetry.trace")


def _tracer(trace: Any) -> Any:
    return trace.get_tracer("outlast")


def _named(facts: dict[str, Any]) -> dict[str, Any]:
    return {f"outlast.{name}": value for name, value in facts.items()}


def _context(trace: Any, task_id: str, epoch: int) -> Any:
    """Whose child an attempt is: nobody's, but with a trace id that its heir can work out."""
    digest = hashlib.sha256(f"outlast {task_id} {epoch}".encode()).digest()
    return trace.SpanContext(
        trace_id=int.from_bytes(digest[:16]),
        span_id=int.from_bytes(digest[16:24]),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
