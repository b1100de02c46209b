"""Programs that a test wants and a machine may lack: used, or missed out loud."""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

# Where Debian keeps programs that are on nobody's PATH.
MORE_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin")


def require(program: str, package: str = "") -> Path:
    """The path of `program`; without it the test is skipped, or fails where all are required.

    `package` is the Debian package to name in the message, if it is called otherwise.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *MORE_FOLDERS])
    found = shutil.which(program, path=path)
    if found is None:
        missing(f"the program {program} (Debian: apt-get install {package or program})")
    return Path(found)


def require_module(module: str, extra: str) -> None:
    """Skip or fail like `require` where the Python module of an extra is not installed."""
    if importlib.util.find_spec(module) is None:
        missing(f"the module {module} (pip install 'outlast[{extra}]')")


def missing(what: str) -> NoReturn:
    """End this test: skipped by default, failed under OUTLAST_TEST_REQUIRE=all."""
    if everything_is_required():
        pytest.fail(f"OUTLAST_TEST_REQUIRE=all, and this machine lacks {what}", pytrace=False)
    pytest.skip(f"NOT TESTED: this machine lacks {what}")


def everything_is_required() -> bool:
    """True where a missing program must not pass for a green run: in CI."""
    return os.environ.get("OUTLAST_TEST_REQUIRE") == "all"
