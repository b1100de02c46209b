"""Agents whose code behaves badly, for workers that are signalled, frozen and blocked.

Run as a program it is a worker: `python agents.py DB LOG [OPTION=MS ...]`. What agents do is a line
in LOG each, so that what is asserted is what the world saw.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import outlast
from outlast.worker.worker import run

app = outlast.App()
LOG = Path(os.environ.get("AGENTS_LOG", "/dev/null"))


def say(word: str) -> None:
    with LOG.open("a") as log:
        log.write(f"{word} {os.getpid()}\n")


@app.agent(kill_after="1s")
async def steps(ctx: outlast.Context, seconds: float) -> str:
    """Three steps that take so long each."""
    for i in range(3):
        await ctx.step(f"step {i}", work, i, seconds)
    return "done"


async def work(i: int, seconds: float) -> int:
    say(f"begin {i}")
    await asyncio.sleep(seconds)
    say(f"end {i}")
    return i


@app.agent(kill_after="1s")
async def blocks(ctx: outlast.Context, seconds: float) -> str:
    """An async tool that blocks the event loop."""
    await ctx.step("block", block, seconds)
    return "done"


async def block(seconds: float) -> None:
    say("block")
    time.sleep(seconds)  # noqa: ASYNC251 - that is the fault
    say("unblock")


@app.agent(kill_after="1s")
async def hangs(ctx: outlast.Context) -> None:
    """A plain tool that cannot be stopped."""
    await ctx.step("hang", hang)


def hang() -> None:
    say("hang")
    threading.Event().wait()


def tell(kind: str, facts: dict[str, Any]) -> None:
    print(kind, facts, flush=True)


def main() -> int:
    options: dict[str, Any] = {"ttl_ms": 1_000, "poll_ms": 100, "grace_ms": 3_000}
    for word in sys.argv[2:]:
        name, _, value = word.partition("=")
        options[name] = int(value)
    return run(app, db=sys.argv[1], on_event=tell, **options)


if __name__ == "__main__":
    sys.exit(main())
