"""`outlast submit`: what is stored, what is refused, and how a wait ends."""

from __future__ import annotations

import io

import pytest

from outlast.core import limits
from outlast.store.verbs import Store
from tests.cli.conftest import Cli
from tests.store.world import claim, enlisted, kinds


def test_a_submitted_task_is_in_the_store_and_its_id_is_all_that_stdout_holds(
    cli: Cli, store: Store
) -> None:
    ran = cli(
        "submit", "fix_issue", '{"repo": "a/b", "issue": 7}', "--queue", "slow", "--priority", "3"
    )
    task = store.get(ran.out.strip())
    assert ran.code == 0
    assert (task.agent, task.input, task.queue, task.priority) == (
        "fix_issue",
        '{"repo":"a/b","issue":7}',
        "slow",
        3,
    )


def test_json_gives_the_task_and_says_that_no_worker_knows_the_agent(cli: Cli) -> None:
    shape = cli("submit", "nobody_knows_me", "{}", "-l", "team=core", "--json").json
    assert shape["state"] == "ready"
    assert shape["labels"] == {"team": "core"}
    assert (shape["created"], shape["agent_known"]) == (True, False)


def test_an_agent_that_a_living_worker_knows_is_no_news(cli: Cli, store: Store) -> None:
    enlisted(store)
    ran = cli("submit", "agent", "{}")
    assert ran.err == ""
    assert "No worker that is alive" in cli("submit", "other", "{}").err


def test_the_same_key_gives_the_same_task_back(cli: Cli) -> None:
    first = cli("submit", "agent", '{"n": 1}', "--key", "a/b#7")
    again = cli("submit", "agent", '{"n": 1}', "--key", "a/b#7")
    assert first.out == again.out
    assert "had been used" in again.err


def test_the_same_key_with_other_input_is_an_error(cli: Cli) -> None:
    cli("submit", "agent", '{"n": 1}', "--key", "k")
    ran = cli("submit", "agent", '{"n": 2}', "--key", "k")
    assert ran.code == 2
    assert "'k' belongs to task" in ran.complaint


def test_a_task_for_later_is_due_later(cli: Cli, store: Store) -> None:
    task = store.get(cli("submit", "agent", "{}", "--in", "10m").out.strip())
    assert task.due_ms == task.created_ms + 600_000


def test_stdin_may_bring_the_input(cli: Cli, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"n": 5}'))
    assert store.get(cli("submit", "agent", "-").out.strip()).input == '{"n":5}'


def test_a_dry_run_writes_nothing(cli: Cli) -> None:
    assert cli("submit", "agent", "{}", "--dry-run", "--json").json["agent"] == "agent"
    assert cli("ps", "--json").json == {"items": []}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON"),
        ("[1]", "must be an object"),
        ("7", "must be an object"),
        ("null", "must be an object"),
        ('{"x": NaN}', "no JSON"),
        ('{"x": 1e400}', "no JSON"),
        ('{"x": "\\ud800"}', "no JSON"),
        ('{"x": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
        ('{"a\\u0000b": 1}', "NUL"),
        ('{"x": "' + "y" * limits.PAYLOAD_BYTES + '"}', "the limit is 1,048,576"),
    ],
)
def test_input_that_cannot_be_kept_exactly_is_refused_with_one_line(
    cli: Cli, text: str, says: str
) -> None:
    ran = cli("submit", "agent", text)
    assert ran.code == 2
    assert says in ran.complaint
    assert "written" in ran.complaint
    assert len(ran.complaint) < 600
    assert cli("ps", "--json").json == {"items": []}


@pytest.mark.parametrize(
    "value", ["10" + "0" * 400, "9223372036854775808", '"a\\u0000b"', '"🦉"', "0.1", "-0.0"]
)
def test_values_that_json_can_hold_come_back_as_they_were(
    cli: Cli, store: Store, value: str
) -> None:
    ran = cli("submit", "agent", '{"x":' + value + "}")
    if ran.code == 0:
        assert store.get(ran.out.strip()).input == '{"x":' + value.replace('"🦉"', '"🦉"') + "}"
    else:
        # Refused is as good as exact; rounded would be neither.
        assert "bits" in ran.complaint


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--in", "soon"), "the delay: 'soon'"),
        (("--in", "-5s"), "the delay"),
        (("--priority", "9999999999"), "priority"),
        (("--queue", ""), "queue"),
        (("--key", "k" * 600), "the submit key"),
        (("-l", "nothing"), "NAME=VALUE"),
        (("--queue", "a\udcffb"), "the queue"),
    ],
)
def test_options_that_cannot_be_are_refused_by_their_name(
    cli: Cli, words: tuple[str, ...], says: str
) -> None:
    ran = cli("submit", "agent", "{}", *words)
    assert ran.code == 2
    assert says in ran.complaint


def test_a_wait_that_is_over_exits_124_and_the_task_goes_on(cli: Cli, store: Store) -> None:
    ran = cli("submit", "agent", "{}", "--wait", "--timeout", "0s")
    assert ran.code == 124
    assert "goes on" in ran.err
    assert cli("ps", "-o", "name").out.strip() in ran.err


@pytest.mark.parametrize(("end", "code"), [("succeed", 0), ("fail", 1), ("ask_a_person", 6)])
def test_a_wait_exits_as_the_task_ends(cli: Cli, store: Store, end: str, code: int) -> None:
    """The task that the key stands for has ended before: then the wait is short."""
    cli("submit", "agent", "{}", "--key", "k")
    owner = claim(store)
    owner.intend()
    getattr(owner, end)()
    ran = cli("submit", "agent", "{}", "--key", "k", "--wait", "--timeout", "5s")
    assert ran.code == code
    if end == "succeed":
        assert ran.out.strip() == '"done"'


def test_a_cancelled_task_ends_a_wait_with_1(cli: Cli, store: Store) -> None:
    task_id = cli("submit", "agent", "{}", "--key", "k").out.strip()
    cli("cancel", task_id, "--reason", "superseded")
    assert cli("submit", "agent", "{}", "--key", "k", "--wait").code == 1
    assert kinds(store, task_id)[-1] == "task.cancelled"
