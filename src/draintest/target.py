"""A target: the system that is judged, as the harness sees it. What it hides is not judged.

A target in Python gives these methods; one in TOML gives a command for each (`command_target`),
which prints the same as JSON. Times are milliseconds; those named `at_ms`, `expires_ms` and
`store_ms` are by the target's own clock (its database's), never compared with ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .languages import Language
from .processes import Launch

Shape = dict[str, Any]

# What a target may let us see or do; each check says what it needs.
OFFERS = (
    "owners",  # who owns what at this moment, until when
    "log",  # what happened to each task, with epochs
    "metrics",  # counters of resumes and of terminal states
    "export",  # a record that can be verified offline
    "cancel",  # an order to end a task
    "settle",  # a person says how an effect in doubt ended
    "drain",  # SIGTERM hands tasks over
    "epochs",  # calls carry a fencing token
    "keys",  # calls carry an idempotency key
    "review",  # an effect in doubt is shown, not guessed
    "budget",  # a task that kills its workers is given up
    "commands",  # an act may be done by a child process of the worker's
    "children",  # processes of a task end with it
    "wire",  # its database is reached by TCP, so that a wire can be put before it
    "server",  # its database is ours to harm
    "front",  # a server of its own stands before its database, and is ours to harm
    "clock",  # leases run by a clock that is not the worker's own
)
FINAL = ("succeeded", "failed", "cancelled")
# Where a task may stand after everything has healed: ended, or for others to move on.
RESTING = (*FINAL, "review", "waiting")


@dataclass(frozen=True)
class Limits:
    """What the target promises, and what it is started with. All bounds of time come from here."""

    ttl_ms: int = 2_000
    reap_ms: int = 1_000
    poll_ms: int = 200
    grace_ms: int = 6_000
    cancel_ms: int = 1_000
    resumes: int = 3

    @property
    def takeover_ms(self) -> int:
        """From the death of an owner to the grant of its heir."""
        return self.ttl_ms + self.reap_ms + self.poll_ms + 1_000

    @property
    def unsure_takeover_ms(self) -> int:
        """The same where the reaper could not know how long it had slept, and spared the lease."""
        return self.takeover_ms + self.ttl_ms

    @property
    def patience_s(self) -> float:
        """How long anything that should happen is waited for."""
        return max(5.0, (3 * self.ttl_ms + self.grace_ms + 5_000) / 1000)


class CannotSay(Exception):
    """The target did not answer a question: its store is away, or the command failed."""


class Target(Protocol):
    """One target for one scenario: a store of its own, made by `prepare`, gone after `clean_up`."""

    name: str
    offers: frozenset[str]
    limits: Limits

    def version(self) -> Shape:
        """What is judged: names to versions and settings."""

    def prepare(self) -> None:
        """Make the store. Raises CannotSay."""

    def worker(self, name: str, world: str) -> Launch:
        """How a worker is started. `name`: what it may call itself; another may have had it."""

    def ready(self, output: str) -> bool:
        """Whether a worker that said this is able to take tasks."""

    def submit(self, program: Mapping[str, Any]) -> str:
        """Store a task that runs the program; its id. Returning is the acknowledgement."""

    def tasks(self) -> list[Shape]:
        """Every task: `id`, `state` (ready running waiting review succeeded failed cancelled),
        and if known `reason`, `epoch`, `failures`, `effects` [{`act`, `key`, `state`}]."""

    def owners(self) -> list[Shape]:
        """Every owner: `task`, `epoch`, `worker`, `pid`, `expires_ms`, `store_ms` (now)."""

    def log(self) -> list[Shape]:
        """Every event: `task`, `seq`, `kind`, `epoch` (of its writer, 0: no owner), `at_ms`, and by
        kind `worker`, `pid`, `ttl_ms`, `expires_ms`, `reason`, `act`, `state`. Kinds: submitted
        granted replayed recorded intended applied failed unknown waiting released expired revoked
        acknowledged settled reopened ended other."""

    def metrics(self) -> Shape:
        """`resumes` {expired, drain}, `terminal` {succeeded, failed, cancelled}, `duplicates`; if
        known `silence_s` (how long the owner least lately heard has been silent, 0: no owner) and
        `repeated` (resumes that were a task's third in a row, or later)."""

    def cancel(self, task: str) -> None:
        """Ask a task to end. Raises CannotSay."""

    def settle(self, task: str, act: str, receipt: str | None) -> None:
        """A person says how an act in doubt ended: its receipt, or None: it never happened."""

    def export(self, path: Path) -> None:
        """Write a record of everything that can be verified."""

    def verify(self, path: Path) -> tuple[bool, str]:
        """Whether such a record is sound, and what is said about it."""

    def database(self) -> tuple[str, int]:
        """Where its database listens; asked only of a target that offers `wire`."""

    def front(self) -> Any:
        """What stands before its database: `restart()`, `kill()`, `freeze(seconds)`, each with its
        proof. Raises CannotSay."""

    def language(self) -> Callable[[], Language]:
        """What its workers speak on that wire."""

    def through(self, port: int, host: str = "127.0.0.1") -> None:
        """Have workers reach it by that port of this machine instead; 0: as before."""

    def files(self) -> list[Path]:
        """Files whose lock a stopped process could hold for ever; it is then stopped elsewhere."""

    def litter(self) -> list[str]:
        """What is left of the store."""

    def clean_up(self) -> None:
        """Remove the store, and nothing else."""
