"""An export as lines: a card, then each task's head and events, then a seal over them all.

The head comes before the log that it belongs to, so that a log that was cut off or rewritten to its
end is told from the head that it should have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from ..core.chain import ZEROS, digest
from ..core.model import Event, Task
from .output import json_line

HEADER, TASK, END = "export/1", "task", "end"
FAULTS_MAX = 100
Shape = dict[str, Any]


class Seal:
    """Writes lines, and closes them with their digest."""

    def __init__(self) -> None:
        self.tasks = self.events = 0
        self._sha = hashlib.sha256()

    def line(self, shape: Shape) -> str:
        text = json_line(shape) + "\n"
        self._sha.update(text.encode())
        return text

    def end(self) -> str:
        closing = {"tasks": self.tasks, "events": self.events, "sha256": self._sha.hexdigest()}
        return json_line({"outlast": END, **closing}) + "\n"


def task_line(task: Task, head: Event | None) -> Shape:
    """What stands before a task's events. `head`: its last event; `row`: the head in its row."""
    return {
        "outlast": TASK,
        "task": task.id,
        "agent": task.agent,
        "state": task.state,
        "head": None if head is None else {"seq": head.seq, "digest": head.digest},
        "row": {"seq": task.head_seq, "digest": task.head_digest},
    }


class Fault(msgspec.Struct, frozen=True):
    """Something that does not fit, and where."""

    line: int
    task: str | None
    seq: int | None
    said: str


class Verdict:
    """What a check found; faults beyond a hundred are not kept."""

    def __init__(self) -> None:
        self.tasks = self.events = 0
        self.faults: list[Fault] = []
        self.heads: list[Shape] = []

    def fault(self, line: int, said: str, task: str | None = None, seq: int | None = None) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(Fault(line, task, seq, said))


class _Line(msgspec.Struct):
    """Any line of an export; what it lacks is None."""

    outlast: str | None = None
    task: str | None = None
    seq: int | None = None
    holder: int | None = None
    kind: str | None = None
    body: str | None = None
    at_ms: int | None = None
    digest: str | None = None
    head: dict[str, Any] | None = None
    row: dict[str, Any] | None = None
    tasks: int | None = None
    events: int | None = None
    sha256: str | None = None


class _Log:
    """One task's log as it is read."""

    def __init__(self, line: _Line) -> None:
        self.task = line.task or ""
        self.head, self.row = line.head, line.row
        self.seq, self.digest = 0, ZEROS
        self.row_seen = self.row is None
        self.broken = False


def check(lines: Iterable[bytes]) -> Verdict:
    """Recompute everything; one log after the other, whatever its length."""
    return _Check().run(lines)


class _Check:
    def __init__(self) -> None:
        self.verdict = Verdict()
        self._log: _Log | None = None
        self._sha = hashlib.sha256()
        self._ended = False
        self._number = 0

    def run(self, lines: Iterable[bytes]) -> Verdict:
        for number, raw in enumerate(lines, 1):
            self._number = number
            self._line(raw)
        self._close_log()
        if not self._number:
            self.verdict.fault(0, "the file is empty")
        elif not self._ended:
            self.verdict.fault(
                self._number,
                "the file was cut off after this line: the line that seals it is missing",
            )
        return self.verdict

    def _line(self, raw: bytes) -> None:
        if self._ended:
            self.verdict.fault(self._number, "there are lines after the one that seals the file")
            return
        try:
            line = msgspec.json.decode(raw, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.verdict.fault(
                self._number, f"this line is no JSON of an export ({error})", *self._at()
            )
            self._sha.update(raw)
            self._skip()
            return
        if line.outlast == END:
            self._end(line)
            return
        self._sha.update(raw)
        if self._number == 1 and line.outlast != HEADER:
            self.verdict.fault(1, f"the file does not begin with the card of an {HEADER}")
        if line.outlast == TASK:
            self._close_log()
            self._log = _Log(line)
            self.verdict.tasks += 1
        elif line.outlast is None:
            self._event(line)

    def _event(self, line: _Line) -> None:
        self.verdict.events += 1
        log = self._log
        if log is None or line.task != log.task:
            self.verdict.fault(
                self._number,
                f"event {line.seq} of task {line.task} stands outside of its task",
                line.task,
                line.seq,
            )
            return
        if log.broken:
            return
        why = _why_not_next(log, line)
        if why is not None:
            log.broken = True
            self.verdict.fault(
                self._number, f"task {log.task}, event {line.seq}: {why}", log.task, line.seq
            )
            return
        log.seq, log.digest = log.seq + 1, line.digest or ""
        log.row_seen = log.row_seen or log.row == {"seq": log.seq, "digest": log.digest}

    def _close_log(self) -> None:
        """The log is over: is its head the one that was announced?"""
        log, self._log = self._log, None
        if log is None:
            return
        self.verdict.heads.append({"task": log.task, "seq": log.seq, "digest": log.digest})
        del self.verdict.heads[:-1000]
        if log.broken:
            return
        said = _why_not_whole(log)
        if said is not None:
            self.verdict.fault(self._number, f"task {log.task}: {said}", log.task, log.seq)

    def _end(self, line: _Line) -> None:
        self._close_log()
        self._ended = True
        if (line.tasks, line.events) != (self.verdict.tasks, self.verdict.events):
            self.verdict.fault(
                self._number,
                f"the seal counts {line.tasks} tasks and {line.events} events, the file has "
                f"{self.verdict.tasks} and {self.verdict.events}",
            )
        elif line.sha256 != self._sha.hexdigest():
            self.verdict.fault(
                self._number, "the seal is not that of the lines before it: one was changed"
            )

    def _at(self) -> tuple[str | None, int | None]:
        return (None, None) if self._log is None else (self._log.task, self._log.seq + 1)

    def _skip(self) -> None:
        if self._log is not None:
            self._log.broken = True


def _why_not_next(log: _Log, line: _Line) -> str | None:
    """Why an event does not follow the one before; None: it does."""
    if line.seq != log.seq + 1:
        return f"event {log.seq + 1} was expected here"
    if line.holder is None or line.kind is None or line.body is None or line.at_ms is None:
        return "fields are missing"
    wanted = digest(log.digest, log.task, line.seq, line.holder, line.kind, line.body, line.at_ms)
    if wanted != line.digest:
        return "its digest is not that of its content and of the event before"
    return None


def _why_not_whole(log: _Log) -> str | None:
    """Why a log, sound as far as it goes, is not the one that its head was taken of."""
    head = log.head or {"seq": 0, "digest": ZEROS}
    if log.seq != head.get("seq"):
        return (
            f"its log ends at event {log.seq}, its head is event {head.get('seq')}: "
            "events were cut off or added"
        )
    if log.digest != head.get("digest"):
        return f"its last event, {log.seq}, is not the head on record: the tail was rewritten"
    if log.row is not None and not log.row_seen:
        return (
            f"event {log.row.get('seq')}, where its row says that it last changed hands, is not on "
            "its log: the log was cut off or rewritten in the store"
        )
    return None
