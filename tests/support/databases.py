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

# Runs a test once a kind; `database_url` is then the address of an empty database of that kind.
on_every_database = pytest.mark.parametrize("database_url", KINDS, indirect=True)
# The same for the two PostgreSQL releases alone.
on_every_postgres = pytest.mark.parametrize("database_url", KINDS[1:], indirect=True)
