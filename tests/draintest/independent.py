"""Verifies an evidence folder, written from the documentation alone: it imports nothing of ours."""

import hashlib
import json
import sys
from pathlib import Path


def problems(folder: Path) -> list[str]:
    found, listed = [], set()
    for number, line in enumerate((folder / "SHA256SUMS").read_text().splitlines(), 1):
        digest, gap, name = line[:64], line[64:66], line[66:]
        listed.add(name)
        path = folder / name
        if gap != "  " or not path.is_file():
            found.append(f"SHA256SUMS line {number}: {name} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            found.append(f"{name} was changed")
    there = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    found += [f"{name} was added" for name in there - listed - {"SHA256SUMS"}]
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    found += [f"history line {at}" for at, r in enumerate(history, 1) if r["n"] != at]
    times = [record["t_ms"] for record in history]
    found += ["the history goes back in time"] * (times != sorted(times))
    verdict = json.loads((folder / "verdict.json").read_text())
    cited = [n for c in verdict["checks"] for f in c["findings"] for n in f["lines"]]
    found += [f"line {n} is cited and not there" for n in cited if not 0 < n <= len(history)]
    return found


if __name__ == "__main__":
    print(*problems(Path(sys.argv[1])), sep="\n")
