"""`outlast export` and `outlast verify`: what was changed, cut off or rewritten is found."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.core.chain import Quote, entry
from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.databases import SqliteStores
from tests.store.world import start

Lines = list[dict[str, Any]]


@pytest.fixture
def exported(cli: Cli, store: Store, tmp_path: Path) -> Path:
    """The export of three tasks with five events each."""
    for _ in range(3):
        owner = start(store)
        owner.step()
        owner.note()
        owner.succeed()
    path = tmp_path / "export.jsonl"
    assert cli("export", "--all", "--to", str(path)).code == 0
    return path


def change(path: Path, how: Callable[[Lines], object]) -> None:
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    how(lines)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def test_an_export_as_it_was_written_verifies_without_a_store(
    bare_cli: Cli, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTLAST_DB")
    ran = bare_cli("verify", str(exported))
    assert ran.code == 0
    assert "OK      3 tasks, 15 events" in ran.out
    assert bare_cli("verify", str(exported), "--json").json["faults"] == []


def test_an_export_says_where_it_comes_from_and_hides_the_password(
    cli: Cli, exported: Path
) -> None:
    card = msgspec.json.decode(exported.read_bytes().splitlines()[0])
    assert card["outlast"] == "export/1"
    assert card["database"].startswith("sqlite:")
    assert card["as_of"].endswith("Z")


def test_one_task_goes_to_stdout(cli: Cli, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = start(store)
    ran = cli("export", owner.task_id)
    assert [line.get("kind") for line in ran.lines] == [
        None,
        None,
        "task.submitted",
        "lease.granted",
        None,
    ]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ran.out.encode())))
    assert cli("verify", "-").code == 0


def test_a_changed_byte_names_the_task_and_the_event(cli: Cli, exported: Path) -> None:
    def other_result(lines: Lines) -> None:
        lines[4]["body"] = lines[4]["body"].replace('"result":1', '"result":2')

    task = msgspec.json.decode(exported.read_bytes().splitlines()[4])
    change(exported, other_result)
    ran = cli("verify", str(exported), "--json")
    assert ran.code == 1
    first = ran.json["faults"][0]
    assert (first["line"], first["task"], first["seq"]) == (5, task["task"], task["seq"])


@pytest.mark.parametrize("field", ["holder", "kind", "at_ms", "digest", "seq"])
def test_every_field_of_an_event_is_under_its_digest(cli: Cli, exported: Path, field: str) -> None:
    def other(lines: Lines) -> None:
        value = lines[3][field]
        other_first = "1" if str(value)[0] == "0" else "0"
        lines[3][field] = value + 1 if isinstance(value, int) else other_first + value[1:]

    change(exported, other)
    assert cli("verify", str(exported)).code == 1


def test_a_tail_that_was_cut_off_is_told_from_the_head(cli: Cli, exported: Path) -> None:
    """case R84"""
    lines = exported.read_bytes().splitlines(keepends=True)
    exported.write_bytes(b"".join(lines[:5]))
    ran = cli("verify", str(exported))
    assert ran.code == 1
    assert "its log ends at event 3, its head is event 5" in ran.out
    assert "cut off" in ran.out


def test_whole_tasks_that_were_cut_off_are_missed(cli: Cli, exported: Path) -> None:
    """case R84: the seal is missing, or counts more than there is."""
    lines = exported.read_bytes().splitlines(keepends=True)
    exported.write_bytes(b"".join(lines[:7]))
    assert "the line that seals it is missing" in cli("verify", str(exported)).out
    exported.write_bytes(b"".join(lines[:7] + lines[-1:]))
    assert "counts 3 tasks and 15 events, the file has 1 and 5" in cli("verify", str(exported)).out


def test_a_log_rewritten_to_its_end_is_told_from_the_head(cli: Cli, exported: Path) -> None:
    """case R84: every digest fits, and yet it is not the log that was recorded."""

    def rewrite(lines: Lines) -> None:
        quote = Quote.start(lines[2]["task"])
        for line in lines[2:7]:
            body = line["body"].replace('"result":1', '"result":9999')
            made = entry(
                quote, 1, holder=line["holder"], kind=line["kind"], body=body, at_ms=line["at_ms"]
            ).event
            line["body"], line["digest"] = body, made.digest
            quote = Quote.of(made)

    change(exported, rewrite)
    ran = cli("verify", str(exported))
    assert ran.code == 1
    assert "is not the head on record: the tail was rewritten" in ran.out


def test_a_log_cut_off_in_the_store_is_told_from_the_tasks_row(
    cli: Cli, store: Store, stores: SqliteStores, tmp_path: Path
) -> None:
    owner = start(store)
    owner.step()
    owner.succeed()
    stores.change("delete from events where task_id = ? and seq = 4", owner.task_id)
    path = tmp_path / "cut.jsonl"
    cli("export", owner.task_id, "--to", str(path))
    ran = cli("verify", str(path))
    assert ran.code == 1
    assert "event 4, where its row says" in ran.out


def test_a_changed_card_breaks_the_seal(cli: Cli, exported: Path) -> None:
    def other_date(lines: Lines) -> None:
        lines[0]["as_of"] = "2020-01-01T00:00:00.000Z"

    change(exported, other_date)
    ran = cli("verify", str(exported))
    assert ran.code == 1
    assert "the seal is not that of the lines before it" in ran.out


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\xff\xfe\n", b"[]\n", b"{}\n"])
def test_a_file_that_is_no_export_is_broken_not_a_crash(
    cli: Cli, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    ran = cli("verify", str(path))
    assert ran.code == 1
    assert ran.out.startswith("BROKEN")


def test_a_file_that_is_not_there_is_a_line(cli: Cli, tmp_path: Path) -> None:
    ran = cli("verify", str(tmp_path / "none"))
    assert ran.code == 2
    assert "cannot be read" in ran.complaint


@pytest.mark.parametrize("words", [(), ("x", "--all"), ("--since", "1h")])
def test_what_to_export_must_be_said_once(cli: Cli, words: tuple[str, ...]) -> None:
    assert cli("export", *words).code == 2


def test_an_unknown_task_leaves_no_empty_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "never"
    assert cli("export", "01a22e7e-04e8", "--to", str(path)).code == 3
    assert not path.exists()


def test_an_export_of_a_task_that_runs_on_ends_at_its_head(
    cli: Cli, store: Store, tmp_path: Path
) -> None:
    owner = start(store)
    owner.step()
    path = tmp_path / "running.jsonl"
    cli("export", owner.task_id, "--to", str(path))
    owner.step("more")
    assert cli("verify", str(path)).code == 0
