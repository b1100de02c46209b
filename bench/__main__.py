"""Every measurement, one after the other: `python -m bench [--quick] [--json FILE]`.

Times are only worth comparing within one run: the machine and its load stand in the result.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from . import handover, replay, sleepers, startup, steps
from .stage import databases, prepare


def measure(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": _machine()}
    with databases() as urls:
        for url in urls.values():
            prepare(url)
        found["start-up"] = startup.run(urls, 5 if quick else startup.RUNS)
        for name, url in urls.items():
            say(f"{name}: hand-over, steps, replay, sleepers")
            found[f"{name}: hand-over"] = handover.run(url, 5 if quick else 20)
            lengths = replay.LENGTHS[:2] if quick else replay.LENGTHS
            found[f"{name}: one task"] = steps.run(url, tasks=1, steps=200 if quick else 1_000)
            found[f"{name}: 50 tasks"] = steps.run(url, tasks=50, steps=20 if quick else 100)
            found[f"{name}: replay"] = replay.run(url, lengths)
            found[f"{name}: sleepers"] = sleepers.run(url, 200 if quick else 1_000)
    found["load after"] = os.getloadavg()[0]
    return found


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, for CI")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    said = parser.parse_args()
    found = measure(said.quick)
    text = json.dumps(found, indent=2)
    if said.json:
        said.json.write_text(text + "\n")
    print(text)
    over = startup.over_limits(found["start-up"])
    for words in over:
        say(f"OVER ITS LIMIT: {words}")
    # The quick form runs where others work too: there a time says little.
    return 1 if over and not said.quick else 0


if __name__ == "__main__":
    sys.exit(main())
