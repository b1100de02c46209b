"""`/store/<verb>`: the store's verbs for workers that have no database of their own to reach."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..core.errors import OutlastError, PayloadTooLarge, UsageError
from ..core.model import Event
from ..store.messages import PAGE_BYTES, REQUEST_BYTES, Message, messages, problem
from ..store.verbs import Store
from .desk import Desk

BEATS = frozenset({"renew", "now_ms"})


class NoSuchVerb(UsageError):
    """The store has no such verb, or it cannot be asked from afar."""

    http_status = 404


class StoreApi:
    """Answers POST /store/<verb>: the request's JSON names the arguments, the answer is JSON."""

    def __init__(self, beats: Desk, rest: Desk) -> None:
        self._beats, self._rest = beats, rest

    async def answer(self, request: Request) -> Response:
        """Any OutlastError is told as a `Problem`."""
        try:
            message = _message(request.path_params["verb"])
            arguments = _unpacked(message, await body_of(request, REQUEST_BYTES))
            desk = self._beats if message.verb in BEATS else self._rest
            answer = await desk.ask(lambda store: _asked(store, message.verb, arguments))
        except OutlastError as error:
            return as_response(error)
        return json_response(answer)


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


async def body_of(request: Request, limit: int) -> bytes:
    """The body, which is not read beyond the limit. Raises PayloadTooLarge."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise PayloadTooLarge("the request", int(declared), limit)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise PayloadTooLarge("the request", size, limit)
        parts.append(part)
    return b"".join(parts)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def as_response(error: OutlastError) -> Response:
    return json_response(problem(error), error.http_status)
