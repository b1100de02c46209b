"""Take one rule out, and the search finds the promise that it was for."""

from __future__ import annotations

import pytest

from tests.model.configurations import LARGE_TWINS, TWINS, Twin, run
from tests.model.search import render


@pytest.mark.timeout(300)
@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.without)
def test_without_its_rule_the_protocol_breaks_its_promise(twin: Twin) -> None:
    _is_found(twin)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("twin", LARGE_TWINS, ids=lambda twin: twin.without)
def test_without_its_rule_the_protocol_breaks_its_promise_far_away(twin: Twin) -> None:
    _is_found(twin)


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [twin.without for twin in TWINS + LARGE_TWINS]
    assert len(names) == len(set(names))


def _is_found(twin: Twin) -> None:
    violation = run(twin.broken_scene()).violation
    assert violation is not None, f"without {twin.without!r} nothing broke: what is it for?"
    assert violation.promise == twin.promise, render(violation)
