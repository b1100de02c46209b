"""Oban for Python: a worker that runs the program as a whole, embedded, on uvloop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import psycopg
import uvloop
from oban import Oban, worker
from oban.schema import install_sql

from .adapter import System, Words, main, mark, reached, step_async

QUEUE = "programs"
OPEN = "select count(*) from oban_jobs where state in ('available', 'executing', 'scheduled')"
GRACE_S = 25.0


@worker(queue=QUEUE)
class Program:
    async def process(self, job: Any) -> None:
        words = job.args
        mark("began", words["number"])
        for number in range(words["steps"]):
            await step_async(number, words["ms"])
        reached(words)


class ObanSystem(System):
    packages = ("oban", "psycopg", "uvloop")
    may_be_lost = ("oban_leaders", "oban_producers")
    settings = (
        "A queue with as many places as tasks, its pool of ten connections, on uvloop. Insert "
        "triggers, a look every second, rescue after five minutes are the defaults; 25 s for what "
        "is running upon SIGTERM. Oban Pro, which acknowledges in batches, is not open."
    )
    cannot: ClassVar = {"steps": "a job is run again as a whole"}

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._loop = uvloop.new_event_loop()
        self._oban: Oban | None = None

    def prepare(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(install_sql())

    def _ask(self, question: Callable[[Oban], Awaitable[Any]]) -> None:
        async def asked() -> None:
            if self._oban is None:
                self._oban = Oban(pool=await Oban.create_pool(self.url))
            await question(self._oban)

        self._loop.run_until_complete(asked())

    def submit(self, words: Words) -> None:
        self._ask(lambda oban: oban.enqueue(Program.new(words)))

    def submit_many(self, tasks: Sequence[Words]) -> None:
        self._ask(lambda oban: oban.enqueue_many([Program.new(words) for words in tasks]))

    def left(self) -> int:
        with psycopg.connect(self.url) as connection:
            return int(connection.execute(OPEN).fetchone()[0])

    def work(self, slots: int, lease_s: float) -> None:
        uvloop.run(self._work(slots))

    async def _work(self, slots: int) -> None:
        leave = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
        pool = await Oban.create_pool(self.url)
        async with Oban(pool=pool, queues={QUEUE: slots}, shutdown_grace_period=GRACE_S):
            mark("ready")
            await leave.wait()
        await pool.close()


if __name__ == "__main__":
    main(ObanSystem)
