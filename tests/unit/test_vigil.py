"""When a reaper may be sure that a lapsed lease has no living owner."""

import pytest

from outlast.core.vigil import Vigil

TTL_MS = 10_000


def watched(*looks_ms: int, server: str = "one") -> Vigil:
    vigil = Vigil()
    for now_ms in looks_ms:
        vigil = vigil.looked(server, now_ms)
    return vigil


def every_second(start_ms: int, end_ms: int) -> range:
    return range(start_ms, end_ms + 1, 1_000)


def test_a_first_look_is_not_sure():
    assert not watched(50_000).is_sure(50_000, TTL_MS)


def test_half_a_ttl_of_watching_makes_sure():
    assert not watched(*every_second(50_000, 54_000)).is_sure(54_000, TTL_MS)
    assert watched(*every_second(50_000, 55_000)).is_sure(55_000, TTL_MS)


def test_the_look_before_the_lapse_does_not_make_the_next_one_sure():
    """An outage of 9 s ends 1 s before a lease of 10 s lapses: its owner had no chance to renew."""
    vigil = watched(*every_second(0, 20_000), 29_000, 30_000)
    assert not vigil.is_sure(30_000, TTL_MS)
    assert watched(*every_second(0, 20_000), *every_second(29_000, 34_000)).is_sure(34_000, TTL_MS)


@pytest.mark.parametrize(("gap_ms", "sure"), [(5_000, True), (5_001, False)])
def test_a_gap_of_up_to_half_a_ttl_is_none(gap_ms, sure):
    vigil = watched(*every_second(0, 20_000), 20_000 + gap_ms)
    assert vigil.is_sure(20_000 + gap_ms, TTL_MS) is sure


def test_another_server_and_a_clock_that_went_back_are_gaps():
    for server, now_ms in (("two", 21_000), ("one", 19_000)):
        vigil = watched(*every_second(0, 20_000)).looked(server, now_ms)
        assert not vigil.is_sure(now_ms, TTL_MS)


def test_what_is_kept_does_not_grow():
    assert len(watched(*every_second(0, 1_000_000)).gaps) <= 2
