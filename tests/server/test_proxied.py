"""A name from a proxy: believed from its address alone, and never over a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from outlast.server.access import Proxy
from tests.server.conftest import Served
from tests.store.world import submit

Serve = Callable[..., Served]
HERE = frozenset({"127.0.0.1"})


def behind(serve: Serve, role: Any = "operator", addresses: frozenset[str] = HERE) -> Served:
    return serve(asks_for_tokens=True, proxy=Proxy("X-Forwarded-User", role, addresses))


def cancel(served: Served, **headers: str) -> tuple[int, Any]:
    task = submit(served.here)
    status, _, body = served.request(
        "POST", f"/api/v1/tasks/{task.id}/cancel", b'{"reason": "a test"}',
        Content_Type="application/json", **headers,
    )  # fmt: skip
    return status, msgspec.json.decode(body)


def test_orders_are_under_the_name_that_the_proxy_gave(serve: Serve) -> None:
    served = behind(serve)
    status, answer = cancel(served, X_Forwarded_User="maria@example.com")
    assert status == 200
    assert "maria@example.com" in served.here.read(answer["id"])[-1].body


def test_the_role_is_the_one_that_was_ordered(serve: Serve) -> None:
    assert cancel(behind(serve, "viewer"), X_Forwarded_User="maria")[0] == 403


def test_a_name_from_elsewhere_is_nobody(serve: Serve) -> None:
    served = behind(serve, addresses=frozenset({"10.0.0.1"}))
    assert cancel(served, X_Forwarded_User="maria")[0] == 401


def test_without_a_proxy_the_header_says_nothing(serve: Serve) -> None:
    assert cancel(serve(asks_for_tokens=True), X_Forwarded_User="maria")[0] == 401


@pytest.mark.parametrize("name", ["", " "])
def test_no_name_is_nobody(serve: Serve, name: str) -> None:
    assert cancel(behind(serve), X_Forwarded_User=name)[0] == 401


def test_a_token_goes_before_the_name(serve: Serve) -> None:
    served = behind(serve)
    token = served.token("viewer")
    headers = {"X_Forwarded_User": "maria", "Authorization": f"Bearer {token}"}
    assert cancel(served, **headers)[0] == 403


def test_a_worker_has_no_name_from_a_proxy_as_its_own(serve: Serve) -> None:
    """Workers come with tokens: that is what their leases are told apart by."""
    served = behind(serve)
    status, _, _ = served.request("POST", "/store/look", b"{}", X_Forwarded_User="maria")
    assert status == 401
