"""What a token may ask of the store: by its role; a worker's, only about leases that are its own.

The chain turns away who is no owner. This turns away who has stolen a worker's token and would
read, or write as, another worker: it must name a worker that came with this very token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ..core.errors import Forbidden, UnknownWorker
from ..core.lifecycle import body_of
from ..core.model import Event, Offer, Signal, Worker
from ..store.verbs import Claim, EffectQuery, Order, Store
from .access import Identity

Arguments = dict[str, Any]
REMEMBERED = 10_000


class Guard:
    """Looks at each request before a store carries it out."""

    def __init__(self) -> None:
        # Which token a worker came with, and who an epoch was granted to: neither ever changes.
        self._tokens: dict[str, str] = {}
        self._grants: dict[tuple[str, int], str] = {}
        self._rules: Mapping[str, Callable[[Store, Identity, Arguments], None]] = {
            "enlist": self._enlist,
            "claim": lambda s, who, asked: self._own_worker(s, who, _claimer(asked["claim"])),
            "renew": lambda s, who, asked: self._own_worker(s, who, asked["worker_id"]),
            "crash": lambda s, who, asked: self._own_worker(s, who, asked["worker_id"]),
            "retire": lambda s, who, asked: self._own_worker(s, who, asked["worker_id"]),
            "append": self._own_offers,
            "begin": lambda s, who, asked: self._own_offer(s, who, asked["offer"]),
            "stands": lambda s, who, asked: self._own_offer(s, who, asked["offer"]),
            "observe": self._observe,
            "get": self._own_task,
            "read": self._own_task,
            "last": self._own_task,
            "signals": self._own_task,
            "find_effects": self._find_effects,
        }

    def check(self, store: Store, who: Identity, verb: str, asked: Arguments) -> Arguments:
        """The arguments as they may be carried out; the role allows the verb. Raises Forbidden."""
        if who.role == "worker" and verb in self._rules:
            self._rules[verb](store, who, asked)
        if verb == "enlist":
            asked["worker"] = replace(asked["worker"], token=who.token)
        return asked if not who.token else _signed(asked, who.name)

    # -- a worker's own ---------------------------------------------------------------------------

    def _enlist(self, store: Store, who: Identity, asked: Arguments) -> None:
        worker: Worker = asked["worker"]
        if self._token_of(store, worker.id) not in (None, who.token):
            raise Forbidden(f"the worker {worker.id} came with another token; nothing was written")

    def _own_worker(self, store: Store, who: Identity, worker_id: str) -> None:
        if self._token_of(store, worker_id) != who.token:
            raise Forbidden(
                f"the worker {worker_id} did not come with this token; nothing was written"
            )

    def _own_offers(self, store: Store, who: Identity, asked: Arguments) -> None:
        for offer in asked["offers"]:
            self._own_offer(store, who, offer)

    def _own_offer(self, store: Store, who: Identity, offer: Offer) -> None:
        self._own_worker(store, who, offer.worker)
        # An epoch that there is not (its commit was lost) the fence turns away, and says why.
        if self._granted_to(store, offer.task_id, offer.epoch, offer.worker) is False:
            raise _not_granted(offer.task_id, offer.epoch, offer.worker)

    def _observe(self, store: Store, who: Identity, asked: Arguments) -> None:
        self._own_worker(store, who, asked["worker"])
        said = asked["task_id"], asked["epoch"], asked["worker"]
        if not self._granted_to(store, *said):
            raise _not_granted(*said)

    def _own_task(self, store: Store, who: Identity, asked: Arguments) -> None:
        granted = store.last(asked["task_id"], "lease.granted")
        if granted is None or self._token_of(store, _worker_of(granted)) != who.token:
            raise Forbidden(
                f"no worker of this token holds task {asked['task_id']}; nothing was read"
            )

    def _find_effects(self, store: Store, who: Identity, asked: Arguments) -> None:
        query: EffectQuery = asked["query"]
        # Of a shared key a worker must know who has done it.
        if query.task_ids:
            raise Forbidden("a worker may not ask for the effects of many tasks; nothing was read")
        if query.key is None:
            self._own_task(store, who, {"task_id": query.task_id or ""})

    def _granted_to(self, store: Store, task_id: str, epoch: int, worker: str) -> bool | None:
        """Whether an epoch was granted to that worker; None: there is no such epoch.

        Asked anew before a no: after a failover an epoch may have been granted a second time.
        """
        name = (task_id, epoch)
        if self._grants.get(name) == worker:
            return True
        granted = store.granted(task_id, epoch)
        if granted is None:
            return None
        _remember(self._grants, name, _worker_of(granted))
        return self._grants[name] == worker

    def _token_of(self, store: Store, worker_id: str) -> str | None:
        """The token that a worker came with; None: there is no such worker."""
        if worker_id not in self._tokens:
            try:
                _remember(self._tokens, worker_id, store.worker(worker_id).token)
            except UnknownWorker:
                return None
        return self._tokens[worker_id]


def _not_granted(task_id: str, epoch: int, worker: str) -> Forbidden:
    return Forbidden(
        f"epoch {epoch} of task {task_id} was not granted to {worker}; nothing was written"
    )


def _signed(asked: Arguments, name: str) -> Arguments:
    """Whose order it is, is said by the token, not by whoever holds it."""
    signed = dict(asked)
    if isinstance(asked.get("order"), Order):
        signed["order"] = replace(asked["order"], by=name)
    if isinstance(asked.get("signal"), Signal):
        signed["signal"] = replace(asked["signal"], sent_by=name)
    if "tasks" in asked and not isinstance(asked["tasks"], int):
        signed["tasks"] = [replace(each, by=name) for each in asked["tasks"]]
    return signed


def _claimer(claim: Claim) -> str:
    return claim.worker.id


def _worker_of(granted: Event) -> str:
    return str(body_of(granted).get("worker"))


def _remember(kept: dict[Any, str], name: Any, value: str) -> None:
    if len(kept) >= REMEMBERED:
        kept.clear()
    kept[name] = value
