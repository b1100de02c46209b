"""Orders given on a page: who may, from where, with a reason, and what becomes of them."""

from __future__ import annotations

import pytest

from tests.server.browsing import Browser
from tests.server.conftest import ROLES
from tests.store import world

WHY = {"reason": "it was asked for twice"}


# -- each order --------------------------------------------------------------------------------


def test_a_cancel_goes_through_its_four_stages(serve):
    served = serve()
    owner = world.start(served.here)
    browser, path = Browser(served), f"/tasks/{owner.task_id}"
    form = browser.get(f"{path}/cancel")
    assert "Its owner is asked at its next heartbeat" in form.text

    sent = browser.send(f"{path}/cancel", WHY)
    assert (sent.status, sent.headers["location"]) == (303, path)
    asked = browser.get(path).text
    assert "asked : yes 0.0s ago by somebody on this machine: it was asked for twice" in asked
    assert "heard by its owner : no" in asked

    served.clock.move(1_000)
    owner.renew()
    heard = browser.get(path).text
    assert "heard by its owner : yes 0.0s ago" in heard
    assert "acknowledged : no" in heard

    served.clock.move(1_000)
    owner.acknowledge_cancel()
    ended = browser.get(path).text
    assert "acknowledged : yes 0.0s ago" in ended
    assert "ended : yes 0.0s ago cancelled" in ended


def test_a_cancel_without_an_owner_ends_at_once_and_says_that_nobody_heard(serve):
    served = serve()
    task = world.submit(served.here)
    browser = Browser(served)
    browser.send(f"/tasks/{task.id}/cancel", WHY)
    page = browser.get(f"/tasks/{task.id}").text
    assert "ended : yes 0.0s ago cancelled" in page
    assert "no owner had to hear it" in page


def test_a_cancel_by_force_takes_the_lease_away(serve):
    served = serve()
    owner = world.start(served.here)
    Browser(served).send(f"/tasks/{owner.task_id}/cancel", {**WHY, "force": "yes"})
    assert owner.task.state == "cancelled"
    assert "lease.revoked" in world.kinds(served.here, owner.task_id)


def test_retry_revoke_and_signal_are_carried_out_and_on_record(serve):
    served = serve()
    browser = Browser(served)
    owner = world.start(served.here)
    browser.send(f"/tasks/{owner.task_id}/signal", {"name": "hint", "payload": '{"ok": 1}'})
    [signal] = served.here.signals(owner.task_id)
    assert (signal.name, signal.payload, signal.sent_by) == (
        "hint",
        '{"ok": 1}',
        "somebody on this machine",
    )
    browser.send(f"/tasks/{owner.task_id}/revoke", {**WHY, "now": "yes"})
    revoked = world.body(served.here.last(owner.task_id, "lease.revoked"))
    assert (revoked["by"], revoked["why"]) == ("somebody on this machine", WHY["reason"])
    heir = world.claim(served.here, "new")
    heir.fail()
    browser.send(f"/tasks/{owner.task_id}/retry", WHY)
    assert served.here.get(owner.task_id).state == "ready"


def test_a_form_sent_twice_is_one_signal(serve):
    served = serve()
    task = world.submit(served.here)
    browser = Browser(served)
    path = f"/tasks/{task.id}/signal"
    token = browser.get(path) and browser.cookies["outlast_form"]
    fields = {"form_token": token, "id": "s-1", "name": "go", "payload": "null"}
    assert [browser.post(path, fields).status for _ in range(2)] == [303, 303]
    assert len(served.here.signals(task.id)) == 1


def test_a_value_that_is_no_json_is_refused_and_what_was_typed_is_kept(serve):
    served = serve()
    task = world.submit(served.here)
    page = Browser(served).send(f"/tasks/{task.id}/signal", {"name": "go", "payload": "{oops"})
    assert page.status == 400
    assert "the value is not JSON" in page.text
    assert "{oops</textarea>" in page.html
    assert served.here.signals(task.id) == []


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"how": "applied", "receipt": '{"tx": 17}'}, "applied"),
        ({"how": "not_applied"}, "not_applied"),
    ],
)
def test_a_doubt_is_settled_and_its_task_goes_on(serve, fields, state):
    served = serve()
    owner = world.start(served.here)
    owner.intend("pay/twice?")
    owner.ask_a_person()
    browser = Browser(served)
    [form] = [link for link in browser.get("/effects").links if "settle?" in link]
    assert "Nobody knows whether this reached the world" in browser.get(form).text
    assert browser.send(form, {**fields, **WHY}).status == 303
    settled = world.effect(served.here, owner.key("pay/twice?"))
    assert settled.state == state
    assert owner.task.state == "ready"
    assert browser.get(form).status == 409


