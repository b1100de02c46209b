"""`/store/<verb>`: the store's verbs for workers that have no database of their own to reach."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..core.errors import UsageError
from ..core.model import Event
from ..store.messages import PAGE_BYTES, REQUEST_BYTES, Message, messages
from ..store.verbs import Store
from .access import Gate
from .desk import Desk
from .exchange import bearer, json_bytes, json_of
from .guard import Guard

SMALL_BYTES = 1 << 16
BEATS = frozenset({"renew", "now_ms"})


class NoSuchVerb(UsageError):
    """The store has no such verb, or it cannot be asked from afar."""

    http_status = 404


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
        if _size(request) > SMALL_BYTES:  # not for just anybody is so much kept
            await self._rest.ask(lambda store: self._gate.identity(store, token))
        body = await json_of(request, REQUEST_BYTES)

        def carry_out(store: Store) -> bytes:
            who = self._gate.identity(store, token)
            who.must(message.verb)
            allowed = self._guard.check(store, who, message.verb, _unpacked(message, body))
            # Written here, not on the event loop, which has heartbeats to pass on.
            return msgspec.json.encode(_asked(store, message.verb, allowed))

        desk = self._beats if message.verb in BEATS else self._rest
        return json_bytes(await desk.ask(carry_out))


def _size(request: Request) -> int:
    """What is declared; more than anything, where nothing is."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else REQUEST_BYTES


def _message(verb: str) -> Message:
    try:
        return messages()[verb]
    except KeyError:
        raise NoSuchVerb(f"the store has no verb {verb!r}; nothing was written") from None


def _unpacked(message: Message, body: bytes) -> dict[str, Any]:
    try:
        return message.unpack(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
