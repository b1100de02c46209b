"""A checkpoint bounds what is read on resume, and nothing above it is done again."""

from __future__ import annotations

import pytest

import outlast
from outlast.testing import run


def test_a_checkpoint_bounds_replay_and_what_follows_keeps_its_keys() -> None:
    """case R74"""
    thoughts: list[int] = []
    mails: list[str] = []

    def think(i: int) -> int:
        thoughts.append(i)
        return i

    def mail(idempotency_key: str) -> str:
        mails.append(idempotency_key)
        return "sent"

    async def thinker(ctx: outlast.Context) -> int:
        done = ctx.restored or 0
        for i in range(done, 50):
            await ctx.step("think", think, i)
        if not done:
            await ctx.checkpoint(50)
        await ctx.effect("email", mail, on_unknown="retry")
        return int(await ctx.step("think", think, 50))

    straight = run(thinker)
    thoughts.clear()
    cut = run(thinker, crash_after=54)  # the intent of the e-mail is on the log, its outcome is not

    for ran in (straight, cut):
        assert ran.result == 50
        assert ran.bodies("step.done")[-1]["key"] == "think#51"
    assert len(thoughts) == 51
    assert [key.split("/")[1] for key in mails] == ["email"] * len(mails)
    [told] = cut.bodies("replay.finished")
    assert told["answered"] == 0


@pytest.mark.parametrize("first", ["effect", "checkpoint", "sleep", "step"])
def test_an_agent_that_does_not_look_at_its_checkpoint_does_nothing_again(first: str) -> None:
    """Its names go on counting, so it would do under new ones what stands above the checkpoint."""
    mails: list[str] = []

    async def careless(ctx: outlast.Context) -> None:
        if first == "checkpoint":
            await ctx.checkpoint("start")
        elif first == "sleep":
            await ctx.sleep("1ms")
        elif first == "step":
            await ctx.step("think", str)
        await ctx.effect("email", lambda: mails.append("sent"))
        await ctx.checkpoint("sent")
        await ctx.sleep("1d")

    ran = run(careless)

    assert mails == ["sent"]
    assert (ran.task.state, ran.task.reason) == ("review", "replay_mismatch")
    assert "ctx.restored" in (ran.task.error or "")
    assert [body["state"] for body in ran.bodies("checkpoint")][-1] == "sent"


def test_a_checkpoint_has_a_state_that_can_be_told_from_none() -> None:
    async def nothing(ctx: outlast.Context) -> None:
        await ctx.checkpoint(None)

    ran = run(nothing)

    assert ran.task.state == "failed"
    assert "cannot be None" in (ran.task.error or "")
    assert "checkpoint" not in ran.kinds


def test_a_checkpoint_is_refused_while_a_step_is_open() -> None:
    async def nested(ctx: outlast.Context) -> None:
        async def inside() -> None:
            await ctx.checkpoint(1)

        await ctx.step("outer", inside)

    ran = run(nested)

    assert ran.task.state == "failed"
    assert "NotAllowedNow" in (ran.task.error or "")
    assert "checkpoint" not in ran.kinds
