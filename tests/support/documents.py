"""Code in the documentation, run as a reader would run it.

In a Markdown file, in the order of the page and in one empty folder:

    ```python                 runs; names live on to the next such block of the page
    ```python title="app.py"  is written to that file
    ```console                lines with `$ ` run, the others are what they print

A command that ends with ` &` runs on in the background. In expected output `...` stands for
anything. `<!-- not run: REASON -->` on the line before a fence shows a block without running it.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import OUTLAST, Processes

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.M | re.S,
)
NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S[^\n]*?) -->\s*\Z")
TITLE = re.compile(r'title="(?P<title>[^"]+)"')
COMMAND_S = 60


@dataclass(frozen=True)
class Block:
    """A fenced block of code: `line` is where it begins, `reason` why it is not run, if so."""

    language: str
    text: str
    line: int
    title: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Command:
    """One `$ ` line of a console block and the lines that it should print."""

    words: str
    expected: tuple[str, ...]

    @property
    def goes_on(self) -> bool:
        return self.words.endswith(" &")


def blocks(text: str) -> list[Block]:
    """The python and console blocks of a Markdown text."""
    return [
        _block(text, found)
        for found in FENCE.finditer(text)
        if found["language"] in ("python", "console")
    ]


def commands(console: str) -> list[Command]:
    """The commands of a console block; a backslash at the end of a line joins the next to it."""
    told = re.sub(r"\\\n *", "", console).splitlines()
    starts = [n for n, line in enumerate(told) if line.startswith("$ ")]
    ends = [*starts[1:], len(told)]
    return [
        Command(told[start][2:].strip(), tuple(told[start + 1 : end]))
        for start, end in zip(starts, ends, strict=True)
    ]


def differs(expected: tuple[str, ...], printed: str) -> str:
    """What is missing of the expected lines; empty if they all came, one after the other."""
    position = 0
    lines = [line.rstrip() for line in printed.splitlines()]
    for wanted in filter(None, (line.rstrip() for line in expected)):
        pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        found = [n for n, line in enumerate(lines) if n >= position and pattern.fullmatch(line)]
        if not found and wanted != "...":
            return f"expected the line\n  {wanted}\nin\n{printed}"
        position = found[0] + 1 if found else position
    return ""


class Page:
    """One Markdown file, run from top to bottom in `folder`."""

    def __init__(self, path: Path, folder: Path, processes: Processes) -> None:
        self.path = path
        self._folder = folder
        self._processes = processes
        self._names: dict[str, object] = {"__name__": "__main__"}

    def run(self) -> int:
        """Run every block that is to be run; returns how many were. Raises AssertionError."""
        to_run = [block for block in blocks(self.path.read_text("utf-8")) if not block.reason]
        for block in to_run:
            if block.title:
                (self._folder / block.title).write_text(block.text)
            elif block.language == "python":
                self._python(block)
            else:
                for command in commands(block.text):
                    self._command(command, block)
        return len(to_run)

    def _python(self, block: Block) -> None:
        # Empty lines first, so that a traceback names the line of the page.
        program = "\n" * block.line + block.text
        exec(compile(program, str(self.path), "exec"), self._names)

    def _command(self, command: Command, block: Block) -> None:
        where = f"{self.path.name}:{block.line}: $ {command.words}"
        if command.goes_on:
            shell = ("sh", "-c", f"exec {command.words.removesuffix('&')}")
            running = self._processes.start(*shell, folder=self._folder, environment=surroundings())
            for line in filter(None, command.expected):
                running.wait_for_line(line.partition("...")[0])
            return
        done = subprocess.run(
            ["sh", "-c", command.words],
            cwd=self._folder,
            env={**os.environ, **surroundings()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
        )
        assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}"
        missing = differs(command.expected, done.stdout)
        assert not missing, f"{where}: {missing}"


def surroundings() -> dict[str, str]:
    """What a reader's shell has: our commands on the PATH, plain output, and no old setting."""
    path = os.pathsep.join([str(OUTLAST.parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}


def forget_modules(folder: Path) -> None:
    """Take back the import of files that a page wrote into `folder`."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).parent == folder:
            del sys.modules[name]
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)


def _block(text: str, found: re.Match[str]) -> Block:
    indent = found["indent"]
    title = TITLE.search(found["options"])
    not_run = NOT_RUN.search(text[: found.start()])
    return Block(
        language=found["language"],
        text=re.sub(f"^{indent}", "", found["text"], flags=re.M),
        line=text.count("\n", 0, found.start()) + 1,
        title=title["title"] if title else "",
        reason=not_run["reason"] if not_run else "",
    )
