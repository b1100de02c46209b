"""Real processes: started, watched, signalled, and ended with all below them."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support import leftovers
from tests.support.keeper import Keeper
from tests.support.waiting import until

OUTLAST = Path(sys.executable).with_name("outlast")
END_S = 15.0


class Running:
    """One process, in a session and group of its own, its output in a file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], output_path: Path) -> None:
        self.name = name
        self.pid = process.pid
        self.output_path = output_path
        self._process = process
        self._born = leftovers.born(process.pid)

    @property
    def output(self) -> str:
        """Everything written to stdout and stderr so far, in the order it came."""
        return self.output_path.read_text(errors="replace")

    @property
    def code(self) -> int | None:
        """The exit code; -9 after a kill; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self._process.send_signal(number)

    def send_group(self, number: signal.Signals) -> None:
        """Send a signal to it and everything below it that kept its group."""
        os.killpg(self.pid, number)

    def wait(self, timeout_s: float = END_S) -> int:
        """The exit code; fails with the output if it does not end in time."""
        until(
            lambda: self.code is not None,
            f"{self.name} to end",
            timeout_s=timeout_s,
            detail=self._so_far,
        )
        assert self.code is not None
        return self.code

    def wait_for_line(self, text: str, timeout_s: float = 10.0) -> str:
        """The first line of output that holds `text`, once it is complete."""
        return until(
            lambda: self._line_with(text),
            f"{self.name} to print {text!r}",
            timeout_s=timeout_s,
            detail=self._so_far,
        )

    def wait_for_state(self, letters: str, timeout_s: float = 10.0) -> str:
        """Wait until `state` is one of `letters`, and return it."""
        until(
            lambda: self.state() in letters,
            f"{self.name} to be in state {letters}",
            timeout_s=timeout_s,
            detail=self.state,
        )
        return self.state()

    def state(self) -> str:
        """What `state_of` says."""
        return state_of(self.pid)

    def below(self) -> list[int]:
        """The pids of everything below this process."""
        return leftovers.descendants(self.pid)

    def end(self) -> None:
        """Kill it and everything below it, if it still runs."""
        leftovers.end(self.pid, self._born)
        self._process.wait(timeout=END_S)

    def _line_with(self, text: str) -> str | None:
        if self.code is None:
            complete, _, _ = self.output.rpartition("\n")
        else:
            complete = self.output
        found = next((line for line in complete.splitlines() if text in line), None)
        if found is None and self.code is not None:
            raise AssertionError(
                f"{self.name} ended with {self.code} before {text!r} {self._so_far()}"
            )
        return found

    def _so_far(self) -> str:
        return f"\n--- output of {self.name} (pid {self.pid}, {self.state()}):\n{self.output}"


def state_of(pid: int) -> str:
    """The letter of /proc/PID/status: R, S, D, T (stopped), Z; `-` once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "-"
    line = next(line for line in status.splitlines() if line.startswith("State:"))
    return line.split()[1]


class Processes:
    """All processes of one test; leaving it ends them."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._folder = keeper.new_folder("processes")
        self._running: list[Running] = []
        self._numbers = itertools.count(1)

    def start(
        self,
        *command: str | Path,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Running:
        """Start a program; `environment` is added to our own."""
        name = name or Path(command[0]).name
        output_path = self._folder / f"{next(self._numbers)}-{name}.out"
        with output_path.open("wb") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder or self._folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._keeper.adopt(process.pid)
        running = Running(name, process, output_path)
        self._running.append(running)
        return running

    def python(self, *words: str | Path, name: str = "python", **options: object) -> Running:
        """Start this interpreter: `python("-c", "...")` or `python(script)`."""
        return self.start(sys.executable, *words, name=name, **options)  # type: ignore[arg-type]

    def outlast(self, *words: str | Path, name: str = "outlast", **options: object) -> Running:
        """Start the command `outlast` of this environment."""
        return self.start(OUTLAST, *words, name=name, **options)  # type: ignore[arg-type]

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for running in reversed(self._running):
            running.end()
        leftovers.remove_folder(self._folder)
