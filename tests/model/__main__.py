"""Searches the configurations, then the broken twins, and prints what was found.

python -m tests.model                 the small ones
python -m tests.model --large         all of them, minutes
python -m tests.model --trace NAME    a twin's shortest way to its violation
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a file: the checkout is two folders up
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.model.configurations import (
    LARGE,
    LARGE_TIME,
    LARGE_TWINS,
    SMALL,
    SMALL_TIME,
    TWINS,
    Twin,
    run,
)
from tests.model.lease_time import Clockwork
from tests.model.machine import Scene
from tests.model.search import render


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--large", action="store_true", help="the large bounds as well")
    parser.add_argument("--trace", metavar="NAME", help="print the trace of this broken twin")
    options = parser.parse_args(arguments)
    twins = TWINS + LARGE_TWINS if options.large or options.trace else TWINS
    if options.trace:
        return _trace([twin for twin in twins if twin.without == options.trace])
    scenes: dict[str, Scene | Clockwork] = {**SMALL, **SMALL_TIME}
    if options.large:
        scenes |= {**LARGE, **LARGE_TIME}
    clean = _table_of_scenes(scenes)
    return 0 if _table_of_twins(twins) and clean else 1


def _trace(twins: list[Twin]) -> int:
    for twin in twins:
        violation = run(twin.broken_scene()).violation
        print(f"without: {twin.without}")
        print(render(violation) if violation else "  nothing was found")
    return 0 if twins else 2


def _table_of_scenes(scenes: dict[str, Scene | Clockwork]) -> bool:
    print(f"{'configuration':26}{'states':>9}{'moves':>10}{'depth':>7}{'seconds':>9}  clean")
    clean = True
    for name, scene in scenes.items():
        found = run(scene)
        good = found.complete and found.violation is None
        clean &= good
        print(
            f"{name:26}{found.states:9}{found.transitions:10}{found.depth:7}"
            f"{found.seconds:9.1f}  {'yes' if good else 'NO'}",
            flush=True,
        )
        if found.violation is not None:
            print(render(found.violation))
    return clean


def _table_of_twins(twins: tuple[Twin, ...]) -> bool:
    print(f"\n{'without':44}{'states':>8}{'trace':>7}{'found':>7}  promise that broke")
    all_found = True
    for twin in twins:
        found = run(twin.broken_scene())
        violation = found.violation
        promise = violation.promise if violation else "-"
        good = promise == twin.promise
        all_found &= good
        length = len(violation.trace) if violation else 0
        print(
            f"{twin.without:44}{found.states:8}{length:7}{'yes' if good else 'NO':>7}  {promise}",
            flush=True,
        )
    return all_found


if __name__ == "__main__":
    sys.exit(main())
