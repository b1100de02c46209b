"""The reference names all that users can name; the promises name tests that are there."""

import re

import pytest

from outlast.cli.main import COMMANDS
from outlast.core import errors
from outlast.metrics import families
from outlast.settings import SETTINGS
from outlast.store.open import open_store
from tests.shape.house import ROOT

REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_in_the_reference(command):
    assert f"`outlast {command}" in REFERENCE


@pytest.mark.parametrize("setting", [setting.name for setting in SETTINGS])
def test_every_setting_is_in_the_reference(setting):
    assert f"| `{setting}` | `OUTLAST_{setting.upper()}`" in REFERENCE


def test_every_error_is_in_the_reference():
    names = {name for name, kind in vars(errors).items() if _is_error(kind)}
    assert {name for name in names if f"`{name}`" not in REFERENCE} == set()


def test_every_exit_code_of_an_error_is_in_the_reference():
    codes = {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")}
    assert {code for code in codes if f"\n| {code} |" not in REFERENCE} == set()


def test_every_metric_is_in_the_reference(tmp_path):
    store = open_store(f"sqlite:{tmp_path}/outlast.db", create=True)
    names = [family.name for family in families(store.counts())]
    store.close()
    assert len(names) > 5
    assert {name for name in names if f"| `{name}` |" not in REFERENCE} == set()


@pytest.mark.parametrize("number", range(1, 13))
def test_every_promise_names_tests_that_are_there(number):
    row = re.search(rf"^\| P{number} \|.*$", ARCHITECTURE, re.M)
    assert row is not None
    paths = re.findall(r"`(tests/[^`]*)`", row[0])
    assert paths, "a promise without a test is a wish"
    assert [path for path in paths if not (ROOT / path).exists()] == []


def _is_error(kind):
    return isinstance(kind, type) and issubclass(kind, BaseException)
