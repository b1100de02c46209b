"""Small disks: file systems in memory that can be filled. Needs the right to mount."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .target import CannotSay
from .workplace import Workplace

MEGABYTES = 32
BLOCK = b"\0" * 65_536


class SmallDisk:
    """A disk mounted over `folder` until `close`."""

    def __init__(self, folder: Path, workplace: Workplace, megabytes: int = MEGABYTES) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        workplace.answer_for_mount(folder)
        said = mount(folder, megabytes)
        if said:
            raise CannotSay(f"no disk could be mounted at {folder}: {said}")

    def fill(self) -> dict[str, Any]:
        """Leave no byte free; the proof."""
        said = "nothing was refused"
        with self._ballast.open("wb", buffering=0) as ballast:
            for block in (BLOCK, b"\0"):
                try:
                    while ballast.write(block):
                        pass
                except OSError as error:
                    said = error.strerror or str(error)
        return {"free_blocks": os.statvfs(self.folder).f_bavail, "write_refused": said}

    def make_room(self) -> None:
        self._ballast.unlink()

    def close(self) -> None:
        unmount(self.folder)


@functools.cache
def can_mount() -> bool:
    """Whether this process may mount: it is tried."""
    with tempfile.TemporaryDirectory() as folder:
        said = mount(Path(folder), 1)
        if not said:
            unmount(Path(folder))
        return not said


def mount(folder: Path, megabytes: int) -> str:
    """Mount an empty disk over a folder; what is said against it, "" if it is there."""
    options = f"size={megabytes}m,mode=711"
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "draintest", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


def unmount(folder: Path) -> bool:
    """Take a disk of ours away again; False if there is none."""
    with contextlib.suppress(OSError):
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        if ["draintest", str(folder)] in [words[:2] for words in mounts]:
            command = ["umount", "-l", str(folder)]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False
