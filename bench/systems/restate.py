"""Restate: each step a `ctx.run_typed`; one service, served by Hypercorn in one process."""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import os
import socket
import urllib.request
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import hypercorn.asyncio
import restate
from restate.server import install_shutdown_hook

from .adapter import System, Words, main, mark, reached, step_async

# What its guide 'Serving' gives Hypercorn in place of limits.
NO_LIMIT = 2147483647
OPEN = "select count(*) as n from sys_invocation where target_service_name = '{}' and status <> "
JSON = {"content-type": "application/json", "accept": "application/json"}


class RestateSystem(System):
    packages = ("restate-sdk", "hypercorn")
    settings = (
        "restate-server 1.7.12, one node with its defaults; one process of Hypercorn with the "
        "limits of the guide 'Serving', spoken to directly. Where a second worker stands by, both "
        "are behind a balancer of connections, and SIGTERM leaves Hypercorn its default of 3 s."
    )
    cannot: ClassVar = {"batch": "has no call for many"}

    @functools.cached_property
    def place(self) -> dict[str, str]:
        return dict(json.loads(self.url))

    @property
    def port_file(self) -> Path:
        return Path(self.place["workers"]) / "port"

    def prepare(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.port_file.write_text(str(port))
        asyncio.run(self._register(f"http://127.0.0.1:{port}"))

    def prepare_for_two(self) -> None:
        asyncio.run(self._register(self.place["balancer"]))

    async def _register(self, uri: str) -> None:
        """A first worker says what it serves, and goes; whoever comes later serves the same."""
        leave = asyncio.Event()
        serving = asyncio.create_task(self._serve(leave))
        try:
            told = json.dumps({"uri": uri}).encode()
            request = urllib.request.Request(self.place["admin"] + "/deployments", told, JSON)
            await asyncio.to_thread(urllib.request.urlopen, request, timeout=30)
        finally:
            leave.set()
            await serving

    @functools.cached_property
    def _ingress(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.place["ingress"]).netloc, timeout=30)

    def submit(self, words: Words) -> None:
        path = f"/{self.place['service']}/program/send"
        self._ingress.request("POST", path, json.dumps(words), JSON)
        answer = self._ingress.getresponse()
        body = answer.read()
        if answer.status >= 300:
            raise RuntimeError(body.decode())

    def left(self) -> int:
        question = OPEN.format(self.place["service"]) + "'completed'"
        told = json.dumps({"query": question}).encode()
        request = urllib.request.Request(self.place["admin"] + "/query", told, JSON)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.load(answer)["rows"][0]["n"])

    def work(self, slots: int, lease_s: float) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        leave = asyncio.Event()
        # The SDK takes SIGTERM for itself: a handler of Hypercorn's would not be called.
        install_shutdown_hook(asyncio.get_running_loop(), leave.set)
        await self._serve(leave, ready=True)

    async def _serve(self, leave: asyncio.Event, ready: bool = False) -> None:
        config = hypercorn.Config()
        config.bind = [f"unix:{self.port_file.parent}/{os.getpid()}.sock"]
        if self.port_file.exists():
            config.bind = [f"127.0.0.1:{self.port_file.read_text()}"]
        config.h2_max_concurrent_streams = NO_LIMIT
        config.keep_alive_max_requests = NO_LIMIT
        config.keep_alive_timeout = NO_LIMIT

        async def until_left() -> None:
            if ready:  # Hypercorn waits for this when it listens
                mark("ready")
            await leave.wait()

        app = application(self.place["service"])
        await hypercorn.asyncio.serve(app, config, shutdown_trigger=until_left)


def application(name: str) -> Any:
    service = restate.Service(name)

    @service.handler()
    async def program(ctx: restate.Context, words: dict) -> None:  # type: ignore[type-arg]
        mark("began", words["number"])
        for number in range(words["steps"]):
            await ctx.run_typed("step", step_async, number=number, ms=words["ms"])
        reached(words)

    answering = restate.app([service])

    async def marking(scope: Any, receive: Any, send: Any) -> None:
        """The journal comes with the request: a replay begins here."""
        if "/invoke/" in scope.get("path", ""):
            mark("claimed")
        await answering(scope, receive, send)

    return marking


if __name__ == "__main__":
    main(RestateSystem)
