"""The marks that tasks leave in a file: what happened in which process, and when."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .systems.adapter import TICK


class Mark(NamedTuple):
    """`at_ns`: by the monotonic clock; `wall_ns`: by the clock of the wall, for a database's."""

    word: str
    number: int
    pid: int
    at_ns: int
    wall_ns: int


class Marks:
    """One file of them, read as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def all(self) -> list[Mark]:
        lines = self.path.read_text().splitlines()
        return [Mark(word, *map(int, numbers)) for word, *numbers in map(str.split, lines)]

    def of(self, word: str) -> list[Mark]:
        return [mark for mark in self.all() if mark.word == word]

    def count(self, word: str) -> int:
        """Without a list of them, for who asks again and again."""
        return self.path.read_bytes().count(f"{word} ".encode())


def rate(marks: Iterable[Mark]) -> float:
    """Steps a second, from the first start of a task to the last thing that is known to be done.

    A measure that was broken off for its time says what it has seen.
    """
    seen = [mark for mark in marks if mark.word in ("began", "step", "reached")]
    began = [mark.at_ns for mark in seen if mark.word == "began"]
    steps = sum(1 for mark in seen if mark.word == "step") * TICK
    if not began or not steps:
        return 0.0
    return steps / (max(mark.at_ns for mark in seen) - min(began)) * 1e9
