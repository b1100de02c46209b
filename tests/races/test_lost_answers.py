"""The answer to any one call is lost, and the call is made again: nothing differs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from outlast.core.clock import Ids
from outlast.core.counters import FENCED
from tests.faults import history
from tests.faults.disks import in_memory
from tests.faults.lossy import Losses, LossyStore
from tests.store import truth, world
from tests.store.databases import SqliteStores

READS = ("get", "find", "read", "last", "signals", "workers", "now_ms", "find_effects", "counts")
State = dict[str, Sequence[str]]


def test_whichever_answer_is_lost_the_rows_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases R11, R69, R73: the clock stands still meanwhile, so every byte can be compared."""
    with in_memory(tmp_path) as folder:
        _lose_each_answer(folder, monkeypatch)


def _lose_each_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed, calls = told(folder / "none", Losses(), monkeypatch)
    writes = [nth for nth, verb in enumerate(calls, 1) if verb not in READS]
    assert len(writes) > 40
    for nth in writes:
        state, _ = told(folder / f"life-{nth}", Losses("answer", nth), monkeypatch)
        different = [table for table in state if state[table] != undisturbed[table]]
        assert not different, f"the answer of call {nth} ({calls[nth - 1]}) was lost: {different}"


def told(path: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch) -> tuple[State, list[str]]:
    """The history on a store of its own; what is stored afterwards, and the calls it took."""
    monkeypatch.setattr(world, "_ids", Ids(random.Random(7)))
    monkeypatch.setattr(world, "_numbers", itertools.count(1))
    stores = SqliteStores(f"sqlite:{path}")
    store = stores.open()
    history.tell(LossyStore(store, losses, asks_again=True), stores)  # type: ignore[arg-type]
    truth.check(stores)
    # A write that was refused twice is counted twice.
    stores.change("delete from counters where name = ?", FENCED)
    state = stores.state(*history.TABLES)
    stores.close()
    path.unlink()
    return state, losses.calls
