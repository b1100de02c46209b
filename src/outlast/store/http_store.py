"""A store behind an Outlast server: each verb one POST, on a connection that is kept.

What was sent and not answered raises Unavailable; as with a database, every request may be sent
again as it was, since it names what it makes.
"""

from __future__ import annotations

import http.client
import select
import ssl
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from ..core import limits
from ..core.errors import BadSetting, Unavailable, UsageError
from ..core.model import Answer, Event, Offer
from .messages import PAGE_BYTES, Problem, messages, rebuilt
from .verbs import Finding, HintsCome

PATH = "/store/"
# The server was too busy, or gave up waiting: nothing was begun, ask again.
NOT_NOW = frozenset({408, 429, 503})


class HttpStore:
    """The verbs of `Store`, for one thread; made from the protocol, so their names are not here."""

    def __init__(self, url: str, ttl_ms: int = limits.TTL_MS) -> None:
        """`url`: https://[TOKEN@]HOST[:PORT][/PREFIX]. Connects with the first verb.

        `ttl_ms`: no answer is waited for longer than a beat of such a lease.
        """
        seconds = max(limits.HTTP_TIMEOUT_MIN_S, ttl_ms / 1_000 / limits.BEATS_PER_TTL)
        self._address = Address(url, seconds)
        self._open: http.client.HTTPConnection | None = None

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb not in messages():
            raise AttributeError(verb)

        def ask(*args: Any, **named: Any) -> Any:
            return self.ask(verb, args, named)

        return ask

    # -- verbs that travel in pieces, or not at all -----------------------------------------------

    def append(self, offers: Sequence[Offer]) -> list[Answer]:
        """In batches that a request can hold: offers stand or fall alone."""
        answers: list[Answer] = []
        batch: list[Offer] = []
        for offer in offers:
            if batch and sum(map(_size, batch)) + _size(offer) > PAGE_BYTES:
                answers += self.ask("append", (batch,))
                batch = []
            batch.append(offer)
        return answers + (self.ask("append", (batch,)) if batch else [])

    def read(self, task_id: str, *, after: int = 0, limit: int = limits.READ_BATCH) -> list[Event]:
        """Page by page: a server ends a page early that would become too large."""
        found: list[Event] = []
        while len(found) < limit:
            room = limit - len(found)
            page: list[Event] = self.ask("read", (task_id,), {"after": after, "limit": room})
            found += page
            if len(page) == room or sum(len(event.body) for event in page) < PAGE_BYTES:
                break
            after = page[-1].seq
        return found

    def checkup(self, *, tasks: int = 1_000) -> list[Finding]:
        findings: list[Finding] = self.ask("checkup", (), {"tasks": tasks})
        return findings

    def transact(self, work: Callable[[Any], Offer]) -> Answer:
        raise UsageError(
            "a transaction joins the store's own, and this worker reaches its store over HTTP; "
            "nothing was run. Use ctx.effect, or start the worker with the database's own URL"
        )

    def hinted(self) -> bool:
        return False

    def hints_come(self, worker_id: str) -> HintsCome:
        return HintsCome()

    def close(self) -> None:
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    # -- one request ------------------------------------------------------------------------------

    def ask(self, verb: str, args: Sequence[Any] = (), named: dict[str, Any] | None = None) -> Any:
        """The answer of a verb. Raises Unavailable, and whatever the verb raises."""
        message = messages()[verb]
        try:
            body = message.pack(args, named or {})
        except UnicodeEncodeError as error:
            raise UsageError(
                f"{verb}: half a surrogate pair cannot be sent; nothing was written"
            ) from error
        status, answer = self._exchange(PATH + verb, body)
        try:
            if status == 200:
                return msgspec.json.decode(answer, type=message.answer)
            problem = rebuilt(msgspec.json.decode(answer, type=Problem))
            if status in NOT_NOW and not isinstance(problem, Unavailable):
                raise Unavailable(self._address.shown, str(problem))
            raise problem
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.close()
            why = f"it answered {status} with something that is no answer of Outlast ({error})"
            raise Unavailable(self._address.shown, why) from error

    def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        connection = self._connection()
        try:
            connection.request("POST", self._address.prefix + path, body, self._address.headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            why = str(error) or type(error).__name__
            raise Unavailable(self._address.shown, why) from error
        except BaseException:
            self.close()  # in the middle of an answer: the next one must not read its rest
            raise

    def _connection(self) -> http.client.HTTPConnection:
        if self._open is not None and _has_been_closed(self._open):
            self.close()
        if self._open is None:
            self._open = self._address.connection()
        return self._open


class Address:
    """Where a server is, and what is said to it with each request. Raises BadSetting."""

    def __init__(self, url: str, timeout_s: float) -> None:
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise BadSetting(f"the store's URL has no port that can be ({error})") from error
        if parts.scheme not in ("http", "https") or not host:
            raise BadSetting("a store over HTTP is https://HOST[:PORT]; nothing was opened")
        self._timeout_s = timeout_s
        self._host, self._port, self._is_tls = host, port, parts.scheme == "https"
        self.prefix = parts.path.rstrip("/")
        self.shown = f"{parts.scheme}://{host}{f':{port}' if port else ''}{self.prefix}"
        self.headers = {"Content-Type": "application/json"}
        token = unquote(parts.username or "").strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise BadSetting(
                "the token for this server (OUTLAST_TOKEN, or before the host in its URL) is none; "
                "nothing was opened"
            )
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def connection(self) -> http.client.HTTPConnection:
        where: Any = {"host": self._host, "port": self._port, "timeout": self._timeout_s}
        if self._is_tls:
            return http.client.HTTPSConnection(**where, context=ssl.create_default_context())
        return http.client.HTTPConnection(**where)


def _has_been_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has let go of a connection that we kept: its end can then be read.

    Asked before a request, so that none is lost on a connection that nobody listens to.
    """
    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def _size(offer: Offer) -> int:
    return sum(len(entry.event.body) for entry in offer.entries)
