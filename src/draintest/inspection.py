"""What is asked of a target: at the end its tasks, log, metrics and export; each a record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .history import now_ms
from .processes import group, state
from .stage import Stage
from .target import CannotSay, Shape


def look(stage: Stage, folder: Path) -> None:
    """Write down everything that the target shows once its workers are gone."""
    _each(stage, "task", "", stage.target.tasks)
    _each(stage, "log", "log", stage.target.log)
    if "metrics" in stage.target.offers:
        _ask(stage, "metrics", lambda: stage.tell("metrics", **stage.target.metrics()))
    if "export" in stage.target.offers:
        _ask(stage, "export", lambda: _export(stage, folder / "export.jsonl"))


def look_at_silence(stage: Stage) -> None:
    """For how long an owner has not been heard, by the metrics: where all are well, or all dead."""
    asked_ms = now_ms()

    def look() -> None:
        told = stage.target.metrics()
        if "silence_s" in told:
            stage.tell("silence", said_s=told["silence_s"], asked_ms=asked_ms)

    if "metrics" in stage.target.offers:
        _ask(stage, "metrics", look)


def look_for_litter(stage: Stage) -> None:
    """Clean up, then say what is left."""
    stage.target.clean_up()
    left = stage.target.litter()
    alive = [pid for worker in stage.workers() for pid in group(worker.pid)]
    stage.tell("cleaned", litter=left, processes=[pid for pid in alive if state(pid) != "-"])
    for worker in stage.workers():
        worker.end()


def _each(stage: Stage, what: str, offer: str, question: Callable[[], list[Shape]]) -> None:
    if offer and offer not in stage.target.offers:
        return
    _ask(stage, what, lambda: [stage.tell(what, **shape) for shape in question()])


def _ask(stage: Stage, what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except CannotSay as error:
        stage.tell("target.silent", asked=what, why=str(error)[:300])


def _export(stage: Stage, path: Path) -> None:
    """Export, verify; then change one byte of the middle, and verify that."""
    stage.target.export(path)
    sound, said = stage.target.verify(path)
    stage.tell("export", verified=sound, said=said, lines=len(path.read_bytes().splitlines()))
    for line, forged in _forgeries(path.read_bytes()):
        altered = path.with_suffix(".altered")
        altered.write_bytes(forged)
        sound, said = stage.target.verify(altered)
        stage.tell("export.altered", line=line, verified=sound, said=said)
        altered.unlink()


def _forgeries(text: bytes) -> list[tuple[int, bytes]]:
    """Copies with one byte changed: a letter or digit inside of a line's last third."""
    lines = text.splitlines(keepends=True)
    chosen = {len(lines) // 2, len(lines) - 2} & set(range(1, len(lines)))
    forged = []
    for number in sorted(chosen):
        line = bytearray(lines[number])
        at = next(i for i in range(len(line) * 2 // 3, len(line)) if chr(line[i]).isalnum())
        line[at] = ord("b") if line[at] == ord("a") else ord("a")
        forged.append((number + 1, b"".join([*lines[:number], bytes(line), *lines[number + 1 :]])))
    return forged
