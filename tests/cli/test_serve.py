"""`outlast serve` and `outlast token`, as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlast.store.open import open_store
from tests.support.processes import Processes
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
OUTLAST = str(Path(sys.executable).with_name("outlast"))
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `outlast` on a store of the test's own."""
    environ = {**os.environ, "OUTLAST_DB": f"sqlite:{tmp_path / 'outlast.db'}"}

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [OUTLAST, *words], env={**environ, **more}, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts `outlast serve` on that store; the address that it says."""
    started: list[subprocess.Popen[str]] = []

    def start(*flags: str) -> str:
        environ = {**os.environ, "OUTLAST_DB": f"sqlite:{tmp_path / 'outlast.db'}"}
        process = subprocess.Popen(
            [OUTLAST, "serve", "--port", "0", *flags],
            env=environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stderr is not None
        said = process.stderr.readline().strip()
        assert said.startswith("outlast serves at http://"), said
        return said.rpartition(" ")[2]

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        assert process.returncode == 0, "it ends by itself, with no error"


def test_a_store_over_http_answers_every_command(run: Run, serve: Callable[..., str]) -> None:
    url = serve()
    submitted = run("submit", "agent", '{"n": 1}', "--json", "--db", url)
    task = json.loads(submitted.stdout)["id"]
    for words in (
        ["ps"], ["show", task], ["log", task], ["effects"], ["export", task], ["doctor"],
        ["deploy-gate"], ["metrics"], ["cancel", task, "--reason", "a test"],
        ["prune", "--older-than", "1d", "--yes"],
    ):  # fmt: skip
        ran = run(*words, "--db", url)
        assert ran.returncode == 0, (words, ran.stderr)
    assert run("migrate", "--db", url).returncode == 2


def test_a_worker_needs_no_database_of_its_own(
    run: Run, serve: Callable[..., str], tmp_path: Path
) -> None:
    """Its token in a file, as an orchestrator hands it over; nothing but HTTP reaches the store."""
    (tmp_path / "token").write_text(run("token", "create", "w", "--role", "worker").stdout)
    url = serve("--tokens")
    environ = {**os.environ, "OUTLAST_TOKEN_FILE": str(tmp_path / "token"), "OUTLAST_DB": url}
    task = json.loads(run("submit", "agent", '{"n": 1}', "--json").stdout)["id"]
    worker = subprocess.Popen([OUTLAST, "worker", "tests.cli.apps:app"], env=environ, cwd=ROOT)
    try:
        until(lambda: '"succeeded"' in run("show", task, "--json").stdout, "the task to succeed")
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0


def test_a_death_is_recorded_over_http_with_the_workers_own_token(
    run: Run, serve: Callable[..., str], tmp_path: Path, processes: Processes
) -> None:
    token = run("token", "create", "w", "--role", "worker").stdout.strip()
    environ = {"OUTLAST_TOKEN": token, "OUTLAST_DB": serve("--tokens")}
    worker = processes.outlast("worker", "tests.cli.apps:app", "-o", "jsonl", folder=ROOT,
                               environment=environ)  # fmt: skip
    started = json.loads(worker.wait_for_line("worker.started", 30))
    os.kill(started["pid"], signal.SIGKILL)
    died = json.loads(worker.wait_for_line("worker.died", 30))
    assert (died["worker"], died["leases"]) == (started["worker"], 0)
    with closing(open_store(f"sqlite:{tmp_path / 'outlast.db'}")) as store:
        assert store.worker(started["worker"]).state == "retired"
    worker.send(signal.SIGTERM)
    assert worker.wait(30) in (0, 143)


def test_health_says_what_it_is_asked(serve: Callable[..., str]) -> None:
    url = serve()
    for path in ("/livez", "/readyz"):
        with urllib.request.urlopen(url + path) as answer:
            assert answer.read() == b"ok\n"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--address", "0.0.0.0"], "not said by which name"),
        (["--address", "0.0.0.0", "--host", "here"], "has none that is good"),
        (["--tokens"], "has none that is good"),
        (["--address", "256.0.0.1", "--host", "here"], "has none that is good"),
    ],
)
def test_where_others_could_come_in_it_does_not_start(
    run: Run, flags: list[str], says: str
) -> None:
    ran = run("serve", "--port", "0", *flags)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "nothing was served" in ran.stderr


def test_a_header_does_not_say_where_a_connection_is_from(serve: Callable[..., str]) -> None:
    """Else anybody could say that he is the proxy, and then who he is."""
    url = serve("--trust-header", "X-User", "--trust-from", "10.0.0.5")
    for more in ({}, {"X-Forwarded-For": "10.0.0.5"}, {"Forwarded": "for=10.0.0.5"}):
        request = urllib.request.Request(f"{url}/api/v1/tasks", headers={"X-User": "bob", **more})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request)


def test_a_proxy_that_says_for_whom_it_asks_is_still_the_proxy(serve: Callable[..., str]) -> None:
    url = serve("--trust-header", "X-User")
    headers = {"X-User": "bob", "X-Forwarded-For": "192.0.2.7"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}/api/v1/tasks", headers=headers)
    ) as a:
        assert a.status == 200


def test_a_port_that_is_taken_is_a_line(run: Run, serve: Callable[..., str]) -> None:
    port = serve().rpartition(":")[2]
    ran = run("serve", "--port", port)
    assert (ran.returncode, "nothing was started" in ran.stderr) == (2, True)


def test_a_token_is_shown_once(run: Run) -> None:
    made = json.loads(run("token", "create", "maria", "--role", "operator", "--json").stdout)
    assert made["token"].startswith(f"ol_{made['id']}_")
    listed = run("token", "list", "--json").stdout
    [kept] = json.loads(listed)["items"]
    assert (kept["name"], kept["role"], kept["revoked_at"]) == ("maria", "operator", None)
    assert made["token"].rpartition("_")[2] not in listed

    assert run("token", "revoke", made["id"], "--reason", "lost").returncode == 0
    assert "revoked by" in run("token", "list").stdout
    assert run("token", "revoke", "nobody").returncode == 3


def test_a_token_that_is_not_good_is_a_line(run: Run, serve: Callable[..., str]) -> None:
    run("token", "create", "a", "--role", "viewer")
    url = serve("--tokens")
    for more in ({}, {"OUTLAST_TOKEN": "ol_a_b"}):
        ran = run("ps", "--db", url, **more)
        assert (ran.returncode, "token" in ran.stderr) == (4, True)
