"""Effects in the store's own database: they happen exactly once."""

from __future__ import annotations

from typing import Any

import outlast
from outlast.testing import Harness
from tests.store.databases import Stores


def test_a_transaction_in_the_stores_database_happens_exactly_once(
    outlast_harness: Any, stores: Stores
) -> None:
    table = ledger_table(stores)
    app = outlast.App()

    def book(connection: Any) -> int:
        connection.execute(f"insert into {table} values (5)")
        return 10

    @app.agent
    async def books(ctx: outlast.Context) -> int:
        first = await ctx.transaction("book", book)
        await ctx.step("after", str, 1)
        return int(first)

    for n in range(1, 6):
        harness: Harness = outlast_harness(app)
        stores.change(f"delete from {table}")
        ran = harness.run(harness.submit("books"), crash_after=n)
        assert ran.result == 10
        assert stores.rows(f"select amount from {table}") == [{"amount": 5}]


def test_a_transaction_that_raises_leaves_nothing_behind(
    outlast_harness: Any, stores: Stores
) -> None:
    table = ledger_table(stores)
    app = outlast.App()

    def fails(connection: Any) -> None:
        connection.execute(f"insert into {table} values (7)")
        raise ValueError("half way")

    @app.agent
    async def books(ctx: outlast.Context) -> str:
        try:
            await ctx.transaction("book", fails)
        except ValueError as error:
            return str(error)
        return "?"

    harness: Harness = outlast_harness(app)
    ran = harness.run(harness.submit("books"))
    assert ran.result == "half way"
    assert stores.rows(f"select amount from {table}") == []


def ledger_table(stores: Stores) -> str:
    """A table of the user's own in the database of the store."""
    table = "ledger" if stores.kind == "sqlite" else "public.ledger"
    stores.change(f"create table if not exists {table} (amount bigint)")
    stores.change(f"delete from {table}")
    return table
