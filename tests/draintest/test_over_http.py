"""The drain test with workers that reach their store over HTTP alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from draintest.languages import Http
from draintest.once import run_once


@pytest.mark.faults
@pytest.mark.parametrize(("servers", "db"), [(1, ""), (2, "embedded")])
def test_workers_behind_servers_pass_every_harm_to_them(
    tmp_path: Path, servers: int, db: str
) -> None:
    """The server restarts, dies or freezes in mid-task; the wire to it loses what it can lose."""
    only = ["front-", "wire-", "kill-charge", "stop-charge", "term-charge", "cancel-", "chance-"]
    verdict = run_once("outlast", tmp_path / "e", db=db, only=only, servers=servers, lanes=4)
    assert [s for s in verdict.scenarios if s.verdict != "pass"] == []
    assert verdict.figures["faults"] >= 20
    assert verdict.figures["faults_missed"] == 0


def test_a_write_over_http_is_told_from_a_question() -> None:
    wire = Http()
    assert not wire.writes(b"POST /store/renew HTTP/1.1\r\n\r\n{}")
    assert not wire.has_written(b'HTTP/1.1 200 OK\r\n\r\n{"said": "written"}')
    assert wire.writes(b"POST /store/append HTTP/1.1\r\n\r\n{}")
    assert not wire.has_written(b"HTTP/1.1 200 OK\r\n\r\n")
    assert wire.has_written(b'[{"type":"written","seq":2}]')
    assert not wire.has_written(b'[{"type":"written","seq":2}]')
