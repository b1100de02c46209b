"""Absurd: each step a `ctx.step`; its blocking worker for one task, its asyncio worker for many."""

from __future__ import annotations

import asyncio
import signal
from typing import ClassVar

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from .adapter import System, Words, main, mark, reached, step, step_async

OPEN = "select count(*) from absurd.t_default where state not in ('completed','failed','cancelled')"
CLAIMED = "select max(started_at) from absurd.r_default"
DEFAULT_LEASE_S = 120


class AbsurdSystem(System):
    packages = ("absurd-sdk", "psycopg")
    settings = (
        "One task: its blocking worker (concurrency 1, the default). More: its asyncio worker, "
        "concurrency and batch as many as tasks; its threads and its plain batches were no quicker "
        "beyond the noise, for all of them share one connection. Claims of 120 s and a look every "
        "250 ms are the defaults. The schema of `absurdctl init`."
    )
    cannot: ClassVar = {"batch": "has no call for many"}

    def prepare(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(BUNDLED_SCHEMA_SQL)
        Absurd(self.url).create_queue()

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._app: Absurd | None = None

    @property
    def app(self) -> Absurd:
        self._app = self._app or Absurd(self.url)
        return self._app

    def submit(self, words: Words) -> None:
        self.app.spawn("program", words, queue="default")

    def left(self) -> int:
        with psycopg.connect(self.url) as connection:
            return int(connection.execute(OPEN).fetchone()[0])

    def claimed_ns(self) -> int:
        with psycopg.connect(self.url) as connection:
            return int(connection.execute(CLAIMED).fetchone()[0].timestamp() * 1e9)

    def work(self, slots: int, lease_s: float) -> None:
        lease = int(lease_s) or DEFAULT_LEASE_S
        if slots > 1:
            asyncio.run(self._work_async(slots, lease))
            return
        app = Absurd(self.url)

        @app.register_task("program")
        def program(words, ctx):
            mark("began", words["number"])
            for number in range(words["steps"]):
                ctx.step("step", lambda number=number: step(number, words["ms"]))
            reached(words)

        signal.signal(signal.SIGTERM, lambda *_: app.stop_worker())
        mark("ready")
        app.start_worker(claim_timeout=lease)

    async def _work_async(self, slots: int, lease: int) -> None:
        app = AsyncAbsurd(self.url)

        @app.register_task("program")
        async def program(words, ctx):
            mark("began", words["number"])
            for number in range(words["steps"]):
                await ctx.step("step", lambda number=number: step_async(number, words["ms"]))
            reached(words)

        mark("ready")
        await app.start_worker(claim_timeout=lease, concurrency=slots)


if __name__ == "__main__":
    main(AbsurdSystem)
