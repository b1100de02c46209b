"""Commands of a target: run cold, a process each, or warm, all by one process that stays."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .target import CannotSay

COMMAND_S = 60.0


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    output: str
    errors: str = ""

    def json(self) -> Any:
        """What it printed, as JSON. Raises CannotSay if it failed or is none."""
        if self.code != 0:
            raise CannotSay(f"exit code {self.code}: {(self.errors or self.output)[-400:]}")
        try:
            return json.loads(self.output)
        except ValueError as error:
            raise CannotSay(f"no JSON ({error}): {self.output[:200]!r}") from error


def run(
    words: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float = COMMAND_S,
) -> Ran:
    """Run a command to its end."""
    try:
        done = subprocess.run(
            list(words),
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CannotSay(f"{words[0]} did not end in {timeout_s:g} s") from error
    return Ran(
        done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )


class Warm:
    """A process that runs one command after the other: a JSON list of words a line, and answers
    {"code", "output", "errors"} a line. It saves the start of an interpreter for each."""

    def __init__(self, words: Sequence[str], folder: Path) -> None:
        self._words, self._folder = list(words), folder
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, *words: str) -> Ran:
        """Run one command. Raises CannotSay if the process has died."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(words).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError as error:
                raise CannotSay(f"the command process is gone: {error}") from error
            if not line:
                raise CannotSay("the command process has ended")
        return Ran(**json.loads(line))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._process is None:
                return
            for end in (self._process.stdin, self._process.stdout):
                if end:
                    end.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise CannotSay("the run is over")
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._words,
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        return self._process
