"""Every measurement, one after the other, or a part of them; and what is made of a result.

    python -m bench                          all: Outlast, the raw limit and the peers
    python -m bench --quick                  Outlast and the limit, smaller, for CI
    python -m bench --only Absurd,Outlast --measures many,noops
    python -m bench --docs RESULT.json       write its table and charts into docs/

Times are only worth comparing within one run: the machine and its load stand in the result.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
from pathlib import Path
from typing import Any

from . import ours, rates, report, startup
from .comparison import FAST, YIELDS, Comparison, Plan
from .stage import say
from .subject import CONTENDERS

OURS = "Outlast"


def planned(quick: bool, only: str, measures: str) -> Plan:
    """Raises ValueError for a name that nothing has."""
    names = [each.strip() for each in only.split("/") if each.strip()]
    if unknown := set(names) - {each.name for each in CONTENDERS}:
        raise ValueError(f"unknown systems {sorted(unknown)}")
    asked = [each for each in measures.split(",") if each] or list(YIELDS)
    if unknown := set(asked) - set(YIELDS):
        raise ValueError(f"unknown measures {sorted(unknown)}; there are {', '.join(YIELDS)}")
    contenders = [each for each in CONTENDERS if each.name in names or not names]
    if quick:
        contenders = [each for each in contenders if each.name.startswith(OURS)]
        asked = [each for each in asked if each in FAST]
        return Plan(contenders, asked, rates.QUICK, 1, limit_s=3, idle_s=5, held_s=5)
    return Plan(contenders, asked, rates.Sizes(), 3, limit_s=5, idle_s=60, held_s=60)


def measure(plan: Plan, *, quick: bool, alone: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": _machine()}
    if alone:
        found["ours"] = ours.run(quick)
    found["comparison"] = Comparison(plan).run()
    found["load after"] = os.getloadavg()[0]
    return found


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="ours and the limit, smaller, for CI")
    parser.add_argument("--only", default="", help="systems by their names, a slash between them")
    parser.add_argument("--measures", default="", help=f"of {','.join(YIELDS)}")
    parser.add_argument("--rounds", type=int, help="how often each rate is measured")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    parser.add_argument("--docs", type=Path, metavar="RESULT", help="make the pages of a result")
    said = parser.parse_args()
    if said.docs:
        report.write(json.loads(said.docs.read_text()))
        return 0
    # So that whatever was started is ended, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = planned(said.quick, said.only, said.measures)
    if said.rounds:
        plan = plan.with_rounds(said.rounds)
    alone = not (said.only or said.measures)
    return told(measure(plan, quick=said.quick, alone=alone), said.quick, said.json)


def told(found: dict[str, Any], quick: bool, path: Path | None) -> int:
    """Print the results, and say what is over its limit; the exit code."""
    text = json.dumps(found, indent=2)
    if path:
        path.write_text(text + "\n")
    print(text)
    over = startup.over_limits(found.get("ours", {}).get("start-up", {}))
    for words in over:
        say(f"OVER ITS LIMIT: {words}")
    # The quick form runs where others work too: there a time says little.
    return 1 if over and not quick else 0


if __name__ == "__main__":
    sys.exit(main())
