"""Celery on Redis: a task that runs the program as a whole, in its prefork worker."""

from __future__ import annotations

import functools
from typing import ClassVar

from celery import Celery, signals

from .adapter import System, Words, main, mark, reached, step

QUEUE = "celery"


def application(url: str) -> Celery:
    app = Celery("bench", broker=url)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        worker_send_task_events=False,
    )

    @app.task(name="program")
    def program(words: Words) -> None:
        mark("began", words["number"])
        for number in range(words["steps"]):
            step(number, words["ms"])
        reached(words)

    return app


class CelerySystem(System):
    packages = ("celery", "redis")
    settings = (
        "Prefork: one process for one task, two (one a core) for many; late acknowledgement, "
        "reject on worker lost; prefetch of 1 for one task, so that a waiting one is free for "
        "another worker, of 64 a process for many short ones ('Optimizing'); no result backend. "
        "Visibility timeout of an hour and warm shutdown upon SIGTERM are the defaults. Redis "
        "syncs every write."
    )
    cannot: ClassVar = {"steps": "a task is run again as a whole", "batch": "has no call for many"}

    @functools.cached_property
    def app(self) -> Celery:
        return application(self.url)

    def submit(self, words: Words) -> None:
        self.app.tasks["program"].delay(words)

    def left(self) -> int:
        """In the queue, or handed out and not acknowledged."""
        with self.app.connection_for_read() as connection:
            redis = connection.default_channel.client
            return int(redis.llen(QUEUE)) + int(redis.hlen("unacked"))

    def work(self, slots: int, lease_s: float) -> None:
        app = application(self.url)
        app.conf.worker_prefetch_multiplier = 64 if slots > 1 else 1
        signals.worker_ready.connect(lambda **_: mark("ready"), weak=False)
        processes = 2 if slots > 1 else 1
        words = ["worker", "-c", str(processes), "--loglevel", "WARNING", "--without-gossip"]
        app.worker_main([*words, "--without-mingle"])


if __name__ == "__main__":
    main(CelerySystem)
