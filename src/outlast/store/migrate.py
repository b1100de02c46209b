"""Bring a database to the schema that this code knows: under a lock, one step at a time.

sql/migrations/0001.sql and so on are frozen once released; tables.sql is their sum, to read.
"""

from __future__ import annotations

from ..core.errors import SchemaMismatch
from .database import Database, WrongTables
from .statements import SQL, script

VERSION = 1


def found_version(database: Database) -> int | None:
    """The schema's version in this database; None: it has no tables of ours."""
    if not database.has_tables():
        return None
    version = database.once("read_version")[0]["version"]
    return None if version is None else int(version)


def check_version(database: Database) -> None:
    """Refuse another schema than ours, older or newer. Raises SchemaMismatch."""
    try:  # every command begins with this: no question before it
        found = database.once("read_version")[0]["version"]
    except WrongTables:
        found = None
    refuse_other(found)


def refuse_other(found: int | None) -> None:
    """Raises SchemaMismatch for any version but ours."""
    if found != VERSION:
        raise SchemaMismatch(found, VERSION)


def migrate(database: Database, schema: str) -> list[int]:
    """Apply what is missing, in one transaction; the versions applied. Raises SchemaMismatch."""
    with database.migrating() as run:
        # Read under the lock: another process may have migrated while this one waited.
        found = found_version(database)
        if found is not None and found > VERSION:
            raise SchemaMismatch(found, VERSION)
        steps = scripts(database.dialect, schema, above=found or 0)
        for _version, text in steps:
            run(text)
    return [version for version, _text in steps]


def scripts(dialect: str, schema: str, *, above: int = 0) -> list[tuple[int, str]]:
    """(version, SQL) of each step above a version, each with its stamp."""
    return [(version, _step(version, dialect, schema)) for version in range(above + 1, VERSION + 1)]


def _step(version: int, dialect: str, schema: str) -> str:
    text = script(f"migrations/{version:04}.sql", dialect, schema)
    own = f"migrations/{version:04}.{dialect}.sql"
    if (SQL / own).is_file():
        text += "\n" + script(own, dialect, schema)
    return (
        text
        + "\n"
        + script("migrations/stamp.sql", dialect, schema).replace("{version}", str(version))
    )
