"""The store in SQL: every verb one transaction (or one a task), on SQLite and PostgreSQL alike."""

from __future__ import annotations

from .effects import EffectVerbs
from .leases import LeaseVerbs
from .log import LogVerbs
from .tasks import TaskVerbs
from .tokens import TokenVerbs
from .upkeep import UpkeepVerbs, WorkerVerbs
from .webhooks import WebhookVerbs


class SqlStore(
    TaskVerbs,
    LeaseVerbs,
    LogVerbs,
    EffectVerbs,
    WorkerVerbs,
    TokenVerbs,
    WebhookVerbs,
    UpkeepVerbs,
):
    """All verbs of `verbs.Store`, a noun a file."""
