"""The kinds of database that every test of the store runs on."""

import pytest

SQLITE = "sqlite"
POSTGRES = "postgres"
POSTGRES_15 = "postgres15"

KINDS = (
    pytest.param(SQLITE, id=SQLITE),
    pytest.param(POSTGRES, id=POSTGRES, marks=pytest.mark.postgres),
    pytest.param(POSTGRES_15, id=POSTGRES_15, marks=[pytest.mark.postgres, pytest.mark.postgres15]),
)

# The same databases behind a server of ours: what workers see that reach no database.
OVER_HTTP = (
    pytest.param("http sqlite", id="http-sqlite"),
    pytest.param("http postgres", id="http-postgres", marks=pytest.mark.postgres),
)

# For what only a store can do that is on the database itself.
on_the_database = pytest.mark.parametrize("stores", KINDS, indirect=True)

# Runs a test once a kind; `database_url` is then the address of an empty database of that kind.
on_every_database = pytest.mark.parametrize("database_url", KINDS, indirect=True)
# The same for the two PostgreSQL releases alone.
on_every_postgres = pytest.mark.parametrize("database_url", KINDS[1:], indirect=True)
