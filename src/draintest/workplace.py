"""The workplace of a run: a temporary folder, and a list of all that must not outlive the run.

Who comes next clears what a run left that was killed: its processes, schemas and files, known by
this list alone. Nothing that is not on it is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

from .postgres import MARK, query
from .processes import END_S, born, group
from .target import CannotSay
from .waiting import until_gone

PREFIX = "draintest-"


class Workplace:
    """A folder of this run, cleared at its end or by the next run."""

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        self.swept = sweep(parent)
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        (self.folder / "owner").write_text(f"{os.getpid()} {born(os.getpid())}")

    def new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def answer_for_process(self, pid: int) -> None:
        self._note({"pid": pid, "born": born(pid)})

    def answer_for_schema(self, url: str, name: str) -> None:
        self._note({"url": url, "schema": name})

    def answer_for_mount(self, folder: Path) -> None:
        self._note({"mount": str(folder)})

    def answer_for_namespace(self, name: str) -> None:
        self._note({"namespace": name})

    def close(self) -> None:
        """Take away what is still there, whatever broke the run off; then the list of it."""
        for thing in _things(self.folder):
            if "schema" not in thing:  # each scenario drops its own, or says that it is left
                _clear(thing)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _note(self, thing: dict[str, object]) -> None:
        with (self.folder / "things").open("a") as file:
            file.write(json.dumps(thing) + "\n")


def sweep(parent: Path) -> list[str]:
    """Clear the workplaces of runs that are gone; what was cleared, in words."""
    cleared = []
    for folder in parent.glob(PREFIX + "*"):
        try:
            pid, birth = map(int, (folder / "owner").read_text().split())
        except (OSError, ValueError):
            continue
        if born(pid) != birth:
            cleared += [words for thing in _things(folder) if (words := _clear(thing))]
            shutil.rmtree(folder, ignore_errors=True)
            cleared.append(f"folder {folder}")
    return cleared


def _clear(thing: dict[str, object]) -> str:
    if "pid" in thing:
        pid = int(str(thing["pid"]))
        members = group(pid) if born(pid) in (0, thing["born"]) else []
        for member in members:
            with contextlib.suppress(OSError):
                os.kill(member, signal.SIGKILL)
        until_gone(lambda: not members or not group(pid), END_S)  # before its files are taken away
        return f"process {pid}" if members else ""
    if "mount" in thing:
        from .disks import unmount

        folder = Path(str(thing["mount"]))
        return f"disk {folder}" if unmount(folder) else ""
    if "namespace" in thing:
        from .network import remove

        name = str(thing["namespace"])
        return f"network {name}" if remove(name) else ""
    url, name = str(thing["url"]), str(thing["schema"])
    with contextlib.suppress(CannotSay):
        if query(url, MARKED, name, MARK):
            query(url, f'drop schema "{name}" cascade')
            return f"schema {name}"
    return ""


def _things(folder: Path) -> list[dict[str, object]]:
    try:
        return [json.loads(line) for line in (folder / "things").read_text().splitlines()]
    except (OSError, ValueError):
        return []


MARKED = (
    "select 1 from pg_namespace where nspname = %s and obj_description(oid, 'pg_namespace') = %s"
)
