"""Notices: tells webhooks the news, signed, again and again until they have heard it.

What is to be told was written in the transaction of the event itself, so nothing is forgotten, and
several servers share the work. A webhook may hear a thing twice: `webhook-id` is then the same. The
headers are those of Standard Webhooks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import msgspec

from ..core import limits
from ..core.errors import OutlastError, Unavailable
from ..core.model import Delivery
from ..store.verbs import Store
from ..view.words import rfc3339

Post = Callable[[str, bytes, dict[str, str]], None]


class NotHeard(Exception):
    """The other side has not said that it heard."""


class Notices:
    """A thread that tells what is due; `post(url, body, headers)` raises NotHeard."""

    def __init__(self, open_store: Callable[[], Store], post: Post | None = None) -> None:
        self._open_store, self._post = open_store, post or post_once
        self._store: Store | None = None
        self._leave = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-notices", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Begin nothing new. What is being told now may come again, from another server."""
        self._leave.set()
        if self._thread.is_alive():
            self._thread.join(limits.NOTICE_LEAVES_S)
        if not self._thread.is_alive():
            self._let_go()

    def tick(self) -> int:
        """Tell what is due now; how many were heard."""
        store = self._store = self._store or self._open_store()
        due = store.take_deliveries(limit=limits.NOTICES, for_ms=limits.NOTICE_OURS_MS)
        return sum(self._tell(store, delivery) for delivery in due)

    def _run(self) -> None:
        while not self._leave.is_set():
            try:
                heard = self.tick()
            except Unavailable:
                self._let_go()
                heard = 0
            except OutlastError:
                heard = 0
            if not heard:
                self._leave.wait(limits.POLL_MS / 1_000)

    def _tell(self, store: Store, delivery: Delivery) -> bool:
        if delivery.tries > limits.NOTICE_TRIES:
            store.delivered(delivery)  # given up: whoever has not heard for days is not there
            return False
        body = msgspec.json.encode(told(delivery))
        try:
            self._post(delivery.url, body, signed(delivery, body, int(time.time())))
        except NotHeard as error:
            store.delivered(delivery, error=str(error), after_ms=_after_ms(delivery.tries))
            return False
        store.delivered(delivery)
        return True

    def _let_go(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()


def told(delivery: Delivery) -> dict[str, Any]:
    """What a webhook is sent: what happened to which task. No inputs, results or errors."""
    task = delivery.task
    return {
        "type": delivery.news,
        "task": delivery.task_id,
        "seq": delivery.seq,
        "at": rfc3339(delivery.at_ms),
        "agent": task.agent if task else None,
        "queue": task.queue if task else None,
        "key": task.key if task else None,
        "state_now": task.state if task else None,
        "reason_now": task.reason if task else None,
        "epoch_now": task.epoch if task else None,
    }


def signed(delivery: Delivery, body: bytes, now_s: int) -> dict[str, str]:
    """The headers that say what this is, and that it is from us."""
    name = f"{delivery.task_id}.{delivery.seq}.{delivery.news}"
    text = f"{name}.{now_s}.".encode() + body
    digest = hmac.new(delivery.secret.encode(), text, hashlib.sha256).digest()
    return {
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": str(now_s),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def post_once(url: str, body: bytes, headers: dict[str, str]) -> None:
    """Raises NotHeard for whatever is not an answer of 2xx. Follows no redirect."""
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with _opener.open(request, timeout=limits.NOTICE_S):
            return
    except urllib.error.HTTPError as error:
        raise NotHeard(f"it answered {error.code}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotHeard(f"{type(error).__name__}: {error}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """The signature is for the address that was given, and for no other."""


_opener = urllib.request.build_opener(_NoRedirect)


def _after_ms(tries: int) -> int:
    wait_ms: int = limits.NOTICE_AGAIN_MS * 2 ** min(tries - 1, 20)
    return min(wait_ms, limits.NOTICE_AGAIN_MAX_MS)
