"""The keeper of this test process: a folder for what it makes, and a process that clears it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import leftovers

PATTERN = "outlast-tests-*"


class Keeper:
    """Owns one folder and every process started through it; nothing of either stays behind."""

    def __init__(self) -> None:
        parent = _folder_for_everyone()
        leftovers.sweep(parent, PATTERN)
        self.folder = Path(tempfile.mkdtemp(prefix=PATTERN.rstrip("*"), dir=parent))
        # A server run as somebody else must be able to pass through, though not to list it.
        self.folder.chmod(0o711)
        (self.folder / "owner").write_text(f"{os.getpid()} {leftovers.born(os.getpid())}")
        self._process = subprocess.Popen(
            [sys.executable, "-E", "-S", leftovers.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def new_folder(self, name: str) -> Path:
        """An empty folder of that name, with a number behind it."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))

    def adopt(self, pid: int, polite: int | None = None) -> None:
        """Answer for process `pid`: when this test process is gone, it is ended.

        `polite` is a signal that lets it end by itself first.
        """
        entry = {"pid": pid, "born": leftovers.born(pid)}
        if polite is not None:
            entry["polite"] = int(polite)
        with (self.folder / "processes").open("a") as adopted:
            adopted.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        """End and clear everything now; the keeper's own end is waited for."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        if self.folder.exists():
            shutil.rmtree(self.folder)


def _folder_for_everyone() -> Path:
    """The temporary folder, or another if only its owner may enter that."""
    for folder in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):
        if all(each.stat().st_mode & 0o001 for each in [folder, *folder.parents]):
            return folder
    raise RuntimeError("no temporary folder that every user of this machine may enter")
