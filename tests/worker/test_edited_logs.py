"""An heir does nothing on the word of a log that somebody has edited: a person must look."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import outlast
from outlast.testing import Harness

MAILS: list[str] = []
app = outlast.App()


@app.agent
async def clerk(ctx: outlast.Context) -> int:
    total = 0 if ctx.restored is None else int(ctx.restored)
    if not total:
        total = int(await ctx.step("count", int, 7))
        await ctx.checkpoint(total)
    await ctx.step("rest", int, 1)
    await ctx.effect("mail", MAILS.append, f"{total}")
    return total


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    MAILS.clear()
    with Harness(app, tmp_path) as harness:
        yield harness


def edit(harness: Harness, kind: str, old: str, new: str) -> None:
    with closing(sqlite3.connect(harness.db.removeprefix("sqlite:"))) as connection, connection:
        changed = connection.execute(
            "update events set body = replace(body, ?, ?) where kind = ? and instr(body, ?) > 0",
            (old, new, kind, old),
        )
        assert changed.rowcount == 1


@pytest.mark.parametrize(
    ("dies_after", "kind", "old", "new"),
    [
        (3, "step.done", '"result":7', '"result":9'),
        (4, "checkpoint", '"state":7', '"state":9'),
        (5, "step.done", '"result":1', '"result":2'),
    ],
    ids=["before-a-checkpoint", "the-checkpoint", "after-it"],
)
def test_what_was_edited_is_found_before_anything_is_done(
    harness: Harness, dies_after: int, kind: str, old: str, new: str
) -> None:
    task = harness.submit("clerk")
    harness.worker(crash_after=dies_after)
    harness.settle()
    edit(harness, kind, old, new)

    ran = harness.run(task)

    assert (ran.task.state, ran.task.reason) == ("review", "replay_mismatch")
    assert "its digest is not that of its content" in (ran.task.error or "")
    assert MAILS == []


def test_a_log_that_nobody_has_edited_is_gone_on_with(harness: Harness) -> None:
    task = harness.submit("clerk")
    harness.worker(crash_after=5)
    harness.settle()

    assert harness.run(task).result == 7
    assert MAILS == ["7"]
