"""`/store/<verb>`: the store's verbs for workers that have no database of their own to reach."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..core import limits
from ..core.errors import NotSignedIn, OutlastError, PayloadTooLarge, UsageError
from ..core.model import Event
from ..store.messages import PAGE_BYTES, REQUEST_BYTES, Message, messages, problem
from ..store.verbs import Store
from .access import Gate
from .desk import Desk
from .guard import Guard

BEATS = frozenset({"renew", "now_ms"})


class NoSuchVerb(UsageError):
    """The store has no such verb, or it cannot be asked from afar."""

    http_status = 404


class TooSlow(UsageError):
    """Who sends a request must come to its end."""

    http_status = 408


class StoreApi:
    """Answers POST /store/<verb>: the request's JSON names the arguments, the answer is JSON."""

    def __init__(self, gate: Gate, beats: Desk, rest: Desk) -> None:
        self._gate, self._guard = gate, Guard()
        self._beats, self._rest = beats, rest

    async def answer(self, request: Request) -> Response:
        """Any OutlastError is told as a `Problem`."""
        token = bearer(request)
        self._gate.must_be_sent(token)  # before anything of it is read
        message = _message(request.path_params["verb"])
        body = await body_of(request, REQUEST_BYTES)

        def carry_out(store: Store) -> Any:
            who = self._gate.identity(store, token)
            who.must(message.verb)
            allowed = self._guard.check(store, who, message.verb, _unpacked(message, body))
            return _asked(store, message.verb, allowed)

        desk = self._beats if message.verb in BEATS else self._rest
        return json_response(await desk.ask(carry_out))


def _message(verb: str) -> Message:
    try:
        return messages()[verb]
    except KeyError:
        raise NoSuchVerb(f"the store has no verb {verb!r}; nothing was written") from None


def _unpacked(message: Message, body: bytes) -> dict[str, Any]:
    try:
        return message.unpack(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{message.verb}: the request is not what the verb takes ({error}); nothing was written"
        ) from error


def _asked(store: Store, verb: str, arguments: dict[str, Any]) -> Any:
    answer = getattr(store, verb)(**arguments)
    if verb == "read":
        return _page(answer)
    return list(answer) if verb == "checkup" else answer


def _page(events: list[Event]) -> list[Event]:
    """As many events as a page can hold, at least one."""
    size = 0
    for count, event in enumerate(events, 1):
        size += len(event.body)
        if size >= PAGE_BYTES:
            return events[:count]
    return events


def bearer(request: Request) -> str:
    """The token of the Authorization header, "" for none. Raises NotSignedIn for another scheme."""
    header = request.headers.get("authorization", "")
    scheme, _, token = header.partition(" ")
    if header and scheme.lower() != "bearer":
        raise NotSignedIn("the Authorization header holds no Bearer token")
    return token.strip()


async def body_of(request: Request, limit: int) -> bytes:
    """The body, read neither beyond the limit nor for ever. Raises PayloadTooLarge, TooSlow."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise PayloadTooLarge("the request", int(declared), limit)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.REQUEST_S):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise PayloadTooLarge("the request", size, limit)
                parts.append(part)
    except TimeoutError:
        raise TooSlow(
            f"the request did not come to its end in {limits.REQUEST_S:g} s; nothing was written"
        ) from None
    return b"".join(parts)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def as_response(error: OutlastError) -> Response:
    return json_response(problem(error), error.http_status)
