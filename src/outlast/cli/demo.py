"""`outlast demo`: kill a worker in the middle of a task, and see another go on."""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import BadSetting


@click.command("demo")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("outlast-demo"),
    show_default=True,
    help="Made anew; the store, the record and the report lie there afterwards.",
)
def demo(folder: Path) -> int:
    """Kill a worker for real, freeze another, and judge from outside whether anything was lost.

    Exit code 1 if a letter was lost or sent twice.
    """
    try:
        from ..demo import run
    except ModuleNotFoundError as error:
        raise BadSetting(
            f"this installation has no demo ({error.name} is missing); nothing was started"
        ) from error
    return run(folder, say=click.echo)
