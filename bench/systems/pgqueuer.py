"""PgQueuer: an entrypoint that runs the program as a whole; asyncpg and uvloop, like `pgq run`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import asyncpg
import pgqueuer
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from .adapter import System, Words, main, mark, reached, step_async

BATCH = 1_000
DEFAULT_LEASE_S = 30


class PgQueuerSystem(System):
    packages = ("pgqueuer", "asyncpg")
    settings = (
        "`pgqueuer.run` on uvloop; for one task the default batch of 10, for many tasks batches of "
        "1,000. Heartbeat timeout of 30 s, and a look every 30 s besides its notifications, are "
        "the defaults. Tables logged, the default."
    )
    cannot: ClassVar = {"steps": "a job is run again as a whole"}

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._loop = uvloop.new_event_loop()
        self._queries: Queries | None = None

    def _ask(self, question: Callable[[Queries], Awaitable[Any]]) -> Any:
        async def asked() -> Any:
            if self._queries is None:
                self._queries = Queries(AsyncpgDriver(await asyncpg.connect(self.url)))
            return await question(self._queries)

        return self._loop.run_until_complete(asked())

    def prepare(self) -> None:
        self._ask(lambda queries: queries.install())

    def submit(self, words: Words) -> None:
        self._ask(lambda queries: queries.enqueue("program", json.dumps(words).encode()))

    def submit_many(self, tasks: Sequence[Words]) -> None:
        payloads: list[bytes | None] = [json.dumps(words).encode() for words in tasks]
        names, priorities = ["program"] * len(tasks), [0] * len(tasks)
        self._ask(lambda queries: queries.enqueue(names, payloads, priorities))

    def left(self) -> int:
        return sum(each.count for each in self._ask(lambda queries: queries.queue_size()))

    def work(self, slots: int, lease_s: float) -> None:
        @contextlib.asynccontextmanager
        async def made() -> AsyncIterator[PgQueuer]:
            connection = await asyncpg.connect(self.url)
            jobs = PgQueuer(AsyncpgDriver(connection))

            @jobs.entrypoint("program")
            async def program(job: Job) -> None:
                words = json.loads(job.payload or b"")
                mark("began", words["number"])
                for number in range(words["steps"]):
                    await step_async(number, words["ms"])
                reached(words)

            mark("ready")
            yield jobs
            await connection.close()

        batch = {"batch_size": BATCH} if slots > 1 else {}
        heartbeat = timedelta(seconds=lease_s or DEFAULT_LEASE_S)
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
        asyncio.run(pgqueuer.run(made, heartbeat_timeout=heartbeat, **batch))


if __name__ == "__main__":
    main(PgQueuerSystem)
