"""Ask `outlast serve` everything that its OpenAPI document allows, and much that it does not.

    python -m tools.fuzz [--minutes 10] [--db URL]

Starts a server on a store of its own and has schemathesis ask it for so long. Exit code 1 if an
answer was a server's error, or not what the document says; or if the server ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--db", default="", help="a database of your own; a new SQLite file else")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "OUTLAST_DB": told.db or f"sqlite:{folder}/outlast.db"}
        if told.db:
            subprocess.run([BIN / "outlast", "migrate"], env=environ, check=True)
        server = subprocess.Popen(
            [BIN / "outlast", "serve", "--port", "0"],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stderr is not None
        address = server.stderr.readline().strip().rpartition(" ")[2]
        try:
            code = asked(address, told.minutes, folder)
            if server.poll() is not None:
                print(f"the server ended with {server.returncode}", file=sys.stderr)
                code = 1
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=30)
    return code


def asked(address: str, minutes: float, folder: str) -> int:
    """What schemathesis says after asking for so long."""
    command = [BIN / "schemathesis", "run", f"{address}/api/v1/openapi.json", "--checks", CHECKS]
    command += ["--max-examples", "100000", "--max-time", str(int(minutes * 60))]
    return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
