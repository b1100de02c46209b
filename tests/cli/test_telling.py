"""What a worker tells is told to whoever reads it, and holds up nothing where nobody does."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.client import connect

AGENTS = """
import outlast

app = outlast.App()


@app.agent
async def quick(ctx):
    return await ctx.step("s", str, "done")
"""
TASKS = 60  # of two lines each, far more than a page of pipe holds
WORKER = "import sys; from outlast.cli.main import run; sys.exit(run())"


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_a_reader_who_stops_reading_stops_no_task_and_no_drain(tmp_path: Path, form: str) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    db = f"sqlite:{tmp_path}/outlast.db"
    reads, writes = os.pipe()
    fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4_096)
    with connect(db) as client:
        tasks = client.submit_many([("quick", {})] * TASKS)
        command = [sys.executable, "-c", WORKER, "worker", "mine:app", "--db", db, "-o", form]
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=writes, stderr=writes)
        try:
            assert {task.result(timeout=60) for task in tasks} == {"done"}
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        finally:
            worker.kill()
            worker.wait()
            os.close(writes)
            os.close(reads)