def test_what_a_doubt_needs_to_be_settled_is_asked_for(serve):
    served = serve()
    owner = world.start(served.here)
    owner.intend("pay")
    owner.ask_a_person()
    browser = Browser(served)
    [form] = [link for link in browser.get("/effects").links if "settle?" in link]
    for fields in (
        {"how": "applied"},
        {"how": "not_applied", "receipt": "17"},
        {"how": "perhaps"},
        {},
    ):
        assert browser.send(form, {**fields, **WHY}).status == 400
    assert browser.send(form, {"how": "not_applied"}).status == 400
    assert world.effect(served.here, owner.key("pay")).state == "unknown"


@pytest.mark.parametrize("whom", ["worker=worker-old", "build=build-1", "all=1"])
def test_workers_are_drained_one_a_build_or_all(serve, whom):
    served = serve()
    world.enlisted(served.here, "old")
    world.enlisted(served.here, "other", build="build-2")
    browser = Browser(served)
    assert browser.send(f"/drain/order?{whom}", WHY).status == 303
    draining = {each.id for each in served.here.workers() if each.state == "draining"}
    assert draining == {"worker-old"} | ({"worker-other"} if whom == "all=1" else set())


@pytest.mark.parametrize("whom", ["", "?worker=nobody", "?build=none", "?build=b&all=1"])
def test_a_drain_of_nobody_is_refused(serve, whom):
    served = serve()
    world.enlisted(served.here, "old")
    page = Browser(served).get(f"/drain/order{whom}")
    assert page.status in (400, 404)


@pytest.mark.parametrize("verb", ["cancel", "retry", "revoke"])
def test_nothing_is_done_without_a_reason(serve, verb):
    served = serve()
    owner = world.start(served.here)
    if verb == "retry":
        owner.fail()
    before = world.kinds(served.here, owner.task_id)
    for reason in ("", "   ", "x" * 2_001):
        page = Browser(served).send(f"/tasks/{owner.task_id}/{verb}", {"reason": reason})
        assert page.status == 400
        assert "Not done." in page.text
        assert "the reason" in page.text
    assert world.kinds(served.here, owner.task_id) == before
    assert owner.task.cancel_ms is None


def test_what_the_state_of_a_task_does_not_allow_is_said_before_the_form(serve):
    served = serve()
    task = world.submit(served.here)
    page = Browser(served).get(f"/tasks/{task.id}/revoke")
    assert page.status == 409
    assert "task" in page.text
    assert "is for tasks that are running" in page.text
    assert "/revoke" not in Browser(served).get(f"/tasks/{task.id}").html


# -- who may -----------------------------------------------------------------------------------


def test_a_viewer_sees_everything_and_no_order(serve):
    served = serve(asks_for_tokens=True)
    owner = world.start(served.here)
    owner.intend("pay")
    owner.ask_a_person()
    running = world.start(served.here)
    viewer = Browser(served, served.token("viewer"))
    for path in ("/", "/workers", "/effects", "/drain", f"/tasks/{running.task_id}"):
        page = viewer.get(path)
        assert page.status == 200
        assert "viewer of the test (viewer)" in page.text
        assert 'method="post"' not in page.html.replace('method="post" action="/sign-out"', "")
        assert not {"cancel", "revoke", "retry", "signal", "order", "settle"} & {
            link.partition("?")[0].rpartition("/")[2] for link in page.links
        }


@pytest.mark.parametrize("role", ROLES)
def test_orders_are_for_operators_and_admins(serve, role):
    served = serve(asks_for_tokens=True)
    owner = world.start(served.here)
    browser = Browser(served, served.token(role))
    may = role in ("operator", "admin")
    path = f"/tasks/{owner.task_id}/cancel"
    assert browser.get(path).status == (200 if may else 403)
    browser.get("/sign-in")
    fields = {"form_token": browser.cookies["outlast_form"], **WHY}
    assert browser.post(path, fields).status == (303 if may else 403)
    assert (owner.task.cancel_by == f"{role} of the test") is may


def test_a_workers_token_opens_no_page(serve):
    served = serve(asks_for_tokens=True)
    task = world.submit(served.here)
    worker = Browser(served, served.token("worker"))
    for path in ("/", "/workers", "/effects", "/drain", "/health", f"/tasks/{task.id}"):
        page = worker.get(path)
        assert page.status == 403
        assert task.id not in page.html


