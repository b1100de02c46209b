"""Outlast, as its documentation shows it: an agent of async steps, the client, a worker."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import outlast
from outlast.core import limits
from outlast.store.open import open_store
from outlast.store.verbs import Store
from outlast.worker.worker import run

from ..stage import prepare
from .adapter import System, Words, main, mark, reached, step_async

app = outlast.App()


@app.agent
async def program(ctx: outlast.Context, words: Words) -> None:
    mark("began", words["number"])
    for number in range(words["steps"]):
        await ctx.step("step", step_async, number, words["ms"])
    reached(words)


class OutlastSystem(System):
    packages = ("outlast",)
    settings = (
        "One slot for one task, as many slots as tasks else. Leases of 30 s, a look every second "
        "and a grace of 25 s are the defaults."
    )

    def prepare(self) -> None:
        prepare(self.url)

    @functools.cached_property
    def client(self) -> outlast.Client:
        return outlast.connect(self.url)

    @functools.cached_property
    def store(self) -> Store:
        return open_store(self.url)

    def submit(self, words: Words) -> None:
        self.client.submit("program", {"words": words})

    def submit_many(self, tasks: Sequence[Words]) -> None:
        self.client.submit_many([("program", {"words": words}) for words in tasks])

    def left(self) -> int:
        states = self.store.counts().tasks.get("default", {})
        return sum(states.get(state, 0) for state in ("ready", "running", "waiting", "review"))

    def assert_durable(self) -> None:
        found = next(iter(self.store.checkup()))
        if found.state != "ok":
            raise RuntimeError(f"{found.check}: {found.said}")

    def claimed_ns(self) -> int:
        (task,) = self.client.find(limit=1)
        granted = self.store.last(task.id, "lease.granted")
        return (granted.at_ms if granted else 0) * 1_000_000

    def work(self, slots: int, lease_s: float) -> None:
        run(
            app,
            db=self.url,
            slots=slots,
            ttl_ms=int(lease_s * 1000) or limits.TTL_MS,
            on_event=lambda kind, _: mark("ready") if kind == "worker.started" else None,
        )


if __name__ == "__main__":
    main(OutlastSystem)
