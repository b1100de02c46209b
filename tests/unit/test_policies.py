"""Pure policies: when to try again, which order to stop prevails, what a drain does when."""

from __future__ import annotations

from random import Random

import pytest

from outlast.core.clock import Env, HandClock
from outlast.core.errors import BadSetting, Drained, LeaseLostNow, NotSerializable
from outlast.core.failures import failure, rebuilt, tag, tagged
from outlast.core.retry import GiveUp, Retry, TryAgain, next_move, retry_policy
from outlast.worker.drain import Drain, Phase, last_words_ms
from outlast.worker.outcome import Raised, Returned, Stopped, decided
from outlast.worker.stop import Cause, Stop, prevailing

# -- ids ------------------------------------------------------------------------------------------


def test_ids_keep_the_order_they_were_made_in_though_the_clock_stands_still() -> None:
    clock = HandClock()
    env = Env(clock, Random(1))
    ids = []
    for move in (0, 1, 0, 10):
        clock.move(move)
        ids += [env.new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))
    assert {(len(one), one[14], one[19] in "89ab") for one in ids} == {(36, "7", True)}


# -- retry ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "delay_ms"), [(1, 1_000), (2, 2_000), (3, 4_000), (9, 60_000), (5_000, 60_000)]
)
def test_the_back_off_doubles_up_to_its_limit(failures: int, delay_ms: int) -> None:
    policy = Retry(retries=10_000, backoff_ms=1_000, backoff_max_ms=60_000, jitter=0)
    assert next_move(policy, failures, ValueError(), Random(1)) == TryAgain(delay_ms)


def test_jitter_takes_away_at_most_its_share() -> None:
    policy = Retry(retries=1, backoff_ms=1_000, jitter=0.5)
    delays = {policy.delay_ms(1, Random(seed)) for seed in range(200)}
    assert 500 <= min(delays) < 600
    assert 900 < max(delays) <= 1_000


def test_no_try_is_left_after_as_many_failures_as_retries() -> None:
    policy = Retry(retries=2)
    moves = [next_move(policy, n, ValueError(), Random(1)) for n in (1, 2, 3)]
    assert [isinstance(move, GiveUp) for move in moves] == [False, False, True]


def test_what_no_new_try_can_mend_is_given_up() -> None:
    move = next_move(Retry(retries=5), 1, NotSerializable("x", "y"), Random(1))
    assert move == GiveUp()


@pytest.mark.parametrize("bad", [-1, 1.5, True, "3"])
def test_retries_is_a_count(bad: object) -> None:
    with pytest.raises(BadSetting):
        retry_policy(bad)  # type: ignore[arg-type]


# -- failures -------------------------------------------------------------------------------------


class Odd(Exception):
    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(code, hint)
        self.hint = hint


@pytest.mark.parametrize(
    "error", [ValueError("x", 2), KeyError("k"), TimeoutError(), Odd(1, hint="h")]
)
def test_an_error_is_raised_again_as_its_own_class(error: Exception) -> None:
    again = rebuilt(failure(error))
    assert type(again) is type(error)


def test_an_error_of_a_class_that_is_not_loaded_is_a_runtime_error_that_says_so() -> None:
    again = rebuilt({"type": "gone.module.Error", "message": "m"})
    assert (type(again), str(again)) == (RuntimeError, "gone.module.Error: m")


def test_a_log_cannot_make_a_replay_call_what_is_no_exception() -> None:
    assert type(rebuilt({"type": "os.system", "message": "true"})) is RuntimeError


def test_an_error_tells_which_recorded_failures_it_came_from() -> None:
    first, second = ValueError("a"), KeyError("b")
    tag(first, "one")
    tag(second, "two")
    second.__context__ = first
    group = ExceptionGroup("g", [RuntimeError("x"), second])
    assert tagged(group) == ["one", "two"]
    assert tagged(RuntimeError("other")) == []


# -- stops ----------------------------------------------------------------------------------------


