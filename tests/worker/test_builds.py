"""A deploy in the middle of a task: another build goes on with it, and the log says so."""

from __future__ import annotations

from typing import Any

import outlast
from outlast.testing import Harness


def test_another_build_goes_on_with_the_task_and_that_is_on_record(outlast_harness: Any) -> None:
    """case R25"""
    app = outlast.App()

    @app.agent
    async def two_steps(ctx: outlast.Context) -> str:
        first = await ctx.step("first", str.upper, "a")
        return first + str(await ctx.step("second", str.upper, "b"))

    harness: Harness = outlast_harness(app)
    task = harness.submit("two_steps")
    harness.worker(build="41", crash_after=3)
    harness.settle()
    harness.worker(build="42")

    ran = harness.run(task)

    assert ran.result == "AB"
    assert [grant["build"] for grant in ran.bodies("lease.granted")] == ["41", "42"]
