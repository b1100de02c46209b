"""A name from a trusted proxy: read off a request before anybody else sees it."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ..core import limits
from .access import Proxied, Proxy


class NamesFromProxy:
    """Keeps the header's name where it may be believed, as `request.state.proxied`."""

    def __init__(self, app: ASGIApp, proxy: Proxy) -> None:
        self._app, self._proxy = app, proxy
        self._header = proxy.header.lower().encode("latin-1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope.get("client") or ("",))[0] in self._proxy.addresses:
            names = [value for name, value in scope["headers"] if name == self._header]
            # Two of them: one may have come from outside.
            if len(names) == 1 and (name := names[0].decode("latin-1").strip()):
                told = Proxied(name[: limits.NAME_CHARACTERS])
                scope.setdefault("state", {})["proxied"] = told
        await self._app(scope, receive, send)
