"""The world as a process: receives the effects of a target's tools, and writes each call down.

A call goes

    came ─(held before?)─► applied | repeated | refused ─(held applied?)─► answered ─► (signal)

and each of these words is a line on disk, fsynced, before the next. It never looks at the target.
Run as a program it takes the path of its record, and prints its address.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO

from draintest.history import Record, line_of, stamped

HELD_S = 600.0
# What a call tells of itself: these fields, and nothing else, go into the record.
TOLD = ("scenario", "task", "act", "provider", "queryable", "policy", "key", "epoch", "after",
        "arguments", "pid")  # fmt: skip


@dataclass
class Hold:
    """An order to hold, or to harm at, the next `times` calls of an act at one point."""

    times: int
    signal: int = 0
    group: int = 0


@dataclass
class World:
    """What the calls change. A receipt is kept by (scenario, key); an epoch by (scenario, task)."""

    record: BinaryIO
    lock: threading.Condition = field(default_factory=threading.Condition)
    holds: dict[tuple[str, str, str], Hold] = field(default_factory=dict)
    released: dict[tuple[str, str, int], int] = field(default_factory=dict)
    receipts: dict[tuple[str, str], str] = field(default_factory=dict)
    epochs: dict[tuple[str, str], int] = field(default_factory=dict)
    count: int = 0
    calls: int = 0

    def say(self, word: str, call: Record, **more: Any) -> None:
        with self.lock:
            self.record.write(line_of(stamped(f"world.{word}", {**call, **more})))
            self.record.flush()
            os.fsync(self.record.fileno())

    def number(self) -> int:
        """A number for a call, so that its lines are found together."""
        with self.lock:
            self.calls += 1
            return self.calls

    def ordered(self, call: Record, point: str) -> Hold | None:
        """The order for this call at this point, if there is one left; it is used up."""
        with self.lock:
            hold = self.holds.get((call["scenario"], call["act"], point))
            if hold is None or hold.times <= 0:
                return None
            hold.times -= 1
            return hold

    def hold(self, call: Record, point: str) -> None:
        if self.ordered(call, point) is None:
            return
        with self.lock:
            before = self._let_go(call)
        self.say("held", call, point=point)
        with self.lock:
            self.lock.wait_for(lambda: self._let_go(call) > before, timeout=HELD_S)
        self.say("let_go", call, point=point)

    def _let_go(self, call: Record) -> int:
        """How often calls like this one were let go: all of its act, or those of its process."""
        act = (call["scenario"], call["act"])
        return sum(self.released.get((*act, pid), 0) for pid in (0, call["pid"] or -1))

    def act(self, call: Record) -> tuple[int, Record]:
        """Do it, or not: what the kind of provider does with such a call."""
        provider, scenario = call["provider"], call["scenario"]
        with self.lock:
            epoch, task = call.get("epoch") or 0, (scenario, call["task"])
            if provider == "fenced" and epoch < self.epochs.get(task, 0):
                answer: Record = {"refused": f"epoch {epoch} is older than {self.epochs[task]}"}
                code, word = 409, "refused"
            else:
                self.epochs[task] = max(epoch, self.epochs.get(task, 0))
                known = self.receipts.get((scenario, call["key"])) if provider == "keyed" else None
                self.count += known is None
                receipt = known or f"r{self.count}"
                if call["key"]:
                    self.receipts[scenario, call["key"]] = receipt
                answer = {"receipt": receipt, "repeated": known is not None}
                code, word = 200, "repeated" if known else "applied"
        self.say(word, call, **answer)
        return code, answer

    def find(self, asked: Record) -> tuple[int, Record]:
        """What a provider that can be asked says about a key."""
        with self.lock:
            receipt = self.receipts.get((asked["scenario"], asked["key"]))
        told = {name: asked.get(name) for name in ("scenario", "task", "act", "key", "pid")}
        self.say("asked", told, receipt=receipt)
        return 200, {"receipt": receipt}

    def order(self, path: str, asked: Record) -> tuple[int, Record]:
        """What the harness wants."""
        with self.lock:
            if path == "/hold":
                point = (asked["scenario"], asked["act"], asked["point"])
                self.holds[point] = Hold(asked["times"], asked["signal"], asked["group"])
            elif path == "/let-go":
                act = (asked["scenario"], asked["act"])
                if not asked["pid"]:
                    for each in ("before", "applied"):
                        self.holds.pop((*act, each), None)
                place = (*act, asked["pid"])
                self.released[place] = self.released.get(place, 0) + 1
                self.lock.notify_all()
            else:
                return 404, {}
        return 200, {}


def make_handler(world: World) -> type[BaseHTTPRequestHandler]:
    """The class that takes one call each."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            text = self.rfile.read(size)
            if len(text) < size:
                self.close_connection = True  # whoever called has died in the middle of it
                return
            asked: Record = json.loads(text)
            if self.path == "/act":
                self._act({name: asked.get(name) for name in TOLD})
            elif self.path == "/find":
                self._answer(*world.find(asked))
            else:
                self._answer(*world.order(self.path, asked))

        def _act(self, call: Record) -> None:
            call["call"] = world.number()
            world.say("came", call)
            world.hold(call, "before")
            if gone(self.connection):
                # Nothing was done yet, and nobody is there any more who wants it.
                world.say("dropped", call)
                self.close_connection = True
                return
            code, answer = world.act(call)
            world.hold(call, "applied")
            if gone(self.connection):
                world.say("unheard", call)
                self.close_connection = True
            elif self._answer(code, answer):
                self._strike(call)
                world.say("answered", call, receipt=answer.get("receipt"))

        def _strike(self, call: Record) -> None:
            """Harm the caller in the moment after its answer: nobody else could be so quick."""
            hold = world.ordered(call, "answered")
            if hold is None:
                return
            try:
                os.killpg(hold.group, hold.signal)
            except OSError as error:
                world.say("strike_failed", call, error=str(error))
            else:
                world.say("struck", call, signal=hold.signal, group=hold.group)

        def _answer(self, code: int, value: Record) -> bool:
            body = json.dumps(value).encode()
            head = f"HTTP/1.0 {code} {'OK' if code == 200 else 'No'}\r\nContent-Length: {len(body)}"
            try:
                self.wfile.write(
                    head.encode() + b"\r\nContent-Type: application/json\r\n\r\n" + body
                )
            except OSError:  # who called is dead by now
                self.close_connection = True
                return False
            return True

        def log_message(self, *_: Any) -> None:
            """The record says it all."""

    return Handler


def gone(connection: socket.socket) -> bool:
    """True if the other side has closed: its process is dead, or it has given up."""
    readable, _, _ = select.select([connection], [], [], 0)
    if not readable:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class Server(ThreadingHTTPServer):
    """One thread a call; a call that is held holds nobody else."""

    daemon_threads = True
    request_queue_size = 256


def serve(record: BinaryIO) -> None:
    """Take calls until the process is ended; the address is the first line on stdout."""
    server = Server(("127.0.0.1", 0), make_handler(World(record)))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    # Who started us holds the other end: when it is gone, so are we.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server.serve_forever()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    with open(sys.argv[1], "ab") as opened:
        serve(opened)
