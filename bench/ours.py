"""What is measured of Outlast alone: start-up, hand-overs, replay by length, sleepers."""

from __future__ import annotations

from typing import Any

from . import handover, replay, sleepers, startup
from .stage import databases, prepare, say


def run(quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with databases() as urls:
        for url in urls.values():
            prepare(url)
        say("start-up")
        found["start-up"] = startup.run(urls, 5 if quick else startup.RUNS)
        for name, url in urls.items():
            say(f"{name}: hand-over, replay, sleepers")
            found[f"{name}: hand-over"] = handover.run(url, 5 if quick else 20)
            lengths = replay.LENGTHS[:2] if quick else replay.LENGTHS
            found[f"{name}: replay"] = replay.run(url, lengths)
            found[f"{name}: sleepers"] = sleepers.run(url, 200 if quick else 1_000)
    return found
