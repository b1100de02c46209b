"""`outlast token create|list|revoke`: who may ask a server over HTTP, and for what."""

from __future__ import annotations

from typing import Any, get_args

import click

from ..core.durations import duration_ms
from ..core.model import Role, Token
from .options import Session, by_option, common
from .output import age, printable, rfc3339

ROLES = get_args(Role)


@click.group("token")
def token() -> None:
    """Tokens for the server. They are kept in the store, as digests."""


@token.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option("--expires", default="90d", show_default=True, metavar="TIME", help="`never`, too.")
@by_option
@common
def create(session: Session, name: str, role: Role, expires: str, by: str | None) -> int:
    """Make a token for NAME and print it: it is shown this once.

    viewer reads, operator gives orders too, worker runs agents, admin does everything.
    """
    from ..server.access import new_token

    lasts_ms = None if expires == "never" else duration_ms(expires, "--expires")
    kept, secret = new_token(name, role, lasts_ms)
    order = session.order("made on the command line", by)
    made = session.ask(lambda store: store.add_token(kept, order), create=True)
    session.output.one(token_shape(made) | {"token": secret}, lambda: secret)
    session.output.note(
        f"token {made.id} of {printable(name)}: {role}, "
        f"expires {rfc3339(made.expires_ms) or 'never'}. It is not shown again"
    )
    return 0


@token.command("list")
@common
def list_tokens(session: Session) -> int:
    """List tokens, the newest first; their secrets are nowhere."""
    found, now_ms = session.ask(lambda store: (store.tokens(), store.now_ms()))
    session.output.items(map(token_shape, found), lambda: _table(found, now_ms), name="id")
    if not found:
        session.output.note("No tokens")
    return 0


@token.command("revoke")
@click.argument("token_id")
@click.option("--reason", metavar="WHY", default="revoked on the command line")
@by_option
@common
def revoke(session: Session, token_id: str, reason: str, by: str | None) -> int:
    """Make a token good for nothing; servers notice within two seconds."""
    order = session.order(reason, by)
    revoked = session.ask(lambda store: store.revoke_token(token_id, order))
    session.output.one(token_shape(revoked), lambda: f"token {revoked.id} is revoked")
    return 0


def token_shape(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "role": token.role,
        "created_by": token.created_by,
        "created_at": rfc3339(token.created_ms),
        "expires_at": rfc3339(token.expires_ms),
        "revoked_by": token.revoked_by,
        "revoked_at": rfc3339(token.revoked_ms),
    }


def _table(found: list[Token], now_ms: int) -> list[list[str]]:
    rows = [["TOKEN", "NAME", "ROLE", "MADE", "STATE"]]
    for each in found:
        made = f"{age(now_ms - each.created_ms)} ago by {printable(each.created_by, 40)}"
        rows.append([each.id, printable(each.name, 40), each.role, made, _state(each, now_ms)])
    return rows


def _state(token: Token, now_ms: int) -> str:
    if token.revoked_ms is not None:
        return f"revoked by {printable(token.revoked_by or '?', 60)}"
    if token.expires_ms is None:
        return "good for ever"
    left_ms = token.expires_ms - now_ms
    return f"good for {age(left_ms)}" if left_ms > 0 else f"expired {age(-left_ms)} ago"
