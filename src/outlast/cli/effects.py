"""`outlast effects` and `outlast settle`: what was done to the world, and what nobody knows."""

from __future__ import annotations

import click

from ..core import limits
from ..core.durations import duration_ms
from ..core.errors import BadSetting, NotAllowedNow, UnknownEffect
from ..core.model import IN_DOUBT, Effect
from ..store.verbs import EffectQuery, Store
from ..view.shapes import effect_shape, json_value
from .options import Session, by_option, common, dry_run_option
from .output import age, printable


@click.command("effects")
@click.option("--unknown", is_flag=True, help="Only those whose outcome nobody knows.")
@click.option("--task", "task_id", metavar="TASK", help="Only those of this task.")
@click.option("--key", metavar="KEY", help="Only the one with this idempotency key.")
@click.option("--since", metavar="TIME", help="Only those begun in the last TIME.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=limits.LIST_ROWS, show_default=True
)
@common
def effects(
    session: Session,
    unknown: bool,
    task_id: str | None,
    key: str | None,
    since: str | None,
    limit: int,
) -> int:
    """List what tasks did, or may have done, to the outside world, newest first."""
    since_ms = None if since is None else duration_ms(since, "--since")

    def look(store: Store) -> tuple[list[Effect], int]:
        task = store.get(task_id).id if task_id else None
        query = EffectQuery(task_id=task, key=key, in_doubt=unknown, limit=limit)
        return store.find_effects(query), store.now_ms()

    found, now_ms = session.ask(look)
    if since_ms is not None:
        found = [effect for effect in found if now_ms - effect.intended_ms <= since_ms]
    shapes = [effect_shape(effect, now_ms) for effect in found]
    session.output.items(shapes, lambda: _table(session, found, now_ms), name="key")
    if not found:
        session.output.note("No effect is unknown" if unknown else "No effects")
    elif unknown:
        session.output.note(
            "Look each one up, then `outlast settle KEY --applied RECEIPT` or --not-applied"
        )
    return 0


def _table(session: Session, found: list[Effect], now_ms: int) -> list[list[str]]:
    rows = [["KEY", "TOOL", "STATE", "TASK", "TRIES", "BEGUN", "RESULT"]]
    for effect in found:
        rows.append(
            [
                printable(effect.key, 80),
                printable(effect.tool, 32),
                session.output.coloured(
                    effect.state, "yellow" if effect.state in IN_DOUBT else None
                ),
                effect.task_id,
                str(effect.tries),
                f"{age(now_ms - effect.intended_ms)} ago",
                printable(effect.result or effect.error or effect.observed or "-", 60),
            ]
        )
    return rows


@click.command("settle")
@click.argument("key")
@click.option("--applied", metavar="RECEIPT", help="It happened; JSON or text that shows it.")
@click.option("--not-applied", is_flag=True, help="It did not happen, and never will.")
@click.option("--reason", metavar="WHY", help="How you know; required with --not-applied.")
@click.option("--task", "task_id", metavar="TASK", help="The task, where the key is not enough.")
@by_option
@dry_run_option
@common
def settle(
    session: Session,
    key: str,
    applied: str | None,
    not_applied: bool,
    reason: str | None,
    task_id: str | None,
    by: str | None,
    dry_run: bool,
) -> int:
    """Say how the effect KEY ended; its task goes on once it has no other doubt."""
    if (applied is not None) == not_applied:
        raise BadSetting("say either --applied RECEIPT or --not-applied; nothing was written")
    if not_applied and not reason:
        raise BadSetting(
            "--not-applied needs a --reason: how do you know that nothing happened? "
            "Nothing was written"
        )
    receipt = None if applied is None else _receipt(applied)
    before = _in_doubt(session, key)
    if dry_run:
        shape = effect_shape(before, session.ask(lambda store: store.now_ms()))
        as_what = "applied" if applied is not None else "not applied"
        session.output.one(
            shape,
            lambda: f"Would settle {printable(key)} as {as_what}. Nothing was written (--dry-run)",
            name="key",
        )
        return 0
    order = session.order(reason or "receipt given on the command line", by)
    effect = session.ask(
        lambda store: store.settle(
            key, order, applied=applied is not None, receipt=receipt, task_id=task_id
        ),
        again=False,
    )
    task = session.ask(lambda store: store.get(effect.task_id))
    shape = effect_shape(effect, session.ask(lambda store: store.now_ms()))
    shape["task_state"] = task.state
    session.output.one(
        shape,
        lambda: (
            f"effect {printable(key)} is settled as {effect.state.replace('_', ' ')}; "
            f"task {task.id} is {task.state}"
        ),
        name="key",
    )
    return 0


def _in_doubt(session: Session, key: str) -> Effect:
    found = session.ask(lambda store: store.find_effects(EffectQuery(key=key, limit=1)))
    if not found:
        raise UnknownEffect(key)
    if found[0].state not in IN_DOUBT:
        raise NotAllowedNow(
            f"the effect {key!r} is in no doubt: it is {found[0].state.replace('_', ' ')} "
            f"({printable(found[0].result or found[0].error or 'no result')}); nothing was written"
        )
    return found[0]


def _receipt(text: str) -> object:
    """A receipt is JSON if it reads as such, else the text itself; raises NotSerializable."""
    from ..core import payload

    value = json_value(text)
    payload.payload_text(value, "the receipt")
    return value
