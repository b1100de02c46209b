"""OpenTelemetry: a trace an attempt, linked to the one before, with its steps and effects below."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import outlast
from outlast.testing import run

exporter = InMemorySpanExporter()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
    exporter.clear()
    yield exporter
    exporter.clear()


async def agent(ctx: outlast.Context) -> str:
    plan = await ctx.step("plan", lambda: "a plan")
    await ctx.effect("mail", lambda: "sent")
    return str(plan)


def test_each_attempt_is_a_trace_that_links_to_the_one_before(spans: Any) -> None:
    """Of a life that was killed only what had ended is exported: by that its heir finds it."""
    ran = run(agent, crash_after=3)
    assert ran.result == "a plan"
    found: tuple[ReadableSpan, ...] = spans.get_finished_spans()
    [first] = [span for span in found if span.name == "plan"]
    [second] = [span for span in found if span.name == "attempt agent"]
    assert (first.attributes["outlast.epoch"], second.attributes["outlast.epoch"]) == (1, 2)
    assert first.context.trace_id != second.context.trace_id
    assert [link.context.trace_id for link in second.links] == [first.context.trace_id]
    assert second.attributes["outlast.reason"] == "expired"


def test_steps_and_effects_are_children_of_their_attempt(spans: Any) -> None:
    run(agent)
    found = {span.name: span for span in spans.get_finished_spans()}
    whole = found["attempt agent"]
    for name in ("plan", "mail"):
        assert found[name].parent.span_id == whole.context.span_id
        assert found[name].attributes["outlast.task"] == whole.attributes["outlast.task"]


def test_what_raises_is_on_its_span(spans: Any) -> None:
    async def fails(ctx: outlast.Context) -> None:
        await ctx.step("divide", lambda: 1 / 0)

    run(fails)
    [span] = [span for span in spans.get_finished_spans() if span.name == "divide"]
    assert span.status.status_code.name == "ERROR"


def test_a_worker_imports_nothing_of_it() -> None:
    code = "import sys, outlast.worker.worker; print('opentelemetry' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
