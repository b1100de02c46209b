"""`/api/v1`: every operation does what its command does, and says no as a `Problem`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from outlast.server.api import OPERATIONS
from outlast.server.http_api import BASE
from tests.server.conftest import ROLES, Served
from tests.server.test_access import MAY
from tests.store.world import enlisted, start, submit

Serve = Callable[..., Served]
REASON = {"reason": "a test"}


class Api:
    """Asks an operation; the answer's JSON, and its status where that is asked for."""

    def __init__(self, served: Served, token: str = "") -> None:
        self._served, self._token = served, token

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if method == "POST":
            headers.setdefault("Content_Type", "application/json")
        text = b"" if body is None else msgspec.json.encode(body)
        status, _, answer = self._served.request(method, BASE + path, text, **headers)
        return status, msgspec.json.decode(answer)

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path)
        assert status == 200, answer
        return answer

    def post(self, path: str, body: Any) -> Any:
        status, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return answer


def test_a_task_from_its_submit_to_its_cancel(serve: Serve) -> None:
    served = serve()
    api = Api(served)
    wanted = {"agent": "agent", "input": {"n": 1}, "key": "k", "labels": {"team": "a"}}
    made = api.post("/tasks", wanted)
    assert (made["created"], made["state"], made["input"]) == (True, "ready", {"n": 1})
    assert api.post("/tasks", wanted)["created"] is False

    [listed] = api.get("/tasks?state=ready&label=team=a&queue=default")["items"]
    assert listed["id"] == made["id"]
    assert api.get("/tasks?label=team=b")["items"] == []
    assert [e["kind"] for e in api.get(f"/tasks/{made['id']}/log")["items"]] == ["task.submitted"]

    cancelled = api.post(f"/tasks/{made['id']}/cancel", REASON)
    assert (cancelled["state"], cancelled["answer"]) == ("cancelled", "cancelled")
    shown = api.get(f"/tasks/{made['id']}")
    assert "a test" in shown["why"]
    assert api.post(f"/tasks/{made['id']}/retry", REASON)["state"] == "ready"


def test_an_owned_task_is_signalled_revoked_and_its_effect_settled(serve: Serve) -> None:
    served = serve()
    api = Api(served)
    owner = start(served.here)
    owner.intend()
    sent = {"name": "approval", "payload": {"ok": True}, "id": "s1"}
    assert api.post(f"/tasks/{owner.task_id}/signals", sent)["new"] is True
    assert api.post(f"/tasks/{owner.task_id}/signals", sent)["new"] is False
    assert api.get("/deploy-gate")["running"] == 1
    assert api.post(f"/tasks/{owner.task_id}/revoke", {**REASON, "now": True})["state"] == "ready"

    [doubt] = api.get("/effects?unknown=true")["items"]
    told = {"key": doubt["key"], "applied": True, "receipt": "r1", **REASON}
    settled = api.post("/effects/settle", told)
    assert (settled["state"], settled["result"]) == ("applied", "r1")
    assert api.get("/effects?unknown=true")["items"] == []
    assert api.get(f"/effects?task={owner.task_id}")["items"][0]["key"] == doubt["key"]


def test_workers_queues_scale_and_checkup(serve: Serve) -> None:
    served = serve()
    api = Api(served)
    enlisted(served.here)
    submit(served.here)
    assert api.get("/workers")["items"][0]["build"] == "build-1"
    drained = api.post("/workers/drain", {"build": "build-1", **REASON})["items"]
    assert drained[0]["drain_by"].endswith("a test")
    assert api.get("/scale?queue=default") == {
        "queue": "default", "ready": 1, "held": 0, "wanted": 1,
    }  # fmt: skip
    assert api.post("/queues/default/pause", REASON)["paused"] is True
    assert api.post("/queues/default/resume", {})["paused"] is False
    assert {finding["state"] for finding in api.get("/checkup")["items"]} <= {"ok", "warn"}


