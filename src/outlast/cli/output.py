"""How a command prints: tables for people, documented JSON for programs, names for pipes."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..view.words import age, printable, rfc3339, seconds

__all__ = [
    "FORMS",
    "Output",
    "Shape",
    "age",
    "columns",
    "json_block",
    "json_line",
    "printable",
    "rfc3339",
    "seconds",
]

FORMS = ("table", "wide", "json", "jsonl", "name")
_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# By state, beside its word: never by colour alone.
STATE_COLOURS = {
    "running": "cyan",
    "review": "yellow",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
}
Shape = Mapping[str, Any]


class Output:
    """Answers go to stdout in the form that was asked for; everything else goes to stderr."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.for_people = form in ("table", "wide")
        self.wide = form == "wide"
        self.terminal = self.for_people and sys.stdout.isatty()
        self._colours = self.terminal and not os.environ.get("NO_COLOR")

    def items(
        self,
        shapes: Iterable[Shape],
        table: Callable[[], Sequence[Sequence[str]]],
        *,
        name: str,
    ) -> None:
        """A list: `{"items": [...]}`, one a line, the field `name` of each, or a table.

        `shapes` are not looked at where a table is asked for; one without rows is not printed.
        """
        if self.form == "jsonl":
            for shape in shapes:
                self.line(json_line(shape))
            return
        if self.form == "json":
            self.line(json_block({"items": list(shapes)}))
        elif self.form == "name":
            for shape in shapes:
                self.line(str(shape[name]))
        elif len(rows := table()) > 1:
            self.table(rows)

    def one(self, shape: Shape, text: Callable[[], str], *, name: str = "id") -> None:
        """One object: JSON, its `name`, or the text for people."""
        if self.form == "json":
            self.line(json_block(shape))
        elif self.form == "jsonl":
            self.line(json_line(shape))
        elif self.form == "name":
            self.line(str(shape.get(name, "")))
        else:
            self.line(text())

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """The first row is the header."""
        for line in columns(rows):
            self.line(line)

    def line(self, text: str) -> None:
        sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Something for people, on stderr; silent where a program reads."""
        if self.for_people:
            self.warn(text)

    def warn(self, text: str) -> None:
        sys.stdout.flush()  # in one stream with the answer, it comes after it
        sys.stderr.write(text + "\n")

    def coloured(self, text: str, colour: str | None) -> str:
        if not self._colours or colour is None:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"

    def state(self, text: str) -> str:
        """A state, coloured by its first word."""
        return self.coloured(text, STATE_COLOURS.get(text.split()[0].rstrip(",")))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their cells below each other, two spaces apart."""
    widths = [max(_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _width(text: str) -> int:
    """Cells on a terminal: colours take none, wide characters two, combining ones none."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    count, escape = 0, False
    for character in text:
        if character == "\x1b":
            escape = True
        elif escape:
            escape = character != "m"
        elif not unicodedata.combining(character):
            count += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return count


def json_line(shape: Any) -> str:
    return msgspec.json.encode(shape).decode()


def json_block(shape: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(shape)).decode()
