"""DBOS: a workflow whose steps are `@DBOS.step`, enqueued by its client on a queue of its own."""

from __future__ import annotations

import functools
import signal
import threading
import uuid
from collections.abc import Sequence
from typing import ClassVar

import sqlalchemy as sa
from dbos import DBOS, DBOSClient

from .adapter import System, Words, main, mark, reached, step

QUEUE = "programs"
APPLICATION = "bench"
OPTIONS = {"queue_name": QUEUE, "workflow_name": "program"}
OPEN = ["ENQUEUED", "PENDING", "DELAYED"]
GRACE_S = 25


@DBOS.step()
def durable(number: int, ms: int) -> int:
    return step(number, ms)


@DBOS.workflow(name="program")
def program(words: Words) -> None:
    mark("began", words["number"])
    for number in range(words["steps"]):
        durable(number, words["ms"])
    reached(words)


class DbosSystem(System):
    packages = ("dbos", "psycopg", "sqlalchemy")
    settings = (
        "Plain functions; a queue without a limit of its own, so that a look takes all there is, "
        "and a look every second (the default), whatever is measured. Many at once by its client's "
        "enqueue_in_transaction, all in one transaction. SIGTERM: DBOS.destroy with 25 s for what "
        "is running. Without Conductor, which is not open, nobody recovers for another executor; "
        "for the replay a worker with the same executor id is started again."
    )
    cannot: ClassVar[dict[str, str]] = {}

    @property
    def database(self) -> str:
        return self.url.replace("sqlite:", "sqlite:///", 1)

    def prepare(self) -> None:
        DBOS.migrate(self.database)
        self.client.register_queue(QUEUE)

    @functools.cached_property
    def client(self) -> DBOSClient:
        return DBOSClient(system_database_url=self.database, application_name=APPLICATION)

    def submit(self, words: Words) -> None:
        self.client.enqueue(OPTIONS, words)

    def submit_many(self, tasks: Sequence[Words]) -> None:
        with self._engine.begin() as transaction:
            for words in tasks:
                self.client.enqueue_in_transaction(transaction, OPTIONS, words)

    @functools.cached_property
    def _engine(self) -> sa.Engine:
        return sa.create_engine(self.database.replace("postgresql:", "postgresql+psycopg:", 1))

    def left(self) -> int:
        # Counted by the database: a list of thousands, asked for again and again, takes its time.
        with self._engine.connect() as connection:
            table = "workflow_status" if "sqlite" in self.url else "dbos.workflow_status"
            question = sa.text(f"select count(*) from {table} where status in :open")
            bound = question.bindparams(sa.bindparam("open", OPEN, expanding=True))
            return int(connection.execute(bound).scalar_one())

    def assert_durable(self) -> None:
        if "sqlite" in self.url:
            with self.client._sys_db.engine.connect() as connection:
                level = connection.execute(sa.text("pragma synchronous")).scalar_one()
            if level < 2:
                raise RuntimeError(f"synchronous is {level}, full is 2")

    def work(self, slots: int, lease_s: float) -> None:
        leave = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: leave.set())
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": self.database,
                "application_version": "1",
                # Who is to come back keeps its id; two that stand beside each other differ.
                "executor_id": "local" if lease_s else str(uuid.uuid4()),
                "log_level": "ERROR",
                "max_executor_threads": max(slots + 14, 64),
            }
        )
        DBOS.launch()
        mark("ready")
        leave.wait()
        DBOS.destroy(workflow_completion_timeout_sec=GRACE_S)


if __name__ == "__main__":
    main(DbosSystem)
