"""The agent of the demo: it plans, writes and sends letters, as slowly as an agent would."""

from __future__ import annotations

import json
import os
import time
import urllib.request

import outlast

app = outlast.App()
WRITING_S = 0.8


@app.agent
async def send_letters(ctx: outlast.Context, names: list[str]) -> list[str]:
    """One letter to each; the receipts."""
    order = await ctx.step("plan", plan, names)
    receipts = []
    for name in order:
        text = await ctx.step(f"write {name}", write, name)
        receipts.append(await ctx.effect(f"send-email {name}", send_email, name, text))
    return receipts


def plan(names: list[str]) -> list[str]:
    return sorted(names)


def write(name: str) -> str:
    """Takes a while, as a model would: here the workers die."""
    time.sleep(WRITING_S)
    return f"Dear {name}, this was written by process {os.getpid()}."


def send_email(name: str, text: str) -> str:
    """Hand a letter to the mailbox, which knows nothing of keys: twice sent is twice there."""
    letter = json.dumps({"to": name, "text": text, "pid": os.getpid()}).encode()
    with urllib.request.urlopen(os.environ["OUTLAST_DEMO_MAILBOX"], letter, timeout=5) as answer:
        return str(json.load(answer)["receipt"])
