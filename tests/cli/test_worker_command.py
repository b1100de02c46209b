"""`outlast worker`: what it loads, and what it says when it cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.cli.worker import load_app
from outlast.core.errors import BadSetting
from tests.cli.conftest import Cli


@pytest.fixture(autouse=True)
def modules_are_forgotten() -> Iterator[None]:
    before, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("mine"):
            del sys.modules[name]
    sys.path[:] = path


def test_an_app_is_found_by_module_and_name() -> None:
    assert set(load_app("tests.cli.apps:app").agents) == {"agent"}


def test_a_module_in_the_current_folder_is_found(empty_folder: Path) -> None:
    (empty_folder / "mine_here.py").write_text("from outlast.worker.app import App\napp = App()\n")
    assert load_app("mine_here:app").agents == {}


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("mine", None, "is not MODULE:NAME"),
        (":app", None, "is not MODULE:NAME"),
        ("mine_gone:app", None, "there is no module 'mine_gone'"),
        ("mine_gone.deep:app", None, "there is no module 'mine_gone'"),
        ("mine_a:app", "import not_installed_anywhere", "imports 'not_installed_anywhere'"),
        ("mine_b:app", "\n\n1 / 0\n", "ZeroDivisionError: division by zero at "),
        ("mine_c:app", "def (", "SyntaxError"),
        ("mine_d:app", "x = 1", "has no 'app'"),
        ("mine_e:app", "app = 7", "has a int, not an outlast.App"),
        (
            "mine_f:app",
            "from outlast.worker.app import App\nagents = App()",
            "it has mine_f:agents",
        ),
    ],
)
def test_an_app_that_cannot_be_loaded_is_one_line_that_says_why(
    bare_cli: Cli, empty_folder: Path, name: str, source: str | None, says: str
) -> None:
    if source is not None:
        (empty_folder / f"{name.partition(':')[0]}.py").write_text(source)
    ran = bare_cli("worker", name)
    assert ran.code == 2
    assert says in ran.complaint
    assert "nothing was started" in ran.complaint
    assert not (empty_folder / ".outlast").exists()


def test_the_place_of_the_users_own_mistake_is_named(empty_folder: Path) -> None:
    (empty_folder / "mine_g.py").write_text("\n\n\nraise RuntimeError('no key')\n")
    with pytest.raises(BadSetting, match=r"RuntimeError: no key at .*mine_g\.py:4"):
        load_app("mine_g:app")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ttl", "0.4s"), "not two beats would fit"),
        (("--ttl", "499ms"), "Give 500 ms or more"),
        (("--ttl", "2d"), "Give a day at most"),
        (("--ttl", "soon"), "--ttl"),
        (("--grace", "-1s"), "--grace"),
        (("--slots", "0"), "--slots"),
        (("--queue", " , "), "no queue is named"),
    ],
)
def test_what_cannot_be_is_refused_at_start_with_the_reason(
    cli: Cli, words: tuple[str, ...], says: str
) -> None:
    """case R12"""
    ran = cli("worker", "tests.cli.apps:app", *words)
    assert ran.code == 2
    assert says in ran.complaint
