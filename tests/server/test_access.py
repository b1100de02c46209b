"""Nobody gets in where they do not belong: every verb, every role, and a worker's own leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from outlast.core.errors import Forbidden, NotSignedIn, Unavailable, UsageError
from outlast.core.model import Signal
from outlast.server.access import ALLOWED
from outlast.server.desk import Busy, Desk
from outlast.store.messages import messages
from outlast.store.verbs import Claim, EffectQuery, Query, Renewal, Store
from tests.server.conftest import ANN, ROLES, Served
from tests.store.world import (
    AGENT,
    LIMITS,
    QUEUE,
    TTL,
    Owner,
    new_task,
    signal,
    submit,
    worker,
)
from tests.store.world import new_token as name_of_a_claim

Serve = Callable[..., Served]
# What each role may ask. Written out: whoever changes it must say so here as well.
READS = {
    "get", "find", "signals", "read", "last", "granted", "stands", "find_effects", "observations",
    "worker", "workers", "counts", "paused", "version", "now_ms", "checkup",
}  # fmt: skip
GIVES_ORDERS = {
    "submit", "cancel", "signal", "retry", "revoke", "settle", "order_drain", "pause", "unpause",
}  # fmt: skip
OWNS = {
    "enlist", "claim", "renew", "look", "reap", "crash", "retire", "append", "begin", "stands",
    "read", "last", "get", "signals", "observe", "find_effects", "version", "now_ms",
}  # fmt: skip
MAY = {
    "viewer": READS,
    "operator": READS | GIVES_ORDERS,
    "worker": OWNS,
    "admin": set(messages()),
}


def test_the_roles_cover_every_verb_and_nothing_else() -> None:
    assert {role: set(verbs) for role, verbs in ALLOWED.items()} == MAY


@pytest.mark.parametrize("role", ROLES)
def test_every_verb_is_answered_as_the_role_says(serve: Serve, role: Any) -> None:
    served = serve(asks_for_tokens=True)
    token = served.token(role)
    refused = set()
    for verb in messages():
        status, _, body = served.request(
            "POST", f"/store/{verb}", b"{}", Authorization=f"Bearer {token}"
        )
        # An empty request is no request of most verbs; who may not ask is told so all the same.
        said = msgspec.json.decode(body)
        if isinstance(said, dict) and said.get("code") == "Forbidden":
            assert status == 403
            refused.add(verb)
    assert refused == set(messages()) - MAY[role]


@pytest.mark.parametrize("verb", sorted(messages()))
def test_without_a_token_nothing_is_answered(serve: Serve, verb: str) -> None:
    served = serve(asks_for_tokens=True)
    for header in ({}, {"Authorization": "Bearer ol_no_such"}, {"Authorization": "Basic YTpi"}):
        status, _, body = served.request("POST", f"/store/{verb}", b"{}", **header)
        assert (status, msgspec.json.decode(body)["code"]) == (401, "NotSignedIn")


def test_metrics_ask_for_a_token_too_and_health_does_not(serve: Serve) -> None:
    served = serve(asks_for_tokens=True)
    token = served.token("viewer")
    assert served.request("GET", "/metrics")[0] == 401
    assert served.request("GET", "/metrics", Authorization=f"Bearer {token}")[0] == 200
    assert [served.request("GET", path)[0] for path in ("/livez", "/readyz")] == [200, 200]


def test_on_loopback_nobody_is_asked_unless_it_was_ordered(serve: Serve) -> None:
    assert serve().open().now_ms() > 0


def test_a_name_that_is_not_ours_is_turned_away(serve: Serve) -> None:
    """A page elsewhere whose name is made to point at this machine reaches nothing."""
    served = serve()
    assert served.request("POST", "/store/now_ms", b"{}", Host="evil.example")[0] == 400
    assert served.request("POST", "/store/now_ms", b"{}", Host="localhost:80")[0] == 200


def test_a_token_is_good_until_it_expires_or_is_revoked(serve: Serve, monkeypatch: Any) -> None:
    served = serve(asks_for_tokens=True)
    brief, longer = served.token("viewer", 1_000), served.token("viewer")
    assert served.open(brief).now_ms() == served.open(longer).now_ms()
    served.clock.move(1_000)
    with pytest.raises(NotSignedIn, match="expired"):
        served.open(brief).now_ms()

    monkeypatch.setattr("outlast.server.access.BELIEVED_S", 0.0)
    served.here.revoke_token(longer.split("_")[1], ANN)
    with pytest.raises(NotSignedIn, match="revoked by ann: because"):
        served.open(longer).now_ms()


def test_the_secret_of_a_token_is_nowhere_in_the_store(serve: Serve) -> None:
    served = serve(asks_for_tokens=True)
    secret = served.token("admin").split("_")[2]
    [kept] = served.here.tokens()
    assert secret not in repr(kept)
    assert len(kept.digest) == 64


# -- a worker's own --------------------------------------------------------------------------------


class Two:
    """Two workers with a token each; the first holds a task."""

    def __init__(self, served: Served) -> None:
        self.here = served.here
        self.mine = served.open(served.token("worker"))
        self.theirs = served.open(served.token("worker"))
        self.task = submit(served.here)
        self.owner = claimed(self.mine, "mine")
        self.theirs.enlist(worker("theirs"))


def claimed(store: Store, name: str) -> Owner:
    me = store.enlist(worker(name))
    wanted = Claim(
        worker=me, queues=[QUEUE], agents={AGENT: LIMITS}, room=1, ttl_ms=TTL,
        token=name_of_a_claim(), held=0,
    )  # fmt: skip
    [grant] = store.claim(wanted)
    return Owner(store, grant)


def test_a_worker_does_its_own_work(serve: Serve) -> None:
    two = Two(serve(asks_for_tokens=True))
    two.owner.step()
    two.owner.intend()
    two.owner.applied()
    assert two.mine.read(two.task.id)[-1].kind == "effect.applied"
    beat = two.mine.renew("worker-mine", [Renewal(two.task.id, two.owner.grant.lease.grant)])
    assert beat.leases[two.task.id].state == "held"
    two.mine.retire("worker-mine")


def test_a_workers_token_cannot_touch_the_lease_of_another(serve: Serve) -> None:
    two = Two(serve(asks_for_tokens=True))
    before = two.here.read(two.task.id)
    offer = two.owner.offer(("note", {"text": "forged", "data": None}))
    as_theirs = msgspec.structs.replace(offer, worker="worker-theirs")
    grant = two.owner.grant.lease.grant
    attempts: dict[str, Callable[[], Any]] = {
        "append as the owner": lambda: two.theirs.append([offer]),
        "append as itself": lambda: two.theirs.append([as_theirs]),
        "ask whether it stands": lambda: two.theirs.stands(offer),
        "begin": lambda: two.theirs.begin(as_theirs),
        "observe": lambda: two.theirs.observe(
            two.task.id, 1, "worker-theirs", "key", applied=True, result=1
        ),
        "observe an epoch that was never given": lambda: two.theirs.observe(
            two.task.id, 99, "worker-theirs", "key", applied=True, result=1
        ),
        "renew": lambda: two.theirs.renew("worker-mine", [Renewal(two.task.id, grant)]),
        "crash": lambda: two.theirs.crash("worker-mine", by="me"),
        "retire": lambda: two.theirs.retire("worker-mine"),
        "enlist as": lambda: two.theirs.enlist(worker("mine")),
        "read": lambda: two.theirs.read(two.task.id),
        "get": lambda: two.theirs.get(two.task.id),
        "last": lambda: two.theirs.last(two.task.id, ""),
        "signals": lambda: two.theirs.signals(two.task.id),
        "effects": lambda: two.theirs.find_effects(EffectQuery(task_id=two.task.id)),
        "effects of many": lambda: two.theirs.find_effects(
            EffectQuery(task_ids=[two.task.id], key=None)
        ),
        "all effects": lambda: two.theirs.find_effects(EffectQuery()),
        "submit": lambda: two.theirs.submit([new_task(two.here)]),
        "list": lambda: two.theirs.find(Query()),
        "make a token": lambda: two.theirs.tokens(),
    }
    allowed = []
    for what, attempt in attempts.items():
        try:
            attempt()
            allowed.append(what)
        except Forbidden:
            pass
    assert allowed == []
    assert two.here.read(two.task.id) == before
    assert {w.id: w.state for w in two.here.workers()}["worker-mine"] == "active"


def test_a_worker_that_was_overtaken_is_turned_away_by_the_log_as_ever(serve: Serve) -> None:
    two = Two(serve(asks_for_tokens=True))
    late = two.owner.offer(("note", {"text": "late", "data": None}))
    two.here.revoke(two.task.id, ANN, now=True)
    claimed(two.theirs, "theirs")
    [answer] = two.mine.append([late])
    assert getattr(answer, "why", None) == "lost"


def test_a_workers_token_opens_neither_the_api_nor_a_page(serve: Serve) -> None:
    served = serve(asks_for_tokens=True)
    task = submit(served.here, input='{"secret": "hunter2"}')
    token = served.token("worker")
    for path in ("/", f"/tasks/{task.id}", "/effects", "/workers", "/drain", "/health",
                 f"/api/v1/tasks/{task.id}/log", "/api/v1/effects", "/metrics"):  # fmt: skip
        status, _, body = served.request("GET", path, Authorization=f"Bearer {token}")
        assert status == 403, path
        assert b"hunter2" not in body


def test_a_signal_and_a_task_are_from_whom_the_token_says(serve: Serve) -> None:
    served = serve(asks_for_tokens=True)
    store = served.open(served.token("operator"))
    [made] = store.submit([new_task(served.here, by="alice")])
    signal(store, made.task.id, "approval", sent_by="alice")
    assert served.here.signals(made.task.id)[0].sent_by == "operator of the test"
    assert "alice" not in served.here.read(made.task.id)[0].body


def test_what_would_poison_an_agent_is_no_signal(serve: Serve) -> None:
    served = serve()
    task = submit(served.here)
    for payload in ("not json", "", "[" * 100_000):
        bad = Signal("s1", task.id, "approval", payload, "ann", 0)
        with pytest.raises(UsageError, match="no JSON"):
            served.open().signal(task.id, bad)


def test_a_server_that_is_too_busy_is_asked_again(serve: Serve, monkeypatch: Any) -> None:
    served = serve()

    async def busy(*_: Any) -> None:
        raise Busy("1000 requests wait already")

    monkeypatch.setattr(Desk, "ask", busy)
    with pytest.raises(Unavailable, match="wait already"):
        served.open().now_ms()


def test_an_order_is_from_whom_the_token_says(serve: Serve) -> None:
    served = serve(asks_for_tokens=True)
    task = submit(served.here)
    served.open(served.token("operator")).cancel(task.id, ANN)
    assert "operator of the test" in served.here.read(task.id)[-1].body


# -- hostile requests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not what the verb takes"),
        (b"{", "not what the verb takes"),
        (b"[1]", "not what the verb takes"),
        (b'{"task_id": 5}', "not what the verb takes"),
        (b'{"task_id": "a", "more": 1}', "not what the verb takes"),
        (b'{"task_id": "\xff"}', "not what the verb takes"),
        (b'{"task_id": "a\\u0000b"}', "no task"),
        (b"[" * 100_000, "not what the verb takes"),
    ],
)
def test_a_request_that_is_none_is_refused_with_its_reason(
    serve: Serve, body: bytes, says: str
) -> None:
    status, _, answer = serve().request("POST", "/store/get", body)
    problem = msgspec.json.decode(answer)
    assert status in (400, 404)
    assert says in problem["message"]
    assert problem["execution_state"] == "not_dispatched"


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("read", b'{"task_id": "01234567", "limit": %d}' % 2**70),
        ("read", b'{"task_id": "01234567", "after": %d}' % 2**70),
        ("settle", b'{"key": "k", "order": {"by": "a", "why": "b"}, "applied": true, "receipt": '
         + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ],
)  # fmt: skip
def test_what_no_database_or_stack_can_hold_is_refused(
    serve: Serve, verb: str, body: bytes
) -> None:
    status, _, answer = serve().request("POST", f"/store/{verb}", body)
    assert (status, msgspec.json.decode(answer)["execution_state"]) == (400, "not_dispatched")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_page_of_another_site_cannot_have_a_browser_ask_a_verb(serve: Serve, kind: str) -> None:
    """On loopback whoever asks is let in: so a browser must be told apart by what it may send."""
    served = serve()
    task = submit(served.here)
    body = msgspec.json.encode({"task_id": task.id, "order": {"by": "evil", "why": "fun"}})
    status, _, answer = served.request("POST", "/store/cancel", body, Content_Type=kind)
    assert (status, msgspec.json.decode(answer)["code"]) == (415, "NotJson")
    assert served.here.get(task.id).state == "ready"


def test_what_is_larger_than_any_request_is_not_read(serve: Serve) -> None:
    status, _, answer = serve().request("POST", "/store/get", b" " * (33 << 20))
    assert (status, msgspec.json.decode(answer)["code"]) == (413, "PayloadTooLarge")


def test_a_verb_that_is_none_is_not_found(serve: Serve) -> None:
    served = serve()
    for verb in ("close", "transact", "hinted", "__init__", "database", "nonsense"):
        assert served.request("POST", f"/store/{verb}", b"{}")[0] == 404
    assert served.request("GET", "/store/get")[0] == 405


def test_a_transaction_does_not_travel(serve: Serve) -> None:
    with pytest.raises(UsageError, match="over HTTP"):
        serve().open().transact(lambda connection: None)  # type: ignore[arg-type,return-value]
