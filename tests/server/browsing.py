"""A browser without JavaScript: it keeps cookies, sends forms, and reads what is on a page."""

from __future__ import annotations

import html
import re
from http.cookies import SimpleCookie
from urllib.parse import urlencode

import msgspec

from tests.server.conftest import Served


class Seen(msgspec.Struct, frozen=True):
    """An answer; `text` is what a reader sees of it."""

    status: int
    headers: dict[str, str]
    html: str

    @property
    def text(self) -> str:
        body = re.sub(r"<(script|style|title)\b.*?</\1>", " ", self.html, flags=re.S)
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())

    @property
    def links(self) -> list[str]:
        return [html.unescape(link) for link in re.findall(r'<a [^>]*?href="([^"]*)"', self.html)]

    def row(self, name: str) -> str:
        """The text of the table's row with this id."""
        found = re.search(rf'<tr id="{re.escape(name)}">.*?</tr>', self.html, re.S)
        assert found is not None, f"no row {name}"
        return Seen(0, {}, found[0]).text


class Browser:
    """One person's browser before a server."""

    def __init__(self, served: Served, token: str = "") -> None:
        self.served = served
        self.cookies: dict[str, str] = {"outlast_token": token} if token else {}

    def get(self, path: str, **headers: str) -> Seen:
        return self._ask("GET", path, b"", headers)

    def send(self, path: str, fields: dict[str, str], **headers: str) -> Seen:
        """Load a form and send it, filled in so."""
        page = self.get(path)
        hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', page.html)
        filled = {name: html.unescape(value) for name, value in hidden} | fields
        return self.post(path, filled, **headers)

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Seen:
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._ask("POST", path, urlencode(fields).encode(), kind | headers)

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Seen:
        kept = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = headers | ({"Cookie": kept} if kept else {})
        status, told, answer = self.served.request(method, path, body, **headers)
        for name, morsel in SimpleCookie(told.get("set-cookie", "")).items():
            self.cookies[name] = morsel.value
        return Seen(status, told, answer.decode())
