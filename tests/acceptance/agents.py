"""The agents of these tests. Their steps and tools call the witness, where a test may hold them."""

from __future__ import annotations

import asyncio
import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import time
import urllib.request
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import outlast

app = outlast.App()
# Long enough for any test; a step that is never let go ends with its process.
CALL_S = 300.0


# -- the ways to the witness ----------------------------------------------------------------------


def tell(name: str, key: str | None = None, *, keyed: bool = False) -> str:
    """Call the witness, blocking; its receipt."""
    return str(_post("/call", {"name": name, "key": key, "keyed": keyed, "pid": os.getpid()}))


async def tell_async(name: str) -> str:
    """The same without a thread, so that it can be cancelled."""
    where = urlsplit(os.environ["WITNESS"])
    body = json.dumps({"name": name, "key": None, "keyed": False, "pid": os.getpid()}).encode()
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        head = f"POST /call HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
    return str(json.loads(answer.rpartition(b"\r\n\r\n")[2]))


def _post(path: str, asked: dict[str, Any]) -> Any:
    request = urllib.request.Request(os.environ["WITNESS"] + path, json.dumps(asked).encode())
    with urllib.request.urlopen(request, timeout=CALL_S) as answer:
        return json.load(answer)


# -- steps ----------------------------------------------------------------------------------------


@app.agent(kill_after="2s")
async def walk(ctx: outlast.Context, steps: list[str]) -> list[str]:
    """One step after the other, each a plain function on a thread."""
    return [await ctx.step(name, tell, name) for name in steps]


@app.agent(kill_after="2s")
async def walk_async(ctx: outlast.Context, steps: list[str]) -> list[str]:
    """The same with steps that can be cancelled."""
    return [await ctx.step(name, tell_async, name) for name in steps]


@app.agent
def walk_plain(ctx: outlast.PlainContext, steps: list[str]) -> list[str]:
    """The same as a plain agent."""
    return [ctx.step(name, tell, name) for name in steps]


@app.agent
async def fails_at(ctx: outlast.Context, step: str) -> None:
    """Its only step raises, once the witness has let it."""
    await ctx.step(step, _fail_after, step)


def _fail_after(name: str) -> None:
    tell(name)
    raise RuntimeError("the tool fails")


@app.agent
async def hides_a_drain(ctx: outlast.Context, step: str, how: str) -> str:
    """Turns what tells it to stop into something else: an error, or a result."""
    try:
        await ctx.step(step, tell, step)
        await ctx.step(f"{step}, again", tell, step)
    except BaseException:
        if how == "raises":
            raise RuntimeError("could not finish") from None
        return "a made-up result"
    return "the true result"


@app.agent
async def returns_after(ctx: outlast.Context, call: str) -> str:
    """Ends by itself, without another word to Outlast."""
    await ctx.step("before", tell, "before the last call")
    await tell_async(call)
    return "ended by itself"


@app.agent
async def walks_with_gaps(ctx: outlast.Context, steps: list[str]) -> list[str]:
    """Between its steps it does something that is recorded nowhere."""
    found = []
    for name in steps:
        found.append(await ctx.step(name, tell, name))
        await tell_async(f"after {name}")
    return found


@app.agent(retries=5, backoff="1h", backoff_max="1h")
async def fails(ctx: outlast.Context, name: str) -> None:
    await ctx.step(name, tell, name)
    raise RuntimeError("as it always does")


@app.agent
async def waits(ctx: outlast.Context, name: str) -> Any:
    await ctx.step("before", tell, f"before {name}")
    return await ctx.wait(name)


@app.agent
async def sleeps(ctx: outlast.Context, duration: str) -> str:
    await ctx.step("before", tell, "before the sleep")
    await ctx.sleep(duration)
    return "awake"


# -- what holds up a worker -----------------------------------------------------------------------


@app.agent
async def blocks(ctx: outlast.Context, how: str, seconds: float) -> str:
    """Holds up its own event loop, in one of several ways."""
    await ctx.step("before", tell, "before the block")
    HOW[how](seconds)
    return await ctx.step("after", tell, "after the block")