def test_the_higher_cause_prevails_whatever_the_order() -> None:
    for first in Cause:
        for second in Cause:
            told = prevailing(Stop(first, ""), Stop(second, ""))
            assert told.cause is max(first, second)


def test_agent_code_hears_why_it_must_stop() -> None:
    assert isinstance(Stop(Cause.DRAIN, "").as_error(), Drained)
    assert isinstance(Stop(Cause.TRUST, "").as_error(), LeaseLostNow)
    assert [c.name for c in Cause if not Stop(c, "").at_once] == ["DRAIN", "SUSPENDED", "REVIEW"]


@pytest.mark.parametrize(
    ("cause", "returned_counts", "raised_counts"),
    [
        (None, True, True),
        (Cause.DRAIN, True, True),
        (Cause.DEADLINE, True, False),
        (Cause.TIMED_OUT, False, False),
        (Cause.CANCEL, False, False),
        (Cause.TRUST, False, False),
        (Cause.LOST, False, False),
    ],
)
def test_what_the_agent_said_counts_only_where_no_order_prevails(
    cause: Cause | None, returned_counts: bool, raised_counts: bool
) -> None:
    """case R37: a shutdown never makes a final state of an error that it caused."""
    stop = None if cause is None else Stop(cause, "")
    returned, raised = Returned("1"), Raised(ValueError())
    assert (decided(returned, stop) is returned) is returned_counts
    assert (decided(raised, stop) is raised) is raised_counts
    if not raised_counts and stop is not None:
        assert decided(raised, stop) == Stopped(stop)


# -- drain ----------------------------------------------------------------------------------------

GRACE_MS = 25_000


@pytest.mark.parametrize(
    ("after_ms", "held", "phase"),
    [
        (0, 3, Phase.HANDING_OVER),
        (22_999, 3, Phase.HANDING_OVER),
        (23_000, 3, Phase.CUTTING_OFF),
        (24_500, 3, Phase.LEAVING),
        (0, 0, Phase.LEAVING),
    ],
)
def test_a_drain_hands_over_then_cuts_off_then_leaves(
    after_ms: int, held: int, phase: Phase
) -> None:
    drain = Drain(GRACE_MS).ordered("SIGTERM", 1_000)
    assert drain.phase(1_000 + after_ms, held) is phase


def test_without_an_order_there_is_no_drain() -> None:
    assert Drain(GRACE_MS).phase(10**9, 0) is Phase.WORKING


def test_a_second_order_does_not_lengthen_the_grace() -> None:
    drain = Drain(GRACE_MS).ordered("SIGTERM", 0).ordered("an operator", 20_000)
    assert drain.leave_ms == GRACE_MS


def test_in_a_hurry_it_is_cut_off_at_once_and_left_soon_never_later_than_before() -> None:
    drain = Drain(GRACE_MS).ordered("SIGTERM", 0)
    assert drain.hurried("SIGTERM", 5_000).phase(5_000, 1) is Phase.CUTTING_OFF
    assert drain.hurried("SIGTERM", 5_000).leave_ms == 5_000 + last_words_ms(GRACE_MS)
    assert drain.hurried("SIGTERM", 24_900).leave_ms == GRACE_MS


@pytest.mark.parametrize("grace_ms", [0, 1, 100, 1_000, 25_000, 600_000])
def test_the_parts_of_a_grace_are_in_order(grace_ms: int) -> None:
    drain = Drain(grace_ms).ordered("x", 50)
    assert 50 <= drain.cut_ms <= drain.speak_ms <= drain.leave_ms == 50 + grace_ms


def test_exit_codes_say_what_could_not_be_handed_over() -> None:
    drain = Drain(GRACE_MS).ordered("x", 0)
    assert drain.exit_code(cut_off=0, left_behind=0) == 0
    assert drain.exit_code(cut_off=1, left_behind=0) == 75
    assert drain.exit_code(cut_off=0, left_behind=1) == 75
    assert drain.ending_with(70, "lost", 1).exit_code(cut_off=0, left_behind=0) == 70
