"""Verbs on webhooks and on what is still to be told to them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from ..core import limits
from ..core.errors import UnknownWebhook, UsageError
from ..core.model import Delivery, NewWebhook, Webhook
from ..core.news import NEWS
from ..core.text import checked
from .base import Verbs, patient
from .database import Row, Session
from .verbs import Order
from .writing import task_of


class WebhookVerbs(Verbs):
    """Who is told of what."""

    @patient
    def add_webhook(self, webhook: NewWebhook, order: Order) -> Webhook:
        if not webhook.news or set(webhook.news) - set(NEWS):
            raise UsageError(f"news are some of {', '.join(NEWS)}; nothing was written")
        checked("the URL", webhook.url, limits.REASON_CHARACTERS)
        _check_address(webhook.url)
        with self.database.transaction() as session:
            session.run(
                "insert_webhook",
                id=webhook.id,
                url=webhook.url,
                news=",".join(webhook.news),
                secret=webhook.secret,
                by=checked("who asks", order.by),
            )
        return next(each for each in self.webhooks() if each.id == webhook.id)

    def webhooks(self) -> list[Webhook]:
        return [Webhook(**row) for row in self.database.once("all_webhooks")]

    @patient
    def remove_webhook(self, webhook_id: str) -> None:
        with self.database.transaction() as session:
            if not session.run("delete_webhook", webhook=webhook_id):
                raise UnknownWebhook(webhook_id)
            session.run("delete_deliveries_to", webhook=webhook_id)

    @patient
    def take_deliveries(
        self, *, limit: int, for_ms: int, resting: Sequence[str] = ()
    ) -> list[Delivery]:
        found: list[Delivery] = []
        for webhook in self.webhooks():
            if webhook.id not in resting:
                with self.database.transaction() as session:
                    rows = session.run(
                        "take_deliveries", webhook=webhook.id, limit=limit, for_ms=for_ms
                    )
                    found += [each for row in rows if (each := _delivery(session, row))]
        return found

    @patient
    def delivered(self, delivery: Delivery, *, error: str = "", after_ms: int = 0) -> None:
        named = {"webhook": delivery.webhook, "task_id": delivery.task_id, "seq": delivery.seq}
        with self.database.transaction() as session:
            if error:
                told = error[: limits.REASON_CHARACTERS]
                session.run("not_delivered", **named, error=told, after_ms=after_ms)
            else:
                session.run("delivered", **named)


def _check_address(url: str) -> None:
    """Raises UsageError."""
    parts = urlsplit(url)
    here = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and here):
        raise UsageError(
            f"{url!r:.100} is no https:// address; nothing was added. Plain http is for this "
            "machine alone: anybody on the way could read it, and say that he has heard"
        )


def _delivery(session: Session, row: Row) -> Delivery | None:
    """None: the webhook was removed in this very moment."""
    whom = session.run("webhook_of", webhook=row["webhook"])
    if not whom:
        return None
    task = session.run("get_task", task_id=row["task_id"])
    return Delivery(**row, **whom[0], task=task_of(task[0]) if task else None)
