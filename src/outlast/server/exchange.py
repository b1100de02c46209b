"""What every handler needs of a request and its answer: the token, the body, JSON, problems."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..core import limits
from ..core.errors import NotSignedIn, OutlastError, PayloadTooLarge, UsageError
from ..store.messages import problem

COOKIE = "outlast_token"


class NotJson(UsageError):
    """A page of another site can have a browser send any text, but not as JSON."""

    http_status = 415


class TooSlow(UsageError):
    """Who sends a request must come to its end."""

    http_status = 408


def sent_token(request: Request) -> str:
    """The token of a program (Authorization) or of a browser (cookie), or the name that a trusted
    proxy gave; "" for none of them."""
    proxied = getattr(request.state, "proxied", "")
    return bearer(request) or request.cookies.get(COOKIE, "") or proxied


def bearer(request: Request) -> str:
    """The token of the Authorization header, "" for none. Raises NotSignedIn for another scheme."""
    header = request.headers.get("authorization", "")
    scheme, _, token = header.partition(" ")
    if header and scheme.lower() != "bearer":
        raise NotSignedIn("the Authorization header holds no Bearer token")
    return token.strip()


async def json_of(request: Request, limit: int) -> bytes:
    """A body that says it is JSON. Raises NotJson, and as `body_of`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise NotJson(f"send application/json, not {kind or 'nothing'}; nothing was done")
    return await body_of(request, limit)


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


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def json_bytes(encoded: bytes) -> Response:
    return Response(encoded, media_type="application/json")


def as_response(error: OutlastError) -> Response:
    return json_response(problem(error), error.http_status)
