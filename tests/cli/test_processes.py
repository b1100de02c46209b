"""The command as a process: exit codes, terminals, pipes, a real worker, metrics over HTTP."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from outlast.cli.main import main
from outlast.client import connect
from tests.support.keeper import Keeper
from tests.support.processes import Processes

OUTLAST = Path(sys.executable).with_name("outlast")


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with one task in it, under the machine's own clock."""
    url = f"sqlite:{tmp_path / 'outlast.db'}"
    monkeypatch.setenv("OUTLAST_DB", url)
    with connect(url) as client:
        client.submit("agent", {"n": 1}, key="first")
    return url


def outlast(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [str(OUTLAST), *words]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command, capture_output=True, text=True, timeout=30, check=False, **options
    )


def test_exit_codes_and_streams_of_a_process(db: str) -> None:
    listed = outlast("ps")
    assert (listed.returncode, "agent" in listed.stdout) == (0, True)
    assert "as of" in listed.stderr
    missing = outlast("show", "01a22e7e-04e8")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert missing.stderr.count("\n") == 1
    assert outlast("frobnicate").returncode == 2
    away = outlast("ps", "--db", "postgresql://127.0.0.1:1/none")
    assert (away.returncode, away.stderr.count("\n")) == (69, 1)


AT_EXIT = "import atexit; atexit.register(print, 'said at exit')"
LEFT_BEHIND = "import threading; threading.Thread(target=threading.Event().wait).start()"


@pytest.mark.parametrize(("left", "said"), [(AT_EXIT, "said at exit"), (LEFT_BEHIND, "")])
def test_a_worker_ends_with_what_its_agents_asked_for_and_in_spite_of_what_they_left(
    db: str, tmp_path: Path, processes: Processes, left: str, said: str
) -> None:
    """Commands end quickly, without Python's own end: not where code of others has run."""
    app = f"import outlast\n{left}\napp = outlast.App()\n@app.agent\ndef agent(ctx, n): ...\n"
    (tmp_path / "mine.py").write_text(app)
    worker = processes.outlast("worker", "mine:app", folder=tmp_path)
    worker.wait_for_line("attempt.ended")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    assert said in worker.output


def test_output_that_cannot_be_written_is_a_line(db: str) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [str(OUTLAST), "ps"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert "cannot be written: No space left" in ran.stderr


def test_a_reader_that_has_seen_enough_is_no_failure(db: str) -> None:
    """141, as a process has that dies of SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run([str(OUTLAST), "ps", "--json"], stdout=writer, check=False)
    os.close(writer)
    assert ran.returncode == 141


def test_the_code_counts_where_the_complaint_cannot_be_written(db: str) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run([str(OUTLAST), "show", "01a22e7e-04e8"], stderr=full, check=False)
    assert ran.returncode == 3


def test_nobody_need_read_what_a_command_says(db: str) -> None:
    closed = ["sh", "-c", f"{OUTLAST} ps >&- 2>&-"]
    assert subprocess.run(closed, check=False).returncode == 0


def test_a_user_who_may_not_write_gets_a_line(db: str, keeper: Keeper) -> None:
    """A folder that is read-only; root may write everywhere, so it becomes somebody else first."""
    folder = keeper.new_folder("closed")
    folder.chmod(0o555)
    said = keeper.folder / "closed.said"
    main(["submit", "agent", "--db", db])  # loads all that somebody else may not read
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT, 0o600), 2)
            sys.stderr = os.fdopen(2, "w")
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            code = main(["submit", "agent", "--db", f"sqlite:{folder}/x/outlast.db"])
            sys.stderr.flush()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 69, said.read_text()
    assert "cannot be created" in said.read_text()
    assert said.read_text().count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error(db: str) -> None:
    with connect(db) as client:
        task = client.find()[0]
        client.submit_many([("agent", {"n": n, "pad": "x" * 500}) for n in range(500)])
    ran = subprocess.run(
        f"{OUTLAST} ps --json --limit 1000 | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.stdout == '{\n  "items'
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    assert task.id


def on_a_terminal(*words: str, environ: dict[str, str] | None = None, keys: bytes = b"") -> str:
    """What a command writes to a terminal of 200 columns; `keys` are typed into it."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    # A test runner may say how wide its own terminal is.
    without_size = {n: v for n, v in os.environ.items() if n not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [str(OUTLAST), *words],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**without_size, "TERM": "xterm-256color", **(environ or {})},
        close_fds=True,
    )
    os.close(child)
    if keys:
        os.write(parent, keys)
    seen = b""
    while True:
        try:
            seen += (piece := os.read(parent, 65_536))
        except OSError:
            break
        if not piece:
            break
    os.close(parent)
    process.wait(timeout=30)
    return seen.decode()


