"""A soak goes on until its time is up, or a run does not pass, whose evidence is then kept."""

from __future__ import annotations

from pathlib import Path

from draintest.soak import soak
from draintest.verdict import FAIL, PASS, Verdict


def test_it_ends_with_the_first_run_that_does_not_pass(tmp_path: Path) -> None:
    seeds: list[int] = []

    def play(seed: int, folder: Path) -> Verdict:
        seeds.append(seed)
        (folder / "raw").mkdir(parents=True)
        (folder / "history.jsonl").write_text("{}")
        (folder / "verdict.json").write_text("{}")
        return Verdict(FAIL if seed == 9 else PASS, (), (), {"scenarios": 2, "faults": 1})

    said: list[str] = []
    done = soak(1.0, 7, tmp_path, play, said.append)

    assert seeds == [7, 8, 9]
    assert done.last is not None
    assert done.last.verdict == FAIL
    assert (done.runs, dict(done.figures)) == (3, {"scenarios": 6, "faults": 3})
    assert said[-1] == "run 3, seed 9: fail"
    kept = {path.name: sorted(p.name for p in path.iterdir()) for path in tmp_path.iterdir()}
    assert kept == {
        "run-00001": ["verdict.json"],
        "run-00002": ["verdict.json"],
        "run-00003": ["history.jsonl", "raw", "verdict.json"],
    }


def test_without_time_it_plays_once(tmp_path: Path) -> None:
    def play(seed: int, folder: Path) -> Verdict:
        folder.mkdir()
        return Verdict(PASS, (), ())

    assert soak(0, 1, tmp_path, play, lambda _: None).runs == 1
