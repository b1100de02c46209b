"""Hints: a look-out hears of a hand-over before its next poll, and asks the database nothing."""

from __future__ import annotations

import errno
import socket

import pytest

from outlast.store import doorbell
from outlast.store.verbs import Store
from tests.store.databases import Stores
from tests.store.world import OPERATOR, start, submit
from tests.support.databases import on_the_database
from tests.support.waiting import until

HEARD_S = 10.0


def test_nothing_is_hinted_where_nothing_has_happened(stores: Stores) -> None:
    listener = listening(stores)

    assert not listener.hinted()
    listener.look(["default"], ["agent"])
    assert not listener.hinted()


@on_the_database
@pytest.mark.parametrize("reason", ["drain", "deadline", "unstarted", "trust"])
def test_a_release_is_hinted_once(stores: Stores, store: Store, reason: str) -> None:
    owner = start(store)
    listener = listening(stores)

    owner.release(reason)

    until(listener.hinted, f"a hint of the release ({reason})", timeout_s=HEARD_S)
    assert not listener.hinted()


@on_the_database
def test_a_death_that_was_seen_and_a_revoked_lease_are_hinted(stores: Stores, store: Store) -> None:
    crashed, revoked = start(store, worker="crashed"), start(store, worker="revoked")
    listener = listening(stores)

    store.crash(crashed.worker, by="its parent")
    until(listener.hinted, "a hint of the death", timeout_s=HEARD_S)

    store.revoke(revoked.task_id, OPERATOR, now=True)
    until(listener.hinted, "a hint of the revoked lease", timeout_s=HEARD_S)


@on_the_database
def test_a_connection_that_is_made_anew_hears_hints_again(stores: Stores, store: Store) -> None:
    owner = start(store)
    listener = listening(stores)
    listener.close()
    listener.look(["default"], ["agent"])
    listener.hinted()  # what it missed meanwhile, or not: the look has seen it

    owner.release("drain")

    until(listener.hinted, "a hint on the new connection", timeout_s=HEARD_S)


@on_the_database
def test_asking_for_hints_never_connects(stores: Stores, store: Store) -> None:
    """It is done 40 times a second, also while the database is away: the next look connects."""
    listener = listening(stores)
    listener.close()
    assert not listener.hinted()
    assert listener.database._open is None  # type: ignore[attr-defined]


@on_the_database
def test_a_step_on_postgres_notifies_nobody(stores: Stores, store: Store) -> None:
    """Commits that notify queue up behind each other: a step must not be one."""
    owner = start(store)
    listener = listening(stores)

    owner.step()

    listener.look(["default"], ["agent"])
    assert listener.hinted() == (stores.kind == "sqlite")


def listening(stores: Stores) -> Store:
    """A store that has asked once, from which on it hears what comes."""
    listener = stores.open()
    listener.hinted()
    return listener


def test_a_bell_that_cannot_be_rung_fails_no_submit(
    stores: Stores, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(store)  # so that there is a worker to be told

    class NoMore(socket.socket):
        def __init__(self, *words: object) -> None:
            raise OSError(errno.EMFILE, "too many open files")

    if stores.kind == "sqlite":
        monkeypatch.setattr(doorbell.socket, "socket", NoMore)
    assert submit(store).state == "ready"
