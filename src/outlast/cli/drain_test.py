"""`outlast drain-test`: starts the drain test, a program apart, for the kind of store at hand."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import click

from ..core.errors import BadSetting
from .options import Session, common


@click.command(
    "drain-test", context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@common
def drain_test(session: Session, words: tuple[str, ...]) -> int:
    """Harm real workers on a store like yours, and judge whether anything was lost or done twice.

    On PostgreSQL schemas of its own are made and dropped; your tasks are not touched. WORDS go to
    `draintest run outlast`, like `--faults kill` or `--evidence FOLDER`. Exit code 0 pass, 1 fail,
    2 inconclusive.
    """
    if importlib.util.find_spec("draintest") is None:
        raise BadSetting("the drain test is not installed beside outlast; nothing was run")
    command = [sys.executable, "-m", "draintest", "run", "outlast", *words]
    # By the environment: an address may hold a password, and everybody sees a command line.
    own = {} if session.db.startswith("sqlite:") else {"DRAINTEST_DB": session.db}
    return subprocess.call(command, env={**os.environ, **own})
