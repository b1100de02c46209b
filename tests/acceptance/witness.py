"""The witness: a process that the agents' tools call; it writes each call down and may hold it.

It never looks at Outlast's store, so that its record is evidence. A call goes

    came ─(held before?)─► applied ─(held after?)─► answered, or its connection is dropped
               └─► forgotten, as a request that never arrived

and each of these words is a line on disk, fsynced, before the next. A tool that is `keyed` is
applied once a key, whoever calls how often; any other is applied at every call. Run as a program
it takes the path of its record, and prints its address.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

from tests.support.processes import Processes, Running
from tests.support.waiting import until

HELD_S = 300.0
SEEN_S = 60.0
Line = dict[str, Any]


@dataclass
class World:
    """What the calls change. `holds`: (name, place) -> how many more calls are to be held."""

    record: BinaryIO
    lock: threading.Condition = field(default_factory=threading.Condition)
    holds: dict[tuple[str, str], int] = field(default_factory=dict)
    drops: dict[str, int] = field(default_factory=dict)
    receipts: dict[str, str] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    count: int = 0

    def say(self, word: str, call: Line) -> None:
        line = {"word": word, **call, "at_ms": time.time_ns() // 1_000_000}
        with self.lock:
            self.record.write(json.dumps(line).encode() + b"\n")
            self.record.flush()
            os.fsync(self.record.fileno())

    def hold(self, call: Line, place: str) -> bool:
        """Stand still if this call is to be held here; whether it may then go on."""
        with self.lock:
            wanted = self.holds.get((call["name"], place), 0)
            if not wanted:
                return True
            self.holds[call["name"], place] = wanted - 1
        number = f"{call['name']} {place}"
        self.say(f"held {place}", call)
        with self.lock:
            self.lock.wait_for(lambda: number in self.free, timeout=HELD_S)
            return call["name"] not in self.forgotten

    def apply(self, call: Line) -> str:
        with self.lock:
            known = self.receipts.get(call["key"]) if call["keyed"] else None
            self.count += known is None
            receipt = known or f"receipt-{self.count}"
            if call["key"]:
                self.receipts[call["key"]] = receipt
        self.say("repeated" if known else "applied", {**call, "receipt": receipt})
        return receipt

    def order(self, path: str, asked: Line) -> Any:
        """What the test asks for, not an agent."""
        with self.lock:
            if path == "/hold":
                self.free.discard(f"{asked['name']} {asked['place']}")
                self.holds[asked["name"], asked["place"]] = asked["times"]
            elif path in ("/let-go", "/forget"):
                if path == "/forget":
                    self.forgotten.add(asked["name"])
                self.holds = {k: n for k, n in self.holds.items() if k[0] != asked["name"]}
                self.free |= {f"{asked['name']} {place}" for place in ("before", "after")}
                self.lock.notify_all()
            elif path == "/drop":
                self.drops[asked["name"]] = asked["times"]
            elif path == "/find":
                return self.receipts.get(asked["key"])
        return None


def serve(world: World) -> None:
    """Take calls until the process is ended; the address is the first line on stdout."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/call":
                self._answer(world.order(self.path, asked))
                return
            world.say("came", asked)
            if not world.hold(asked, "before"):
                world.say("forgotten", asked)
                self.close_connection = True
                return
            receipt = world.apply(asked)
            world.hold(asked, "after")
            with world.lock:
                dropped = world.drops.get(asked["name"], 0)
                world.drops[asked["name"]] = max(0, dropped - 1)
            if dropped:
                world.say("dropped", asked)
                self.close_connection = True
                return
            self._answer(receipt)
            world.say("answered", asked)

        def _answer(self, value: Any) -> None:
            body = json.dumps(value).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # who called is dead by now
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """The record says it all."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


class Witness:
    """The test's side: what was seen, and orders to hold calls or to drop their connections."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.path = folder / "witness.jsonl"
        module = "tests.acceptance.witness"
        root = Path(__file__).parents[2]
        self.process: Running = processes.python(
            "-m", module, self.path, name="witness", folder=root
        )
        self.url = self.process.wait_for_line("http://", timeout_s=SEEN_S)

    def lines(self, name: str | None = None, word: str | None = None) -> list[Line]:
        """What was written down, oldest first."""
        text = self.path.read_text() if self.path.exists() else ""
        found = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        return [
            line for line in found if name in (None, line["name"]) and word in (None, line["word"])
        ]

    def applied(self, name: str) -> int:
        """How often this reached the world."""
        return len(self.lines(name, "applied"))

    def came(self, name: str) -> int:
        """How often this was called, applied or not."""
        return len(self.lines(name, "came"))

    def hold(self, name: str, place: str = "before", times: int = 1) -> None:
        """The next calls of that name are held before they are applied, or `after`."""
        self._ask("/hold", name=name, place=place, times=times)

    def drop(self, name: str, times: int = 1) -> None:
        """The next calls of that name are applied, and their connections closed unanswered."""
        self._ask("/drop", name=name, times=times)

    def let_go(self, name: str) -> None:
        self._ask("/let-go", name=name)

    def forget(self, name: str) -> None:
        """Calls that are held before they are applied never were; later ones go through."""
        self._ask("/forget", name=name)

    def until_held(self, name: str, place: str = "before", count: int = 1) -> Line:
        """Wait until so many calls of that name have been held there; the last of them."""

        def held() -> list[Line] | None:
            found = self.lines(name, f"held {place}")
            return found if len(found) >= count else None

        return until(held, f"{count} calls {name!r} to be held", timeout_s=SEEN_S)[-1]

    @contextmanager
    def holding(self, name: str, place: str = "before", times: int = 1) -> Iterator[None]:
        """Within it calls are held; they are let go at the end."""
        self.hold(name, place, times)
        yield
        self.let_go(name)

    def _ask(self, path: str, **asked: Any) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(asked).encode())
        with urllib.request.urlopen(request, timeout=SEEN_S) as answer:
            return json.load(answer)


if __name__ == "__main__":
    with open(sys.argv[1], "ab") as opened:
        serve(World(opened))
