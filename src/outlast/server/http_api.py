"""`/api/v1` over HTTP: requests are read into what operations take, and answers written as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_origin

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.clock import Env
from ..core.errors import UsageError
from ..store.messages import REQUEST_BYTES
from ..store.verbs import Store
from .access import Gate, must_be_no_worker
from .api import OPERATIONS, Operation
from .desk import Desk
from .exchange import json_bytes, json_of, json_response, sent_token
from .openapi import document

BASE = "/api/v1"


class HttpApi:
    """The routes of `OPERATIONS`, and of the document that describes them."""

    def __init__(self, gate: Gate, desk: Desk, env: Env, version: str) -> None:
        self._gate, self._desk, self._env = gate, desk, env
        self._document = document(BASE, version)

    def routes(self) -> list[Route]:
        made = [
            Route(BASE + each.path, self._answer(each), methods=[each.method])
            for each in OPERATIONS.values()
        ]
        return [*made, Route(f"{BASE}/openapi.json", self._describe)]

    def _answer(self, operation: Operation) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            token = sent_token(request)
            self._gate.must_be_sent(token)
            body = await json_of(request, REQUEST_BYTES) if operation.method == "POST" else b""

            def carry_out(store: Store) -> Any:
                who = self._gate.identity(store, token)
                who.must(operation.verb)
                must_be_no_worker(who)
                asked = _asked(operation, request, body)
                # Written here, not on the event loop, which has heartbeats to pass on.
                return msgspec.json.encode(operation.carry_out(store, self._env, who, asked))

            return json_bytes(await self._desk.ask(carry_out))

        return answer

    async def _describe(self, _: Request) -> Response:
        return json_response(self._document)


def _asked(operation: Operation, request: Request, body: bytes) -> Any:
    """What the operation takes, from path, query and body. Raises UsageError."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any]) if body else {}
        for name, values in _query(request).items():
            fields[name] = values if _is_list(operation.takes, name) else values[-1]
        for name, value in request.path_params.items():
            if name in fields:
                raise UsageError(f"{name} stands in the path already; nothing was done")
            fields[name] = value
        # Texts of a query stand for numbers; in a body they do not.
        return msgspec.convert(fields, operation.takes, strict=operation.method == "POST")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{operation.path}: {error}; nothing was done") from error


def _query(request: Request) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        found.setdefault(name, []).append(value)
    return found


def _is_list(takes: type[msgspec.Struct], name: str) -> bool:
    kinds = {field.name: field.type for field in msgspec.structs.fields(takes)}
    return get_origin(kinds.get(name)) is list
