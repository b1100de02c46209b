"""The evidence folder: history, verdict, report, and sums that name any file that was changed."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .history import Record, line_of, read
from .report.html import page
from .report.junit import junit
from .verdict import Verdict, judge

SUMS = "SHA256SUMS"


def write(folder: Path, records: list[Record], environment: dict[str, Any]) -> Verdict:
    """Judge a history, and write everything that vouches for the verdict."""
    verdict = judge(records)
    (folder / "history.jsonl").write_bytes(b"".join(map(line_of, records)))
    _write_json(folder / "verdict.json", verdict.plain())
    _write_json(folder / "env.json", environment)
    (folder / "report.html").write_text(page(records, verdict, environment))
    (folder / "junit.xml").write_text(junit(verdict))
    # The parts of the history as they were written; they are all in it now.
    shutil.rmtree(folder / "raw", ignore_errors=True)
    (folder / SUMS).write_text("".join(f"{sha}  {name}\n" for name, sha in sums(folder).items()))
    return verdict


def verify(folder: Path) -> list[str]:
    """What does not fit: changed, missing or added files, and a verdict that does not follow."""
    if not (folder / SUMS).exists():
        return [f"{SUMS} is missing: this is no evidence folder"]
    told, found = {}, []
    for number, line in enumerate((folder / SUMS).read_text(errors="replace").splitlines(), 1):
        sha, gap, name = line.partition("  ")
        if not gap or len(sha) != 64:
            found.append(f"{SUMS}: line {number} cannot be read")
        told[name] = sha
    there = sums(folder)
    found += [f"{name} was changed" for name in told if name in there and there[name] != told[name]]
    found += [f"{name} is missing" for name in told if name not in there]
    found += [f"{name} was added" for name in there if name not in told]
    return found or _does_not_follow(folder)


def _does_not_follow(folder: Path) -> list[str]:
    """Judge the history again: the verdict is a function of it."""
    again = json.loads(json.dumps(judge(read(folder / "history.jsonl")).plain()))
    if again != json.loads((folder / "verdict.json").read_text()):
        return ["verdict.json does not follow from history.jsonl (by this version's checks)"]
    return []


def sums(folder: Path) -> dict[str, str]:
    """Each file below the folder, by its path in it, with its SHA-256."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def environment(
    target: dict[str, Any], command: list[str], facts: dict[str, Any]
) -> dict[str, Any]:
    """Where and with what a run was made; no setting of ours, so no secrets."""
    return {
        "command": command,
        "target": target,
        **facts,
        "draintest": _version(),
        "python": sys.version.split()[0],
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def _version() -> str:
    try:
        return version("outlast")
    except PackageNotFoundError:
        return "unknown"


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n")
