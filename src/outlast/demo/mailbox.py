"""The world of the demo: a process of its own that takes letters and writes each down, on disk.

It never looks at Outlast's store, so what it has seen is evidence.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, BinaryIO


def serve(record: BinaryIO) -> None:
    """Take letters until the process is ended; the address is the first line on stdout."""

    class Mailbox(BaseHTTPRequestHandler):
        count = 0

        def do_POST(self) -> None:
            letter = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            Mailbox.count += 1
            receipt = f"letter-{Mailbox.count}"
            line = {**letter, "receipt": receipt, "at_ms": time.time_ns() // 1_000_000}
            record.write(json.dumps(line).encode() + b"\n")
            record.flush()
            os.fsync(record.fileno())
            body = json.dumps({"receipt": receipt}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing on the terminal: the record says it all."""

    server = HTTPServer(("127.0.0.1", 0), Mailbox)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    with open(sys.argv[1], "ab") as record:
        serve(record)
