"""`outlast demo`: kill a worker in the middle of a task, and see another go on."""

from __future__ import annotations

import importlib

import click

from ..core.errors import BadSetting


@click.command("demo", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> int:
    """Kill a worker for real, freeze another, and judge from outside whether anything was lost."""
    try:
        module = importlib.import_module("outlast.demo")
    except ModuleNotFoundError as error:
        if error.name != "outlast.demo":
            raise
        raise BadSetting("this installation has no demo; nothing was started") from error
    answer = module.run(list(arguments))
    return int(answer or 0)
