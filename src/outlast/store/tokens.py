"""Verbs on API tokens."""

from __future__ import annotations

from msgspec.structs import asdict

from ..core import limits
from ..core.errors import UnknownToken
from ..core.model import NewToken, Token
from ..core.text import checked, named
from .base import Verbs, patient
from .verbs import Order


class TokenVerbs(Verbs):
    """Who may ask a server, and for what."""

    @patient
    def add_token(self, token: NewToken, order: Order) -> Token:
        named("the token's name", token.name)
        checked("who asks", order.by)
        with self.database.transaction() as session:
            session.run("insert_token", **asdict(token), by=order.by)
        return self.token(token.id)

    def token(self, token_id: str) -> Token:
        rows = self.database.once("get_token", token_id=checked("the token's id", token_id))
        if not rows:
            raise UnknownToken(token_id)
        return Token(**rows[0])

    def tokens(self) -> list[Token]:
        return [Token(**row) for row in self.database.once("all_tokens", limit=limits.TOKENS)]

    @patient
    def revoke_token(self, token_id: str, order: Order) -> Token:
        by = f"{order.by}: {order.why}" if order.why else order.by
        with self.database.transaction() as session:
            session.run("revoke_token", token_id=token_id, by=checked("who asks", by, 4_000))
        return self.token(token_id)
