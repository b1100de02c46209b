"""The agents that are measured; run by a real `outlast worker`."""

from __future__ import annotations

import asyncio
import os
import resource
import signal

import outlast

app = outlast.App()


@app.agent
async def long_log(ctx: outlast.Context, steps: int) -> dict[str, int]:
    """So many steps; the first worker dies at the end of them, the heir says what replay took."""
    for number in range(steps):
        await ctx.step("step", same, number)
    await ctx.step("die once", die_in, ctx.epoch)
    return {"peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}


@app.agent
async def chain(ctx: outlast.Context, steps: int) -> int:
    """Steps one after the other, each small."""
    for number in range(steps):
        await ctx.step("step", same_async, number)
    return steps


@app.agent
async def pacer(ctx: outlast.Context) -> None:
    """Small steps with a pause in each, until it is cancelled."""
    for number in range(3_000):
        await ctx.step("step", paced, number)


@app.agent
async def sleeper(ctx: outlast.Context) -> str:
    await ctx.sleep("1h")
    return "awake"


def same(number: int) -> int:
    return number


async def same_async(number: int) -> int:
    return number


async def paced(number: int) -> int:
    await asyncio.sleep(0.05)
    return number


def die_in(epoch: int) -> int:
    if epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return epoch
