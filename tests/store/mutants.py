"""Stores with one promise taken out of their SQL: the tests of this folder must notice each.

A mutant lives in the tests only: OUTLAST_TEST_MUTANT names one, and every store that these tests
open then runs statements of which one is broken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.core.clock import Env
from outlast.store.open import open_database
from outlast.store.sql_store import SqlStore
from outlast.store.statements import load
from outlast.store.verbs import Store

VARIABLE = "OUTLAST_TEST_MUTANT"


@dataclass(frozen=True)
class Mutant:
    """One promise taken out by edits of statements: (name, pattern, replacement).

    `seen_in`: the files of this folder that notice it.
    """

    without: str
    edits: tuple[tuple[str, str, str], ...]
    seen_in: tuple[str, ...]

    def applied(self, statements: Mapping[str, str]) -> dict[str, str]:
        """The statements with this promise taken out; raises if there is nothing to take out."""
        broken = dict(statements)
        for name, pattern, replacement in self.edits:
            edited = re.sub(pattern, replacement, broken[name], flags=re.S)
            assert edited != broken[name], f"{pattern!r} is not in {name}: {broken[name]}"
            broken[name] = edited
        return broken


NOTHING = "select 1 as found where 1 = 0"
OVERWRITE = "on conflict (task_id, seq) do update set seq = excluded.seq"

# The idea itself: removed, many tests must fail, in every run. The rest is for `make faults`.
IDEA = ("quote", "holder", "inserted", "expiry", "intent")

MUTANTS = {
    "quote": Mutant(
        "the quote: any last event will do",
        (
            ("append", r"and last.digest = :quoted", ""),
            ("append_all", r"and last.digest = offer.quoted", ""),
        ),
        ("test_failover.py",),
    ),
    "holder": Mutant(
        "the holder: who has let go writes on",
        (
            ("append", r"and last.holder = :epoch", ""),
            ("append_all", r"offer.epoch = \(\s*select last.holder", "1 = (select 1"),
        ),
        ("test_append.py", "test_batches.py"),
    ),
    "inserted": Mutant(
        "only if inserted: an event that is there already counts as written just now",
        (
            ("append", r"on conflict do nothing", OVERWRITE),
            ("append_all", r"on conflict do nothing", OVERWRITE),
        ),
        ("test_append.py", "test_batches.py"),
    ),
    "expiry": Mutant(
        "the expiry: every owner is dead",
        (
            ("lapsed_leases", r"where expires_ms < \(.*?\)\)", ""),
            ("lock_lapsed_lease", r"where expires_ms < \(.*?\)\)", ""),
        ),
        ("test_renew.py", "test_reap.py"),
    ),
    "never dead": Mutant(
        "the reaper: nobody is ever dead",
        (("lapsed_leases", r"expires_ms < ", "expires_ms + 1000000000 < "),),
        ("test_reap.py",),
    ),
    "intent": Mutant(
        "the intent: an act is not in the ledger before it is done",
        (("put_intent", r"^insert.*$", "select :key as key"),),
        ("test_effects.py", "test_settle.py"),
    ),
    "outcome": Mutant(
        "the outcome: the ledger does not learn how an act ended",
        (("put_outcome", r"^update.*$", NOTHING),),
        ("test_effects.py", "test_settle.py"),
    ),
    "grant": Mutant(
        "the grant in a renewal: whoever names the task renews it",
        (("renew", r"and lease.grant_digest = (asked|held).digest", ""),),
        ("test_renew.py",),
    ),
    "amnesty once": Mutant(
        "the mark of the spared: a reaper that is born every moment never buries anybody",
        (("spare_unsure", r", spared = 1", ""),),
        ("test_reap.py",),
    ),
    "mark cleared": Mutant(
        "clearing the mark: an owner that came back is dead at its next lapse",
        (("renew", r"spared = 0,", ""),),
        ("test_reap.py",),
    ),
    "due": Mutant(
        "the due time: a task is run before its time",
        (("pick_ready", r"and due_ms <= \(.*?\)\)", ""),),
        ("test_submit.py", "test_release.py", "test_reap.py"),
    ),
    "suspects": Mutant(
        "suspicion: a task that kills workers is given to busy ones",
        (("pick_ready", r"and \(resumes < :suspect or :held = 0\)", ""),),
        ("test_claim.py",),
    ),
    "paused": Mutant(
        "the pause of a queue",
        (("pick_ready", r"and not exists .*?:queue\)", ""),),
        ("test_claim.py",),
    ),
    "still running": Mutant(
        "the tasks of which an old attempt still runs",
        (("pick_ready", r"and id not in \(.*?\)\)", ""),),
        ("test_claim.py",),
    ),
    "cancel unread": Mutant(
        "the gate: a task is let go with a cancel request unread",
        (("look_gate", r"task.cancel_ms", "null as cancel_ms"),),
        ("test_cancel.py",),
    ),
    "first request": Mutant(
        "the first request: who asks later overwrites it",
        (("ask_cancel", r"and cancel_ms is null", ""),),
        ("test_cancel.py",),
    ),
    "signal unread": Mutant(
        "the gate: a task lies down over a signal that is there",
        (("signal_named", r"^select.*$", NOTHING),),
        ("test_waits.py",),
    ),
    "signal read once": Mutant(
        "consuming: a signal answers every wait",
        (("consume_signal", r"set consumed_seq = :seq", "set consumed_seq = null"),),
        ("test_waits.py",),
    ),
    "wake": Mutant(
        "the wake: a signal lets its task sleep",
        (("wake_task", r"^update.*$", NOTHING),),
        ("test_waits.py",),
    ),
    "shared key": Mutant(
        "one row a key: everybody who begins is the first",
        (
            (
                "claim_key",
                r"on conflict do nothing",
                "on conflict (key) do update set key = excluded.key",
            ),
        ),
        ("test_shared_keys.py",),
    ),
    "kept for good": Mutant(
        "keeping shared keys: a pruned task's invoice is paid again",
        (("delete_effects", r"and shared = 0", ""),),
        ("test_upkeep.py",),
    ),
    "not final": Mutant(
        "only what has ended: retention removes living tasks",
        (
            (
                "prunable_tasks",
                r"finished_ms is not null\s+and finished_ms < :before_ms",
                "created_ms < :before_ms",
            ),
            ("delete_task", r"and finished_ms is not null", ""),
        ),
        ("test_upkeep.py",),
    ),
    "counters": Mutant(
        "adding up: a counter says what happened last",
        (("add_counter", r"[a-z.\"]*counters.value \+ excluded.value", "excluded.value"),),
        ("test_release.py", "test_workers.py"),
    ),
    "progress": Mutant(
        "results: every lease that ends badly counts in a row",
        (("has_result_since", r"^select.*$", NOTHING),),
        ("test_reap.py",),
    ),
}


def open_with_mutant(url: str, env: Env) -> Store | None:
    """A store that runs broken statements, if the environment asks for one."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    dialect = "sqlite" if url.startswith("sqlite:") else "postgres"
    statements = MUTANTS[name].applied(load(dialect))
    database, _schema = open_database(url, env=env, statements=statements)
    return SqlStore(database, env)