@pytest.mark.parametrize("role", ROLES)
def test_every_operation_is_answered_as_the_role_says(serve: Serve, role: Any) -> None:
    served = serve(asks_for_tokens=True)
    api = Api(served, served.token(role))
    for operation in OPERATIONS.values():
        path = re.sub(r"{\w+}", "x", operation.path)
        status, _ = api.ask(operation.method, path, {} if operation.method == "POST" else None)
        allowed = operation.verb in MAY[role] and role != "worker"
        assert (status == 403) == (not allowed), operation


def test_without_a_token_no_operation_is_answered(serve: Serve) -> None:
    api = Api(serve(asks_for_tokens=True))
    for operation in OPERATIONS.values():
        path = re.sub(r"{\w+}", "x", operation.path)
        assert api.ask(operation.method, path)[0] == 401, operation


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/tasks?limit=0", None, 400),
        ("GET", "/tasks?limit=many", None, 400),
        ("GET", "/tasks?state=asleep", None, 400),
        ("GET", "/tasks?label=x", None, 400),
        ("GET", "/tasks?since=soon", None, 400),
        ("GET", "/tasks?nonsense=1", None, 400),
        ("GET", "/tasks/nothing", None, 404),
        ("GET", "/tasks/nothing/log?after=-1", None, 400),
        ("GET", "/tasks/%00%ff/log", None, 404),
        ("GET", f"/tasks?text={'x' * 5_000}", None, 200),
        ("GET", "/scale", None, 400),
        ("POST", "/tasks", {}, 400),
        ("POST", "/tasks", {"agent": ""}, 400),
        ("POST", "/tasks", {"agent": "a", "priority": 10**30}, 400),
        ("POST", "/tasks", {"agent": "a", "input": {"x": "y" * (2 << 20)}}, 413),
        ("POST", "/tasks", {"agent": "a", "delay": "-1s"}, 400),
        ("POST", "/tasks", {"agent": "a\0"}, 400),
        ("POST", "/tasks/nothing/cancel", REASON, 404),
        ("POST", "/tasks/nothing/cancel", {"reason": " "}, 400),
        ("POST", "/tasks/nothing/cancel", {"task": "x", **REASON}, 400),
        ("POST", "/effects/settle", {"key": "none", "applied": True, **REASON}, 404),
        ("POST", "/workers/drain", REASON, 400),
        ("POST", "/workers/drain", {"worker": "none", **REASON}, 404),
    ],
)
def test_what_cannot_be_is_a_problem(
    serve: Serve, method: str, path: str, body: Any, status: int
) -> None:
    said, answer = Api(serve()).ask(method, path, body)
    assert said == status, answer
    if status != 200:
        assert answer["execution_state"] == "not_dispatched"
        assert answer["message"]


def test_a_form_of_another_site_is_no_request(serve: Serve) -> None:
    api = Api(serve())
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        status, answer = api.ask("POST", "/tasks", {"agent": "a"}, Content_Type=kind)
        assert (status, answer["code"]) == (415, "NotJson")


def test_an_order_needs_a_reason_and_is_on_record_under_its_name(serve: Serve) -> None:
    served = serve(asks_for_tokens=True)
    api = Api(served, served.token("operator"))
    task = submit(served.here)
    assert api.ask("POST", f"/tasks/{task.id}/cancel", {"reason": " "})[0] == 400
    api.post(f"/tasks/{task.id}/cancel", REASON)
    assert "operator of the test" in served.here.read(task.id)[-1].body


@pytest.mark.parametrize(("method", "path"), [("GET", "/nope"), ("DELETE", "/tasks")])
def test_an_address_that_is_none_is_a_problem_too(serve: Serve, method: str, path: str) -> None:
    status, answer = Api(serve()).ask(method, path)
    assert status in (404, 405)
    assert (answer["code"], answer["execution_state"]) == ("NoSuchAddress", "not_dispatched")


def test_the_document_describes_every_operation(serve: Serve) -> None:
    document = Api(serve(asks_for_tokens=True)).get("/openapi.json")
    told = {
        (method.upper(), path.removeprefix(BASE))
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert told == {(each.method, each.path) for each in OPERATIONS.values()}
