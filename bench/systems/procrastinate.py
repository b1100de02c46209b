"""Procrastinate: an async task that runs the program as a whole, in its own worker."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import ClassVar

import procrastinate
import psycopg

from .adapter import System, Words, main, mark, reached, step_async

OPEN = "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"


def application(connector: procrastinate.BaseConnector) -> procrastinate.App:
    app = procrastinate.App(connector=connector)

    @app.task(name="program")
    async def program(words: Words) -> None:
        mark("began", words["number"])
        for number in range(words["steps"]):
            await step_async(number, words["ms"])
        reached(words)

    return app


class ProcrastinateSystem(System):
    packages = ("procrastinate", "psycopg")
    settings = (
        "Async tasks, concurrency as many as tasks; notifications, heartbeats of 10 s, a look "
        "every 5 s besides, and no bound for a shutdown are the defaults. Stalled jobs are retried "
        "by a task that the user writes, by default by nobody."
    )
    cannot: ClassVar = {"steps": "a job is run again as a whole"}

    @functools.cached_property
    def app(self) -> procrastinate.App:
        app = application(procrastinate.SyncPsycopgConnector(conninfo=self.url))
        app.open()
        return app

    def prepare(self) -> None:
        self.app.schema_manager.apply_schema()

    def submit(self, words: Words) -> None:
        self.app.tasks["program"].defer(words=words)

    def submit_many(self, tasks: Sequence[Words]) -> None:
        self.app.tasks["program"].batch_defer(*({"words": words} for words in tasks))

    def left(self) -> int:
        with psycopg.connect(self.url) as connection:
            return int(connection.execute(OPEN).fetchone()[0])

    def work(self, slots: int, lease_s: float) -> None:
        asyncio.run(self._work(slots))

    async def _work(self, slots: int) -> None:
        app = application(procrastinate.PsycopgConnector(conninfo=self.url))
        async with app.open_async():
            mark("ready")
            await app.run_worker_async(concurrency=slots)


if __name__ == "__main__":
    main(ProcrastinateSystem)
