"""The witness of the deaths: a process that moves money, honours keys, and forgets nothing.

Run as a program it serves on a loopback port; `BankClient` is how agents and tests speak to it.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Bank(ThreadingHTTPServer):
    """Accounts: how much was moved under each key, and how often somebody has asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.lock = threading.Lock()
        self.moved: dict[str, int] = {}
        self.asked: Counter[str] = Counter()

    def pay(self, key: str, amount: int) -> dict[str, Any]:
        with self.lock:
            self.asked[key] += 1
            self.moved.setdefault(key, amount)
            return {"receipt": f"receipt of {key}", "amount": self.moved[key]}


class Desk(BaseHTTPRequestHandler):
    """POST /pay moves money once a key; GET /moved/KEY says how much; GET /record says all."""

    server: Bank

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(self.server.pay(asked["key"], asked["amount"]))

    def do_GET(self) -> None:
        if self.path == "/record":
            self._answer({"moved": self.server.moved, "asked": self.server.asked})
            return
        moved = self.server.moved.get(self.path.removeprefix("/moved/"))
        self._answer({"amount": moved})

    def log_message(self, *_: Any) -> None:
        """Nothing: the record is asked for."""

    def _answer(self, content: object) -> None:
        text = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class BankClient:
    """Speaks to the bank at `address`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def pay(self, key: str, amount: int) -> dict[str, Any]:
        body = json.dumps({"key": key, "amount": amount}).encode()
        return self._ask(urllib.request.Request(f"{self.address}/pay", body))

    def moved(self, key: str) -> int | None:
        amount: int | None = self._ask(f"{self.address}/moved/{key}")["amount"]
        return amount

    def record(self) -> dict[str, dict[str, int]]:
        return self._ask(f"{self.address}/record")

    def _ask(self, request: str | urllib.request.Request) -> dict[str, Any]:
        with urllib.request.urlopen(request, timeout=10) as answer:
            said: dict[str, Any] = json.loads(answer.read())
        return said


if __name__ == "__main__":
    bank = Bank()
    Path(sys.argv[1]).write_text(f"http://127.0.0.1:{bank.server_port}")
    print("open", flush=True)
    bank.serve_forever()
