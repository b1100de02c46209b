"""`outlast up`: a worker and a server that live and leave together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
OUTLAST = str(Path(sys.executable).with_name("outlast"))
AGENTS = """
import outlast
app = outlast.App()

@app.agent
async def slow(ctx: outlast.Context) -> str:
    await ctx.step("one", lambda: 1)
    await ctx.sleep("1h")
"""


class Up:
    def __init__(self, folder: Path) -> None:
        (folder / "mine.py").write_text(AGENTS)
        self.environ = {**os.environ, "OUTLAST_DB": f"sqlite:{folder}/outlast.db"}
        self.folder = folder
        words = [OUTLAST, "up", "mine:app", "--port", "0", "--slots", "3"]
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, cwd=folder, env=self.environ, stderr=log)
        until(lambda: "serves at" in self.said and "worker.started" in self.said, "both to start")

    @property
    def said(self) -> str:
        return self.log.read_text()

    @property
    def url(self) -> str:
        return self.said.partition("serves at ")[2].split()[0]

    def children(self) -> list[int]:
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return [int(pid) for pid in Path(path).read_text().split()]

    def api(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started = Up(tmp_path)
    yield started
    if started.process.poll() is None:
        started.process.send_signal(signal.SIGTERM)
        started.process.wait(30)


def test_agents_run_and_are_seen_and_ctrl_c_drains(up: Up) -> None:
    made = subprocess.run([OUTLAST, "submit", "slow"], env=up.environ, capture_output=True)
    assert made.returncode == 0
    until(lambda: up.api("/api/v1/tasks?state=waiting")["items"], "the task to wait")
    [worker] = up.api("/api/v1/workers")["items"]
    assert (worker["slots"], worker["state"]) == (3, "active")

    children = up.children()
    assert len(children) == 2
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(30) == 0
    assert "drain.asked" in up.said
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []
    with pytest.raises(urllib.error.URLError):
        up.api("/livez")


def test_when_one_of_both_ends_the_other_leaves(up: Up) -> None:
    server, worker = up.children()
    os.kill(server, signal.SIGKILL)
    assert up.process.wait(30) != 0
    assert not Path(f"/proc/{worker}").exists()
    assert "drain.asked" in up.said


def test_a_worker_that_is_killed_is_replaced_and_the_server_stays(up: Up) -> None:
    [before] = up.api("/api/v1/workers")["items"]
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: up.said.count("worker.started") == 2, "another worker", timeout_s=30)
    known = {worker["id"]: worker["state"] for worker in up.api("/api/v1/workers")["items"]}
    assert (known.pop(before["id"]), list(known.values())) == ("retired", ["active"])
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(30) == 0
    assert "drain.asked by=SIGINT" in up.said


def test_a_terminal_that_is_closed_drains(up: Up) -> None:
    children = up.children()
    up.process.send_signal(signal.SIGHUP)
    assert up.process.wait(30) == 0
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def test_the_code_is_the_workers(tmp_path: Path) -> None:
    environ = {**os.environ, "OUTLAST_DB": f"sqlite:{tmp_path}/outlast.db"}
    ran = subprocess.run(
        [OUTLAST, "up", "nosuch:app", "--port", "0"], env=environ, capture_output=True, text=True
    )
    assert (ran.returncode, "cannot be loaded" in ran.stderr) == (2, True)


def test_the_store_is_no_word_of_the_childrens_commands(up: Up) -> None:
    for pid in up.children():
        assert b"sqlite" not in Path(f"/proc/{pid}/cmdline").read_bytes()