def _with_the_lock(seconds: float) -> None:
    """A call into C that keeps the interpreter's lock, as a big regex or power does."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def _without_the_lock(seconds: float) -> None:
    """A call into C that gives the lock back."""
    ctypes.CDLL(None).usleep(int(seconds * 1e6))


def _a_big_power(seconds: float) -> None:
    """Real arithmetic that keeps the lock: one division that takes about so long."""
    end = time.monotonic() + seconds
    digits = 100_000
    while time.monotonic() < end:
        began = time.monotonic()
        pow(7, digits) % pow(3, digits)
        if time.monotonic() - began < seconds / 4:
            digits *= 2


HOW = {
    "sleep": time.sleep,
    "c": _without_the_lock,
    "gil": _with_the_lock,
    "power": _a_big_power,
}


@app.agent(max_resumes=3)
async def kills_its_worker(ctx: outlast.Context, how: str) -> None:
    """Takes its whole process with it."""
    await tell_async("poison")
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGSEGV)
    await asyncio.sleep(CALL_S)


@app.agent(kill_after="1s")
async def swallows(ctx: outlast.Context, catches: str) -> str:
    """Catches what it should let pass, and goes on acting."""
    kinds: tuple[type[BaseException], ...] = (Exception,)
    if catches == "everything":
        kinds = (BaseException,)
    for number in range(1_000):
        try:
            await ctx.step(f"turn {number}", tell_async, "a turn")
        except kinds:
            tell("swallowed")
        await asyncio.sleep(0.02)
    return "went on"


@app.agent(kill_after="1s")
async def never_stops(ctx: outlast.Context) -> None:
    """Plain code on a thread that nothing can interrupt."""
    await ctx.step("forever", tell, "forever")


@app.agent
async def takes_its_time(ctx: outlast.Context, seconds: float) -> str:
    """A step that ends by itself."""
    return await ctx.step("slow", _slowly, seconds)


def _slowly(seconds: float) -> str:
    time.sleep(seconds)
    return tell("slow")


# -- effects --------------------------------------------------------------------------------------


def charge(idempotency_key: str, tool: str) -> str:
    """A tool of any class: how it is registered says whether the world honours the key."""
    receipt = tell(f"charge {tool}", idempotency_key, keyed=tool == "keyed")
    tell(f"receipt of {tool}")
    return receipt


def find_charge(key: str) -> Any:
    """The probe: the receipt, or None if there is none."""
    return _post("/find", {"key": key})


POLICIES: dict[str, Any] = {"keyed": "retry", "queryable": find_charge, "plain": "ask"}


@app.agent(kill_after="2s")
async def buys(ctx: outlast.Context, tool: str) -> list[str]:
    """One effect between two steps."""
    first = await ctx.step("before", tell, "before the charge")
    bought = partial(charge, tool=tool)
    receipt = await ctx.effect("charge", bought, on_unknown=POLICIES[tool], tool=f"charge_{tool}")
    return [first, receipt, await ctx.step("after", tell, "after the charge")]


@app.agent(kill_after="2s")
async def buys_under(ctx: outlast.Context, key: str, tool: str) -> str:
    """An effect under a key that other tasks use too."""
    bought = partial(charge, tool=tool)
    return str(await ctx.effect("charge", bought, key=key, on_unknown=POLICIES[tool]))


@app.agent
async def buys_many(ctx: outlast.Context, count: int) -> list[str]:
    """Effects side by side, each by a tool that honours its key."""

    async def one(number: int) -> str:
        def act(idempotency_key: str) -> str:
            return tell(f"charge {number}", idempotency_key, keyed=True)

        return str(await ctx.effect(f"charge {number}", act, on_unknown="retry", tool="charge"))

    return await ctx.gather(*(one(number) for number in range(count)))


@app.agent
async def tries_again(ctx: outlast.Context) -> str:
    """A tool that says twice that nothing reached the world."""
    tries = iter(range(10))

    def act(idempotency_key: str) -> str:
        if next(tries) < 2:
            tell("declined", idempotency_key)
            raise outlast.NotDone("the card was declined")
        return tell("charge", idempotency_key, keyed=True)

    return str(await ctx.effect("charge", act, retries=5, backoff="10ms"))


@app.agent
async def asks_first(ctx: outlast.Context) -> str:
    """Acts with exactly what was approved, once."""
    approved = await ctx.wait("approval")

    def act(amount: int, idempotency_key: str) -> str:
        return tell(f"charge {amount}", idempotency_key)

    return str(await ctx.effect("charge", act, approved["amount"]))


# -- processes below a worker ---------------------------------------------------------------------

# One in a session of its own, one below that, and one whose parent is gone already.
FAMILY = """
setsid sh -c 'sleep 600 & echo $!; echo $$; wait' &
(setsid sleep 600 & echo $!)
sleep 0.5
"""


@app.agent
async def has_a_family(ctx: outlast.Context) -> None:
    """Leaves processes that a signal to its group does not reach; their pids are on the log."""
    await ctx.step("family", _start_family)
    await ctx.step("stay", tell, "stay")


def _start_family() -> list[int]:
    run = subprocess.Popen(["sh", "-c", FAMILY], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    return [int(run.stdout.readline()) for _ in range(3)]


@app.agent
async def ends_a_child(ctx: outlast.Context) -> int:
    return int(await ctx.step("end it", _end_a_child))


def _end_a_child() -> int:
    """The exit code of a forked process that was told to end."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(CALL_S,))
    child.start()
    child.terminate()
    child.join(30)
    return child.exitcode or 0


@app.agent
async def leaves_orphans(ctx: outlast.Context) -> None:
    """Its commands end after their parents have."""
    for number in range(3):
        await ctx.step(f"orphan {number}", subprocess.call, ["sh", "-c", "sleep 0.1 &"])
    await ctx.step("stay", tell, "stay")
