"""`outlast webhook add|list|remove`: who is told when something happens to a task."""

from __future__ import annotations

import secrets
from typing import Any

import click

from ..core.model import NewWebhook, Webhook
from ..core.news import NEWS
from .options import Session, by_option, common
from .output import printable, rfc3339


@click.group("webhook")
def webhook() -> None:
    """Webhooks: `outlast serve` tells them, signed, until they have heard it."""


@webhook.command("add")
@click.argument("url")
@click.option("--news", multiple=True, type=click.Choice(NEWS), help="Of what; of all by default.")
@by_option
@common
def add(session: Session, url: str, news: tuple[str, ...], by: str | None) -> int:
    """Tell URL, and print the secret that signs what it is told: it is shown this once."""
    kept = NewWebhook(secrets.token_hex(4), url, news or NEWS, secrets.token_hex(32))
    order = session.order("added on the command line", by)
    added = session.ask(lambda store: store.add_webhook(kept, order), create=True)
    shape = webhook_shape(added) | {"secret": kept.secret}
    session.output.one(shape, lambda: kept.secret)
    session.output.note(f"webhook {added.id}: {printable(url)} is told of {added.news}")
    return 0


@webhook.command("list")
@common
def list_webhooks(session: Session) -> int:
    """List webhooks, and what they have not heard yet."""
    found = session.ask(lambda store: store.webhooks())
    session.output.items(map(webhook_shape, found), lambda: _table(found), name="id")
    if not found:
        session.output.note("No webhooks")
    return 0


@webhook.command("remove")
@click.argument("webhook_id")
@common
def remove(session: Session, webhook_id: str) -> int:
    """Tell it nothing more, nor what it has not heard yet."""
    session.ask(lambda store: store.remove_webhook(webhook_id))
    session.output.one({"id": webhook_id}, lambda: f"webhook {webhook_id} is removed")
    return 0


def webhook_shape(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.id,
        "url": webhook.url,
        "news": webhook.news.split(","),
        "created_by": webhook.created_by,
        "created_at": rfc3339(webhook.created_ms),
        "behind": webhook.behind,
        "error": webhook.error,
    }


def _table(found: list[Webhook]) -> list[list[str]]:
    rows = [["WEBHOOK", "URL", "NEWS", "BEHIND", "ERROR"]]
    for each in found:
        error = printable(each.error or "-", 60)
        rows.append([each.id, printable(each.url, 60), each.news, str(each.behind), error])
    return rows
