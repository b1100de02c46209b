"""Notices: a webhook is told the news, signed, until it has heard."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from outlast.core.errors import UsageError
from outlast.core.model import NewWebhook
from outlast.core.news import NEWS
from outlast.server import notices as notices_module
from outlast.server.notices import NotHeard, Notices, post_once
from tests.server.conftest import ANN, Served
from tests.store.world import start

Serve = Callable[..., Served]


class Listener:
    """Somebody who is told, and answers as `answers` says, 200 once that is used up."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.heard: list[tuple[dict[str, str], bytes]] = []
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                names = {name.lower(): value for name, value in self.headers.items()}
                listener.heard.append((names, body))
                self.send_response(listener.answers.pop(0) if listener.answers else 200)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not in the tests' output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def listening(served: Served, listener: Listener) -> Notices:
    served.here.add_webhook(NewWebhook("w", listener.url, NEWS, "s3cret"), ANN)
    return Notices(lambda: served.here)


def test_what_is_told_is_signed_and_says_no_more_than_it_must(
    serve: Serve, listener: Listener
) -> None:
    served = serve()
    notices = listening(served, listener)
    task = start(served.here, input='{"password": "hunter2"}').succeed() and served.here
    assert notices.tick() == 1
    headers, body = listener.heard[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(b"s3cret", signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    told = msgspec.json.decode(body)
    assert (told["type"], told["state_now"]) == ("ended", "succeeded")
    assert headers["webhook-id"] == f"{told['task']}.{told['seq']}.ended"
    assert b"hunter2" not in body
    assert task is served.here


@pytest.mark.parametrize("answer", [500, 404, 301])
def test_what_was_not_heard_is_told_again_later(
    serve: Serve, listener: Listener, answer: int
) -> None:
    served = serve()
    notices = listening(served, listener)
    start(served.here).succeed()
    listener.answers = [answer]
    assert notices.tick() == 0
    assert served.here.webhooks()[0].error == f"it answered {answer}"
    assert notices.tick() == 0
    assert len(listener.heard) == 1
    served.clock.move(1_000)
    notices = Notices(lambda: served.here)  # another server, which has not just been refused
    assert notices.tick() == 1
    assert listener.heard[0][0]["webhook-id"] == listener.heard[1][0]["webhook-id"]
    assert served.here.webhooks()[0].behind == 0


def test_somebody_who_is_not_there_holds_up_nobody(serve: Serve, listener: Listener) -> None:
    served = serve()
    served.here.add_webhook(NewWebhook("gone", "http://127.0.0.1:9/", NEWS, "s"), ANN)
    notices = listening(served, listener)
    start(served.here).succeed()
    assert notices.tick() == 1
    gone = {each.id: each for each in served.here.webhooks()}["gone"]
    assert gone.behind == 1
    assert "refused" in (gone.error or "").lower()


def test_who_has_not_heard_for_days_is_given_up(
    serve: Serve, listener: Listener, monkeypatch: Any
) -> None:
    monkeypatch.setattr(notices_module, "REST_MAX_MS", 0)
    served = serve()
    notices = listening(served, listener)
    start(served.here).succeed()
    listener.answers = [500] * 100
    for _ in range(50):
        assert served.here.webhooks()[0].behind == 1
        notices.tick()
        served.clock.move(3_600_000)
    assert served.here.webhooks()[0].behind == 0


def test_who_is_not_there_rests_and_others_are_told_meanwhile(
    serve: Serve, listener: Listener
) -> None:
    served = serve()
    tried: list[str] = []

    def post(url: str, body: bytes, headers: dict[str, str]) -> None:
        tried.append(url)
        if "gone" in url:
            raise NotHeard("nobody is there")
        post_once(url, body, headers)

    served.here.add_webhook(NewWebhook("a", "https://gone.example/", NEWS, "s"), ANN)
    served.here.add_webhook(NewWebhook("b", listener.url, NEWS, "s"), ANN)
    notices = Notices(lambda: served.here, post)
    for _ in range(30):
        start(served.here).succeed()
    assert notices.tick() == 20
    assert notices.tick() == 10
    assert [url for url in tried if "gone" in url] == ["https://gone.example/"]


@pytest.mark.parametrize("url", ["file:///etc/hostname", "http://example.com/", "ftp://x", "x"])
def test_what_is_no_address_of_the_web_is_refused(serve: Serve, url: str) -> None:
    with pytest.raises(UsageError, match="no https:// address"):
        serve().here.add_webhook(NewWebhook("w", url, NEWS, "s"), ANN)
