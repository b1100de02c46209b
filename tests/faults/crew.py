"""Runs a race: several processes with several threads each on one database; then it is judged."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from outlast.core.clock import Env
from outlast.store.migrate import migrate
from outlast.store.open import open_database, open_store
from outlast.store.verbs import NewTask
from tests.faults.broken import RESENDS
from tests.faults.judge import Verdict, judge
from tests.faults.racers import Plan
from tests.store.world import AGENT
from tests.support.processes import Processes

PROJECT = Path(__file__).parents[2]
PROCESSES = 4
# In each process:
WRITERS = 4
TAKERS = 1
START_S = 30.0
END_S = 30.0


@dataclass(frozen=True)
class Figures:
    """How a race went: what its processes counted, what they thought wrong, and the verdict."""

    counts: Counter[str]
    wrong: list[str]
    verdict: Verdict

    @property
    def violations(self) -> int:
        return self.verdict.violations.total() + len(self.wrong)

    @property
    def refused(self) -> int:
        return self.counts["turned lost"] + self.counts["turned commits_lost"]

    def __str__(self) -> str:
        verdict, counts = self.verdict, self.counts
        return (
            f"{verdict.events:,} events, {verdict.grants:,} grants, "
            f"{counts['takeovers']:,} takeovers, {verdict.acknowledged:,} acknowledgements, "
            f"{self.refused:,} writes of zombies refused, {counts['locked out']} times locked out, "
            f"{counts['deadlocks']} deadlocks, {counts['unavailable']} times unavailable, "
            f"{self.violations} violations"
        )

    def found(self) -> str:
        """The violations, to be read."""
        verdict = self.verdict
        kinds = [
            f"{n} × {kind}: {verdict.examples[kind]}" for kind, n in verdict.violations.items()
        ]
        return "\n".join([str(self), *kinds, *self.wrong])


FENCE = "tests.faults.fence_race"
MIXED = "tests.faults.mixed_race"
TASKS = 5
# What the judge must say of a store without this part of its fence, one of these at least.
ROWS = ("the row is the fold of the log", "the ledger is the fold of the logs")
SEEN = {
    "place": ("no line of an old epoch",),
    "holder": ("no line of an old epoch",),
    "conflict": ("what was acknowledged is there",),
    RESENDS: ROWS,
}
BROKEN_S, TRIES = 2, 5


def with_tasks(url: str) -> str:
    """A migrated database with the tasks that a fence race is about."""
    store = open_store(migrated(url))
    new_id = Env().new_id
    store.submit([NewTask(id=new_id(), agent=AGENT, input="{}") for _ in range(TASKS)])
    store.close()
    return url


def found_broken(part: str, url: str, processes: Processes, folder: Path) -> Figures:
    """Race with this part of the fence taken out until the judge sees it; fails if it never does.

    Chance may spare a short race; a judge that is spared five times running is blind.
    """
    program = MIXED if part == RESENDS else FENCE
    with_tasks(url)
    found = []
    for number in range(TRIES):
        notes = folder / str(number)
        notes.mkdir()
        figures = run_race(program, url, processes, notes, seconds=BROKEN_S, broken=part)
        if any(figures.verdict.violations[kind] for kind in SEEN[part]):
            return figures
        found.append(figures.found())
    raise AssertionError(f"{part} was taken out, and not seen in {TRIES} races: {found}")


def migrated(url: str) -> str:
    """The same address, with our tables behind it."""
    if url.startswith("sqlite:"):
        open_store(url, create=True).close()
        return url
    database, schema = open_database(url, env=Env())
    migrate(database, schema)
    database.close()
    return url


def run_race(
    program: str,
    url: str,
    processes: Processes,
    folder: Path,
    *,
    seconds: float,
    broken: str = "",
    judged: str = "",
) -> Figures:
    """Run `program` in several processes for so long on a migrated database, and judge it.

    `judged`: where the judge reads, if not at `url`.
    """
    go = folder / "go"
    notes = [folder / f"notes-{number}" for number in range(PROCESSES)]
    running = []
    for number, path in enumerate(notes):
        plan = Plan(url, str(go), seconds, WRITERS, TAKERS, number, broken, str(path))
        text = msgspec.json.encode(plan).decode()
        running.append(
            processes.python("-m", program, text, name=f"racer-{number}", folder=PROJECT)
        )
    for each in running:
        each.wait_for_line("ready", timeout_s=START_S)
    go.touch()
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for each in running:
        code = each.wait(timeout_s=seconds + END_S)
        assert code == 0, each.output
        report = json.loads(each.output.splitlines()[-1])
        counts.update(report["counts"])
        wrong += report["wrong"]
    return Figures(counts, wrong, judge(judged or url, notes))
