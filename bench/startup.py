"""How long a command takes from its start to its exit: `import outlast`, `outlast ps`, and others.

    python -m bench.startup [--runs 20] [--json]

Exit code 1 where a median is over its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from .stage import databases, prepare

RUNS = 20
NOT_OURS = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
LIMIT_MS = {"import outlast": 100, "outlast ps (sqlite)": 150, "outlast ps (postgres)": 300}


def measured(command: list[str], environ: dict[str, str], runs: int) -> dict[str, float]:
    """Milliseconds of the wall clock and of the CPU, medians over `runs`, and the quickest."""
    subprocess.run(
        command, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    walls, cpus = [], []
    for _ in range(runs):
        before, began = _cpu_s(), time.perf_counter()
        subprocess.run(
            command, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        walls.append((time.perf_counter() - began) * 1000)
        cpus.append((_cpu_s() - before) * 1000)
    return {
        "median_ms": round(statistics.median(walls), 1),
        "fastest_ms": round(min(walls), 1),
        "cpu_median_ms": round(statistics.median(cpus), 1),
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(urls: Mapping[str, str], runs: int = RUNS) -> dict[str, dict[str, float]]:
    """Every command, measured on stores with a hundred tasks in each; `urls`: by their names."""
    outlast = str(Path(sys.executable).with_name("outlast"))
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            **{name: value for name, value in os.environ.items() if name not in NOT_OURS},
            # As an installed package has it: compiled once, here by the run that is not counted.
            "PYTHONPYCACHEPREFIX": f"{folder}/compiled",
        }
        found = {
            "python -c pass": measured([sys.executable, "-c", "pass"], environ, runs),
            "import outlast": measured([sys.executable, "-c", "import outlast"], environ, runs),
            "outlast --version": measured([outlast, "--version"], environ, runs),
        }
        for name, url in urls.items():
            _fill(url, 100)
            on_it = {**environ, "OUTLAST_DB": url}
            for command in ("ps", "deploy-gate"):
                found[f"outlast {command} ({name})"] = measured([outlast, command], on_it, runs)
    return found


def over_limits(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What took longer than it may, in words."""
    return [
        f"{name}: {found[name]['median_ms']} ms, the limit is {limit} ms"
        for name, limit in LIMIT_MS.items()
        if name in found and found[name]["median_ms"] > limit
    ]


def _fill(db: str, tasks: int) -> None:
    from outlast.client import connect

    with connect(db) as client:
        client.submit_many([("agent", {"number": number}) for number in range(tasks)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    with databases() as urls:
        for url in urls.values():
            prepare(url)
        found = run(urls, said.runs)
    if said.json:
        print(json.dumps(found, indent=2))
    else:
        for name, times in found.items():
            print(f"{name:32} " + "  ".join(f"{key} {value:7.1f}" for key, value in times.items()))
    over = over_limits(found)
    for words in over:
        print(f"OVER ITS LIMIT: {words}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