def test_without_a_token_there_is_a_sign_in_and_nothing_else(serve):
    served = serve(asks_for_tokens=True, store_url="postgresql://db.example/prod", version="1.2.3")
    task = world.submit(served.here)
    browser = Browser(served)
    for path in ("/", f"/tasks/{task.id}", "/live/home", f"/tasks/{task.id}/cancel"):
        page = browser.get(path)
        assert page.status == 401
        assert "Sign in" in page.text
        assert "db.example" not in page.html
        assert "1.2.3" not in page.html
        assert page.text.count(task.id[:13]) == (1 if task.id in path else 0), "the address alone"
    assert browser.post(f"/tasks/{task.id}/cancel", WHY).status == 401
    assert served.here.get(task.id).state == "ready"


def test_who_signs_in_comes_to_the_page_they_wanted_and_signs_out_again(serve):
    served = serve(asks_for_tokens=True)
    token = served.token("operator")
    browser = Browser(served)
    assert browser.send("/sign-in", {"token": "ol_12345678_wrong"}).status == 401
    answer = browser.send("/sign-in?next=/workers%3Fx%3D1", {"token": f" {token} "})
    assert (answer.status, answer.headers["location"]) == (303, "/workers?x=1")
    cookie = answer.headers["set-cookie"]
    for part in (f"outlast_token={token}", "HttpOnly", "SameSite=strict"):
        assert part in cookie
    page = browser.get("/")
    assert page.status == 200
    assert token not in page.html
    browser.post("/sign-out", {"form_token": browser.cookies["outlast_form"]})
    assert browser.get("/").status == 401


def test_the_cookie_is_secure_where_the_server_is_reached_by_https(serve):
    served = serve(asks_for_tokens=True)
    browser = Browser(served)
    fields = {"token": served.token("viewer")}
    answer = browser.send("/sign-in", fields, **{"X-Forwarded-Proto": "https"})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", "x"]
)
def test_a_sign_in_leads_nowhere_else(serve, elsewhere):
    served = serve(asks_for_tokens=True)
    browser = Browser(served)
    fields = {"token": served.token("viewer"), "next": elsewhere}
    assert browser.send("/sign-in", fields).headers["location"] == "/"


# -- from where --------------------------------------------------------------------------------


@pytest.mark.parametrize("asks_for_tokens", [True, False])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:1"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_form_of_another_site_is_refused_even_with_our_token(serve, headers, asks_for_tokens):
    served = serve(asks_for_tokens=asks_for_tokens)
    task = world.submit(served.here)
    browser = Browser(served, served.token("admin") if asks_for_tokens else "")
    page = browser.send(f"/tasks/{task.id}/cancel", WHY, **headers)
    assert page.status == 403
    assert "another site" in page.text
    assert served.here.get(task.id).state == "ready"


@pytest.mark.parametrize("sent", ["", "0" * 64, "é"])
def test_a_form_without_the_token_of_its_browser_is_refused(serve, sent):
    served = serve()
    task = world.submit(served.here)
    browser = Browser(served)
    for path in (f"/tasks/{task.id}/cancel", "/drain/order?all=1", "/sign-in", "/sign-out"):
        assert browser.post(path, {**WHY, "form_token": sent}).status == 403
        browser.get("/")
        assert browser.post(path, {**WHY, "form_token": sent}).status == 403
        browser.cookies.clear()
    assert served.here.get(task.id).state == "ready"


def test_our_own_forms_pass_as_browsers_send_them(serve):
    served = serve()
    task = world.submit(served.here)
    headers = {"Origin": served.url, "Sec-Fetch-Site": "same-origin"}
    assert Browser(served).send(f"/tasks/{task.id}/cancel", WHY, **headers).status == 303


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 400),
        (b"\xff=1", "application/x-www-form-urlencoded", 400),
        (b"&".join(b"a=1" for _ in range(30)), "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 1_200_000, "application/x-www-form-urlencoded", 413),
    ],
)
def test_what_is_no_form_is_refused(serve, body, kind, status):
    served = serve()
    answer = served.request("POST", "/sign-in", body, **{"Content-Type": kind})
    assert answer[0] == status


def test_an_address_of_a_mutation_changes_nothing_when_it_is_only_opened(serve):
    served = serve()
    owner = world.start(served.here)
    browser = Browser(served)
    for verb in ("cancel", "revoke", "signal"):
        browser.get(f"/tasks/{owner.task_id}/{verb}?reason=x&form_token=y")
    browser.get("/drain/order?all=1&reason=x")
    assert owner.task.state == "running"
    assert owner.task.cancel_ms is None
    assert all(worker.state == "active" for worker in served.here.workers())
