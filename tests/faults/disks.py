"""Disks of one's own: small ones, to be filled or made read-only, and some that are none."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import programs
from tests.support.postgres_release import Release


class Disk:
    """A file system of its own in memory, so large that it can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._ballast.open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"\0" * 4096)
            except OSError:
                return

    def make_room(self) -> None:
        self._ballast.unlink()

    def allow_writes(self, allowed: bool) -> None:
        _mount("-o", f"remount,{'rw' if allowed else 'ro'}", str(self.folder))


@contextmanager
def small_disk(folder: Path, megabytes: int = 4) -> Iterator[Disk]:
    """A disk mounted at `folder` within the block; a loud skip where that is denied."""
    folder.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", str(folder))
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@dataclass
class SmallDisks(Release):
    """A PostgreSQL release whose servers have a small disk each, until `close`."""

    megabytes: int = 160
    disks: list[Disk] = field(default_factory=list)
    _mounted: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(cls, release: Release) -> SmallDisks:
        return cls(release.name, release.programs, release.account, release.keeper)

    def _own_folder(self, name: str) -> Path:
        folder = self.keeper.new_folder(name)
        if not name.startswith("template"):
            self.disks.append(self._mounted.enter_context(small_disk(folder, self.megabytes)))
        self.account.give(folder)
        return folder

    def close(self) -> None:
        self._mounted.close()


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder that is no disk, where there is one: for tests that are not about disks."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else otherwise
    with tempfile.TemporaryDirectory(prefix="outlast-tests-", dir=place) as name:
        yield Path(name)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        programs.missing(f"the right to mount a disk ({done.stderr.strip()})")
