"""A missing program is a skip at home and a failure where all are required."""

import pytest

from tests.support import programs
from tests.support.waiting import NeverHappened, until


def test_a_program_that_is_there_is_found():
    assert programs.require("sh").name == "sh"


def test_a_missing_program_is_a_skip_that_says_what_to_install(monkeypatch):
    monkeypatch.delenv("OUTLAST_TEST_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"NOT TESTED.*apt-get install such-package"):
        programs.require("no-such-program", "such-package")


def test_a_missing_program_fails_where_all_are_required(monkeypatch):
    monkeypatch.setenv("OUTLAST_TEST_REQUIRE", "all")
    with pytest.raises(pytest.fail.Exception, match="lacks the program no-such-program"):
        programs.require("no-such-program")


def test_a_missing_module_names_its_extra(monkeypatch):
    monkeypatch.delenv("OUTLAST_TEST_REQUIRE", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"outlast\[server\]"):
        programs.require_module("no_such_module", "server")
    programs.require_module("json", "server")


def test_what_never_happens_is_named_with_what_was_seen():
    with pytest.raises(NeverHappened, match=r"waited 0\.05 s for rain but saw sun"):
        until(lambda: False, "rain", timeout_s=0.05, detail=lambda: "but saw sun")


def test_what_happens_is_returned():
    answers = iter([None, 0, "", "seen"])
    assert until(lambda: next(answers), "an answer") == "seen"
