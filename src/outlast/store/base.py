"""What all verbs share: a database, an environment, and patience with locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from ..core.clock import Env
from ..core.errors import NotSerializable, Unavailable
from .database import Database, LockedOut, LogMoved, Unstorable
from .verbs import HintsCome

T = TypeVar("T")
P = ParamSpec("P")
V = TypeVar("V", bound="Verbs")
TRIES = 8


def keys_of(names: Iterable[str]) -> str:
    """A JSON object with these keys: what both databases can unfold."""
    return msgspec.json.encode(dict.fromkeys(names, 1)).decode()


class Verbs:
    """Verbs run on one connection, from one thread at a time."""

    def __init__(self, database: Database, env: Env) -> None:
        self.database = database
        self._env = env

    def _with_patience(self, what: str, act: Callable[[], T], *, tries: int = TRIES) -> T:
        """A transaction that another blocked wrote nothing, and is begun anew; bounded."""
        for _ in range(tries):
            try:
                return act()
            except LockedOut as error:
                blocked = error
            except Unstorable as error:
                raise NotSerializable(what, str(error)) from error
        raise Unavailable(what, f"locked by others ({blocked})")

    def _past_the_frozen(self, what: str, task_id: str, act: Callable[[], T]) -> T:
        """The same for what must not wait for an owner that stands still inside a transaction."""

        def act_or_end_blockers() -> T:
            try:
                return act()
            except LogMoved:
                raise  # nobody's lock: its owner is alive
            except LockedOut:
                self.database.end_blockers(task_id)
                raise

        return self._with_patience(what, act_or_end_blockers)

    def hinted(self) -> bool:
        return self.database.hinted()

    def hints_come(self, worker_id: str) -> HintsCome:
        return self.database.hints_come(worker_id)

    def now_ms(self) -> int:
        return int(self.database.once("read_clock")[0]["now_ms"])

    def close(self) -> None:
        self.database.close()


def patient(verb: Callable[Concatenate[V, P], T]) -> Callable[Concatenate[V, P], T]:
    """A verb that is begun anew as a whole when others have locked it out; bounded."""

    @wraps(verb)
    def act(self: V, /, *args: P.args, **options: P.kwargs) -> T:
        return self._with_patience(verb.__name__, lambda: verb(self, *args, **options))

    return act
