"""How a death is read, what follows from it, and orders that come two ways."""

from __future__ import annotations

import signal

import pytest

from outlast.core import limits
from outlast.worker.death import (
    Death,
    death_of,
    deaths_in_a_row,
    exit_code,
    pause_ms,
    starts_again,
)
from outlast.worker.kin import oom_kills_in
from outlast.worker.signals import Orders

TERM, INT, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGKILL
CORE_DUMPED = 0x80


def exited(code: int) -> Death:
    return death_of(7, code << 8, 0)


def killed(number: int) -> Death:
    return death_of(7, number, 0)


@pytest.mark.parametrize(
    ("status", "code", "how"),
    [
        (0, 0, "exit code 0"),
        (75 << 8, 75, "exit code 75"),
        (KILL, 137, "SIGKILL"),
        (signal.SIGSEGV | CORE_DUMPED, 139, "SIGSEGV"),
        (40, 168, "signal 40"),
    ],
)
def test_a_status_is_read_as_a_shell_reads_it(status: int, code: int, how: str) -> None:
    death = death_of(7, status, 0)
    assert (death.code, death.how) == (code, how)


def test_memory_is_blamed_only_where_the_kernel_says_so_and_only_for_sigkill() -> None:
    assert death_of(7, KILL, 0, out_of_memory=True).how == "SIGKILL, probably out of memory"
    assert death_of(7, signal.SIGSEGV, 0, out_of_memory=True).how == "SIGSEGV"
    assert death_of(7, 1 << 8, 0, out_of_memory=True).how == "exit code 1"


@pytest.mark.parametrize(
    ("death", "told", "replaces", "again"),
    [
        (killed(KILL), False, False, True),
        (killed(signal.SIGSEGV), False, True, True),
        (killed(KILL), True, False, False),
        (exited(0), False, False, False),
        (exited(1), False, True, False),
        (exited(2), False, True, False),
        (exited(70), False, False, False),
        (exited(137), False, False, False),
        (exited(69), False, False, False),
        (exited(69), False, True, True),
        (exited(69), True, True, False),
    ],
)
def test_only_who_was_killed_is_replaced(
    death: Death, told: bool, replaces: bool, again: bool
) -> None:
    assert starts_again(death, told=told, replaces=replaces) is again


@pytest.mark.parametrize(
    ("death", "may"),
    [(exited(0), False), (exited(2), False), (exited(69), False), (exited(1), True),
     (exited(70), True), (exited(75), True), (killed(KILL), True)],
)  # fmt: skip
def test_the_store_is_told_of_whoever_may_have_held_something(death: Death, may: bool) -> None:
    assert death.may_have_held is may


@pytest.mark.parametrize(
    ("deaths", "ms"), [(1, 100), (2, 200), (4, 800), (9, 25_600), (10, 30_000), (5_000, 30_000)]
)
def test_the_pause_doubles_up_to_its_limit(deaths: int, ms: int) -> None:
    assert pause_ms(deaths) == ms


def test_who_lived_for_long_begins_anew() -> None:
    assert deaths_in_a_row(5, limits.LIVED_MS - 1) == 6
    assert deaths_in_a_row(5, limits.LIVED_MS) == 1


@pytest.mark.parametrize(
    ("death", "told", "code"),
    [
        (exited(0), TERM, 0),
        (exited(75), INT, 75),
        (killed(TERM), TERM, 143),
        (killed(TERM), INT, 130),
        (killed(KILL), TERM, 137),
        (killed(TERM), 0, 143),
    ],
)
def test_the_code_is_the_workers(death: Death, told: int, code: int) -> None:
    assert exit_code(death, told) == code


@pytest.mark.parametrize(
    ("came", "orders"),
    [
        ([(INT, "parent")], 1),
        ([(INT, "itself"), (INT, "parent")], 1),
        ([(INT, "parent"), (INT, "itself")], 1),
        ([(TERM, "parent"), (TERM, "parent")], 2),
        ([(TERM, "itself"), (TERM, "itself")], 2),
        ([(TERM, "itself"), (TERM, "parent"), (TERM, "parent"), (TERM, "itself")], 2),
        ([(TERM, "itself"), (TERM, "itself"), (TERM, "parent"), (TERM, "parent")], 2),
        ([(INT, "itself"), (INT, "parent"), (TERM, "parent")], 2),
    ],
)
def test_what_comes_two_ways_is_one_order(came: list[tuple[int, str]], orders: int) -> None:
    counted = Orders()
    assert sum(counted.come(number, way) for number, way in came) == orders


def test_the_count_of_the_kernel_is_read() -> None:
    assert oom_kills_in("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n") == 2
    assert oom_kills_in("") == -1
