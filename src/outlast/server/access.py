"""Access: who asks, by which token, and what that role may do.

A token reads `ol_ID_SECRET`. The store knows its id and the digest of its secret; what is sent is
compared in constant time. A server on loopback lets everybody in as admin unless it was told to ask
for tokens; any other address asks always.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping

import msgspec

from ..core.errors import Forbidden, NotSignedIn, UnknownToken
from ..core.model import NewToken, Role, Token
from ..store.verbs import Store

PREFIX = "ol"
# What stands for a token where a proxy vouched: orders are then under the name that it gave.
PROXIED = "proxy"
# How long an answer about a token is believed: a revoked one is turned away after that at most.
BELIEVED_S = 2.0
REMEMBERED = 1_000

READ = frozenset(
    {
        "get",
        "find",
        "signals",
        "read",
        "last",
        "granted",
        "stands",
        "find_effects",
        "observations",
        "worker",
        "workers",
        "counts",
        "paused",
        "version",
        "now_ms",
        "checkup",
    }
)
ORDERS = frozenset(
    {"submit", "cancel", "signal", "retry", "revoke", "settle", "order_drain", "pause", "unpause"}
)
OWNERS = frozenset(
    {
        "enlist",
        "claim",
        "renew",
        "look",
        "reap",
        "crash",
        "retire",
        "append",
        "begin",
        "stands",
        "read",
        "last",
        "get",
        "signals",
        "observe",
        "find_effects",
        "version",
        "now_ms",
    }
)
KEEPING = frozenset(
    {
        "prune", "add_token", "token", "tokens", "revoke_token", "add_webhook", "webhooks",
        "remove_webhook", "take_deliveries", "delivered",
    }
)  # fmt: skip
ALLOWED: Mapping[Role, frozenset[str]] = {
    "viewer": READ,
    "operator": READ | ORDERS,
    "worker": OWNERS,
    "admin": READ | ORDERS | OWNERS | KEEPING,
}


class Identity(msgspec.Struct, frozen=True):
    """Who asks. `token`: the id of the token, "" where none was needed."""

    name: str
    role: Role
    token: str = ""

    def may(self, verb: str) -> bool:
        return verb in ALLOWED[self.role]

    def must(self, verb: str) -> None:
        """Raises Forbidden."""
        if not self.may(verb):
            raise Forbidden(
                f"{self.name} has the role {self.role}, which does not include {verb!r}; nothing "
                "was done"
            )


NOBODY_ELSE = Identity("somebody on this machine", "admin")


def must_be_no_worker(who: Identity) -> None:
    """Of what people and programs may see a worker's token opens nothing. Raises Forbidden."""
    if who.role == "worker":
        raise Forbidden(
            f"{who.name} has the role worker, which is for /store alone, and there for its own "
            "leases; nothing was done"
        )


def new_token(name: str, role: Role, lasts_ms: int | None) -> tuple[NewToken, str]:
    """(what the store keeps, the token itself, which is shown once)."""
    token_id, secret = secrets.token_hex(4), secrets.token_hex(32)
    kept = NewToken(token_id, name, role, _digest(secret), lasts_ms)
    return kept, f"{PREFIX}_{token_id}_{secret}"


class Proxy(msgspec.Struct, frozen=True):
    """A proxy that has asked people who they are (OIDC, say), and tells us in a header.

    Believed only where the connection comes from one of these addresses. `role`: what all of them
    may do here.
    """

    header: str
    role: Role
    addresses: frozenset[str]


class Proxied(str):
    """A name that came from a trusted proxy; no token reads like this type."""

    __slots__ = ()


class Gate:
    """Turns a token into an identity; what the store said of it is believed for two seconds."""

    def __init__(self, asks_for_tokens: bool, proxy: Proxy | None = None) -> None:
        self.asks_for_tokens, self._proxy = asks_for_tokens, proxy
        self._known: dict[str, tuple[float, Token]] = {}

    def identity(self, store: Store, text: str) -> Identity:
        """Raises NotSignedIn. `text`: the token as it was sent, "" for none."""
        self.must_be_sent(text)
        if isinstance(text, Proxied) and self._proxy is not None:
            return Identity(str(text), self._proxy.role, PROXIED)
        if not text:
            return NOBODY_ELSE
        token_id, _, secret = text.removeprefix(f"{PREFIX}_").partition("_")
        token = self._look_up(store, token_id)
        # Compared even where there is no such token, so that its time tells nothing.
        is_right = hmac.compare_digest(_digest(secret), token.digest if token else _digest(""))
        if token is None or not is_right:
            raise NotSignedIn("the token is not one of this store's")
        if token.revoked_ms is not None:
            raise NotSignedIn(f"the token {token.id} was revoked by {token.revoked_by}")
        if token.expires_ms is not None and token.expires_ms <= store.now_ms():
            raise NotSignedIn(f"the token {token.id} has expired")
        return Identity(token.name, token.role, token.id)

    def must_be_sent(self, text: str) -> None:
        """Raises NotSignedIn where a token is needed and none was sent."""
        if self.asks_for_tokens and not text:
            raise NotSignedIn("this server asks for a token, and none was sent")

    def _look_up(self, store: Store, token_id: str) -> Token | None:
        now_s = time.monotonic()
        seen = self._known.get(token_id)
        if seen is not None and now_s - seen[0] < BELIEVED_S:
            return seen[1]
        try:
            token = store.token(token_id)
        except UnknownToken:
            return None
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[token_id] = (now_s, token)
        return token


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
