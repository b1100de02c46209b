"""Nothing is left behind by a run that ends, breaks off or is killed; nothing else is touched."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from draintest.history import read
from draintest.postgres import Schema, marked
from draintest.processes import born
from draintest.target import CannotSay
from draintest.workplace import PREFIX, Workplace
from tests.draintest.conftest import REFERENCE
from tests.support.waiting import until

SEEN_S = 60.0


@pytest.fixture
def harness(tmp_path: Path):
    """A run of the drain test as a process, its temporary files in a folder of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "draintest", "run", str(REFERENCE), "--only", "long-call"]
        command += ["--evidence", str(tmp_path / "evidence")]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        started.append(subprocess.Popen(command, env=environment, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("presses", [1, 3])
def test_after_ctrl_c_every_process_and_file_is_gone(harness, tmp_path: Path, presses: int) -> None:
    process = harness()
    pids = workers(tmp_path)
    assert set(pids) < started_with(tmp_path)
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
    assert process.wait(SEEN_S) == 130
    assert started_with(tmp_path) == set()
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_what_a_killed_run_has_left_is_cleared_by_the_next(harness, tmp_path: Path) -> None:
    process = harness()
    pids = workers(tmp_path)
    process.kill()
    process.wait()
    assert any(born(pid) for pid in pids)
    place = Workplace(tmp_path)
    assert [pid for pid in pids if born(pid)] == []
    assert any("process" in words for words in place.swept)
    place.close()
    assert list(tmp_path.glob(f"{PREFIX}*")) == []


def test_the_workplace_of_a_run_that_lives_is_not_touched(tmp_path: Path) -> None:
    living = Workplace(tmp_path)
    other = Workplace(tmp_path)
    assert other.swept == []
    assert living.folder.exists()
    (tmp_path / f"{PREFIX}of-somebody-else").mkdir()
    assert Workplace(tmp_path).swept == []
    assert (tmp_path / f"{PREFIX}of-somebody-else").exists()


def test_a_schema_is_made_marked_and_dropped(postgres_url: str, tmp_path: Path) -> None:
    schema = Schema(postgres_url, tmp_path / "draintest-abc" / "calm")
    schema.claim()
    assert marked(postgres_url) == [schema.name] == ["draintest_abc_calm"]
    assert schema.litter() == [f"schema {schema.name}"]
    schema.drop()
    assert schema.litter() == []


def test_a_schema_that_we_did_not_make_is_refused_and_kept(
    postgres_url: str, tmp_path: Path
) -> None:
    schema = Schema(postgres_url, tmp_path / "draintest-abc" / "calm")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create schema {schema.name}")
        with pytest.raises(CannotSay, match="nothing was touched"):
            schema.claim()
        schema.drop()
        assert schema.litter() == [f"schema {schema.name}"]


def test_the_schema_of_a_killed_run_is_dropped_by_the_next(
    postgres_url: str, tmp_path: Path
) -> None:
    place = Workplace(tmp_path)
    schema = Schema(postgres_url, place.folder / "calm")
    place.answer_for_schema(postgres_url, schema.name)
    schema.claim()
    (place.folder / "owner").write_text("1 1")
    assert f"schema {schema.name}" in Workplace(tmp_path).swept
    assert schema.litter() == []


def started_with(folder: Path) -> set[int]:
    """Every process below the harness, which all have its environment."""
    found = set()
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdigit() and str(folder).encode() in (place / "environ").read_bytes():
                found.add(int(place.name))
    return {pid for pid in found if born(pid)}


def workers(folder: Path) -> list[int]:
    """The world and both workers of the scenario, once the call is held."""

    def there() -> list[int] | None:
        records = read(folder / "evidence" / "raw" / "harness.jsonl")
        pids = [record["pid"] for record in records if record["what"] == "worker.ready"]
        return pids if len(pids) == 2 else None

    return until(there, "two workers to be ready", timeout_s=SEEN_S)
