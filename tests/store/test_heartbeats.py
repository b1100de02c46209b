"""What heartbeats leave behind in PostgreSQL: rows stay in place, the table does not grow."""

from __future__ import annotations

import psycopg
import pytest

from outlast.core import limits
from outlast.store.open import open_store
from outlast.store.verbs import NewTask, Renewal
from tests.store.databases import migrated
from tests.store.world import ask, enlisted, new_id
from tests.support.postgres import PostgresServer

LEASES = 500
BEATS = 60


@pytest.mark.postgres
def test_five_hundred_leases_are_renewed_in_place(postgres_server: PostgresServer) -> None:
    """case R60"""
    url = migrated(postgres_server.create_database())
    store = open_store(url)
    enlisted(store)
    tasks = [NewTask(id=new_id(store), agent="agent", input="{}") for _ in range(LEASES)]
    store.submit(tasks)
    renewals = []
    while len(renewals) < LEASES:
        grants = store.claim(ask(store, room=limits.CLAIM_BATCH, held=len(renewals)))
        assert grants
        renewals += [Renewal(grant.task.id, grant.lease.grant) for grant in grants]
    size_before = leases(url)["size"]

    for _ in range(BEATS):
        beat = store.renew("old", renewals)
        assert {renewed.state for renewed in beat.leases.values()} == {"held"}
    store.close()

    after = leases(url)
    assert after["updates"] == LEASES * BEATS
    assert after["hot"] / after["updates"] > 0.9
    assert after["size"] <= 8 * size_before, "the table grows with every beat"
    postgres_server.drop_database(url)


def leases(url: str) -> dict[str, int]:
    """How the table of leases has been written, and how large it is."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        row = connection.execute(
            """select n_tup_upd, n_tup_hot_upd, pg_relation_size('outlast.leases')
                 from pg_stat_user_tables where schemaname = 'outlast' and relname = 'leases'"""
        ).fetchone()
    assert row is not None
    return {"updates": row[0], "hot": row[1], "size": row[2]}
