"""Forms: what a browser sends, and whether it is one of our own pages that sends it.

Two things are asked of each form. It repeats the token that only we could read from the cookie we
set; and the browser itself does not say that another site sends it. The first alone falls to
another port of this host, which may set cookies for ours; the second alone, to an old browser.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request

from ...core import limits
from ...core.errors import Forbidden, UsageError
from ..exchange import body_of

COOKIE = "outlast_form"
FIELD = "form_token"
FORM_BYTES = limits.PAYLOAD_BYTES + (1 << 16)
FIELDS_MAX = 20


class NotOurForm(Forbidden):
    """The form was not sent from a page of this server, as far as can be known."""


def form_token(request: Request) -> str:
    """The token that forms of this browser repeat; a new one where it has none."""
    kept = request.cookies.get(COOKIE, "")
    return kept if len(kept) == 64 and kept.isalnum() and kept.isascii() else secrets.token_hex(32)


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form. Raises NotOurForm, UsageError, PayloadTooLarge, TooSlow."""
    _must_come_from_here(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise UsageError(f"a form is not sent as {kind!r:.60}; nothing was written")
    body = await body_of(request, FORM_BYTES)
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError as error:
        raise UsageError(f"the form cannot be read ({error}); nothing was written") from error
    fields = dict(pairs)
    sent, kept = fields.pop(FIELD, ""), request.cookies.get(COOKIE, "")
    if not kept or not hmac.compare_digest(sent.encode(), kept.encode()):
        raise NotOurForm(
            "the form does not carry the token of this browser; nothing was written. Load the page "
            "again, with cookies allowed, and send it from there"
        )
    return fields


def _must_come_from_here(request: Request) -> None:
    """Raises NotOurForm where the browser says that another site sends this."""
    site = request.headers.get("sec-fetch-site", "")
    # Under our Referrer-Policy a browser says the origin "null" of our own forms, too.
    origin = request.headers.get("origin", "null")
    foreign = origin != "null" and urlsplit(origin).netloc != request.headers.get("host", "")
    if site not in ("", "same-origin", "none") or foreign:
        raise NotOurForm("the form was sent from another site; nothing was written")