def test_a_terminal_gets_colours_and_short_ids_unless_it_says_no(db: str) -> None:
    with connect(db) as client:
        client.find()[0].cancel("no")
        task_id = client.find()[0].id
    coloured = on_a_terminal("ps")
    assert "\x1b[2mcancelled\x1b[0m" in coloured
    assert task_id not in coloured
    assert task_id[:13] in coloured
    plain = on_a_terminal("ps", environ={"NO_COLOR": "1"})
    assert "\x1b[" not in plain
    assert "cancelled" in plain


def test_a_prompt_asks_on_a_terminal_and_no_means_no(db: str) -> None:
    seen = on_a_terminal("drain", "--all", keys=b"n\n")
    assert "Go on? [y/N]" in seen


def test_watching_on_a_terminal_draws_the_table(db: str) -> None:
    seen = on_a_terminal("ps", "-w", "--timeout", "1s")
    assert "IF I DEPLOY NOW" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)


def test_metrics_are_served_on_loopback_and_nowhere_else(db: str, processes: Processes) -> None:
    refused = outlast("metrics", "--port", "0", "--address", "0.0.0.0")
    assert refused.returncode == 2
    assert "--any-address" in refused.stderr
    server = processes.outlast("metrics", "--port", "0")
    url = re.findall(r"http://\S+", server.wait_for_line("metrics at"))[0]
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=10) as answer:
        page = answer.read().decode()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'outlast_tasks{queue="default",state="ready"} 1\n' in page
    assert "outlast_collector_up 1\n" in page
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url.replace("/metrics", "/other"), timeout=10)
    server.send(signal.SIGINT)
    assert server.wait() == 0


def test_a_worker_runs_what_was_submitted_and_drains_on_sigterm(
    db: str, processes: Processes, empty_folder: Path
) -> None:
    (empty_folder / "mine.py").write_text(
        "import outlast\napp = outlast.App()\n"
        "@app.agent\nasync def agent(ctx: outlast.Context, n: int) -> int:\n    return n + 1\n"
    )
    worker = processes.outlast("worker", "mine:app", "--ttl", "2s", folder=empty_folder)
    waited = outlast("submit", "agent", '{"n": 41}', "--wait", "--timeout", "20s")
    assert (waited.returncode, waited.stdout) == (0, "42\n"), worker.output
    refused = outlast("submit", "agent", '{"m": 41}', "--wait", "--timeout", "20s")
    assert refused.returncode == 1
    assert "failed" in refused.stdout
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0


def test_following_a_log_sees_what_is_written_meanwhile(db: str, processes: Processes) -> None:
    with connect(db) as client:
        task = client.find(key="first")[0]
        follower = processes.outlast("log", task.id, "-f", "-o", "jsonl")
        follower.wait_for_line("task.submitted")
        task.cancel("enough")
        follower.wait_for_line("task.cancelled")
        assert follower.wait() == 0


def test_an_export_of_many_tasks_takes_no_more_memory_than_one_of_few(tmp_path: Path) -> None:
    """Flat: 4,000 tasks of 2 kB add less than half of what they would take."""
    peaks, out = [], str(tmp_path / "out")
    for count in (50, 4_000):
        url = f"sqlite:{tmp_path / f'{count}.db'}"
        with connect(url) as client:
            client.submit_many([("agent", {"n": n, "pad": "x" * 2_000}) for n in range(count)])
        code = (
            "import sys\nfrom outlast.cli.main import main\n"
            f"code = main(['export', '--all', '--db', {url!r}, '--to', {out!r}])\n"
            "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
            "print(peak[0].split()[1])\nsys.exit(code)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
        peaks.append(int(ran.stdout))
    assert (tmp_path / "out").stat().st_size > 8_000_000
    assert peaks[1] - peaks[0] < 4_000, peaks
