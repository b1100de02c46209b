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
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from ..core import limits
from ..core.errors import Unavailable
from ..core.model import Delivery
from ..store.verbs import Store
from ..view.words import rfc3339

REST_MAX_MS = 60_000
Post = Callable[[str, bytes, dict[str, str]], None]


class NotHeard(Exception):
    """The other side has not said that it heard."""


class Notices:
    """A thread that tells what is due; `post(url, body, headers)` raises NotHeard."""

    def __init__(self, open_store: Callable[[], Store], post: Post | None = None) -> None:
        self._open_store, self._post = open_store, post or post_once
        self._store: Store | None = None
        self._rests: dict[str, float] = {}  # till when, for those that have just not heard
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
        """Tell what is due now; how much was heard.

        Each webhook on a thread of its own, till it does not hear: so it holds up nobody else.
        """
        store = self._store = self._store or self._open_store()
        now_s = time.monotonic()
        resting = [name for name, until_s in self._rests.items() if until_s > now_s]
        due: dict[str, list[Delivery]] = {}
        for delivery in store.take_deliveries(
            limit=limits.NOTICES, for_ms=limits.NOTICE_OURS_MS, resting=resting
        ):
            due.setdefault(delivery.webhook, []).append(delivery)
        if not due:
            return 0
        with ThreadPoolExecutor(min(len(due), limits.NOTICE_THREADS)) as threads:
            outcomes = list(threads.map(self._tell_all, due.values()))
        return sum(self._note(store, *outcome) for each in outcomes for outcome in each)

    def _run(self) -> None:
        while not self._leave.is_set():
            heard = 0
            try:
                heard = self.tick()
            except Unavailable:
                self._let_go()
            except Exception:
                # A thread that ends silently would leave every webhook in the dark.
                logging.getLogger(__name__).exception("notices are in trouble")
            if not heard:
                self._leave.wait(limits.POLL_MS / 1_000)

    def _tell_all(self, deliveries: Sequence[Delivery]) -> list[tuple[Delivery, str]]:
        """(delivery, why it was not heard or "") of each that was tried; the rest come again."""
        outcomes: list[tuple[Delivery, str]] = []
        for delivery in deliveries:
            body = msgspec.json.encode(told(delivery))
            try:
                self._post(delivery.url, body, signed(delivery, body, int(time.time())))
            except NotHeard as error:
                return [*outcomes, (delivery, str(error) or "not heard")]
            outcomes.append((delivery, ""))
        return outcomes

    def _note(self, store: Store, delivery: Delivery, error: str) -> bool:
        """Whether it was heard. Who has not heard for two days is not there."""
        if not error:
            self._rests.pop(delivery.webhook, None)
            store.delivered(delivery)
            return True
        after_ms = _after_ms(delivery.tries)
        self._rests[delivery.webhook] = time.monotonic() + min(after_ms, REST_MAX_MS) / 1_000
        if store.now_ms() - delivery.at_ms > limits.NOTICE_KEPT_MS:
            store.delivered(delivery)
        else:
            store.delivered(delivery, error=error, after_ms=after_ms)
        return False

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
    if not url.startswith(("https://", "http://")):
        raise NotHeard("its address is not of the web")
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
