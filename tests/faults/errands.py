"""What workers of these tests do: errands with every kind of act."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import outlast
from tests.faults.bank import BankClient

app = outlast.App()
BANK = BankClient(os.environ.get("ERRANDS_BANK", ""))
AMOUNTS = {"deposit": 10, "pay": 32, "fee": 1}
WALK_S = 0.1
# Tools that make keys of their own: the lives of such workers must be found wanting.
CARELESS = bool(os.environ.get("ERRANDS_CARELESS"))
RESULT = {"plan": "buy", "approved": True, "paid": 43}


@app.agent(kill_after="1s")
async def errand(ctx: outlast.Context) -> dict[str, Any]:
    """Plan, put money down, wait for a word, pay what is left."""
    paid = 0
    if ctx.restored is None:
        plan = await ctx.step("plan", make_plan)
        paid += await ctx.effect("deposit", pay, AMOUNTS["deposit"], on_unknown="retry")
        await ctx.checkpoint({"plan": plan, "paid": paid})
    else:
        plan, paid = ctx.restored["plan"], ctx.restored["paid"]
    approved = await ctx.wait("approval")
    paid += await ctx.effect("pay", pay, AMOUNTS["pay"], on_unknown=look_up)
    paid += await ctx.effect(
        "fee", pay, AMOUNTS["fee"], key=f"{ctx.task_id}-fee", on_unknown="retry"
    )
    return {"plan": plan, "approved": approved, "paid": paid}


@app.agent(kill_after="1s")
async def trek(ctx: outlast.Context, legs: int) -> int:
    """Walk a while and pay a toll, again and again."""
    paid = 0
    for leg in range(legs):
        await ctx.step(f"walk {leg}", asyncio.sleep, WALK_S)
        paid += await ctx.effect(f"toll {leg}", pay, 1, on_unknown="retry")
    return paid


@app.agent(kill_after="1s")
async def dawdle(ctx: outlast.Context) -> None:
    """It never ends by itself."""
    await ctx.step("begin", make_plan)
    await ctx.step("dawdle", asyncio.sleep, 600)


def make_plan() -> str:
    return "buy"


def pay(amount: int, idempotency_key: str) -> int:
    if CARELESS:
        idempotency_key += f" of process {os.getpid()}"
    paid: int = BANK.pay(idempotency_key, amount)["amount"]
    return paid


def look_up(key: str) -> int | None:
    return BANK.moved(key)
