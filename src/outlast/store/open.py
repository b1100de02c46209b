"""Open a store by its URL: `sqlite:PATH`, `postgresql://…`, or `https://…` of a server."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from ..core import limits
from ..core.clock import Env
from ..core.errors import BadSetting, Unavailable
from . import migrate as migrations
from .database import Database
from .sql_store import SqlStore
from .statements import load
from .verbs import Store

HTTP = ("https://", "http://")


def open_store(
    url: str,
    *,
    env: Env | None = None,
    create: bool = False,
    check: bool = True,
    ttl_ms: int = limits.TTL_MS,
) -> Store:
    """A store on a connection of its own, for one thread at a time.

    `create`: make or upgrade a SQLite file (the embedded default); PostgreSQL is only ever changed
    by `outlast migrate`. `check`: refuse a schema that is not this code's. `ttl_ms`: the lease that
    this process holds; no transaction of ours stands still for longer than a sixth of it.
    Raises Unavailable, SchemaMismatch, BadSetting.
    """
    env = env or Env()
    if url.startswith(HTTP):
        return _remote(url, ttl_ms, check)
    database, schema = open_database(url, env=env, ttl_ms=ttl_ms, create=create)
    try:
        if create and database.dialect == "sqlite":
            migrations.migrate(database, schema)
        elif check:
            migrations.check_version(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database, env)


def open_database(
    url: str,
    *,
    env: Env,
    ttl_ms: int = limits.TTL_MS,
    create: bool = False,
    statements: Mapping[str, str] | None = None,
) -> tuple[Database, str]:
    """The database behind a URL, and its schema's name. Raises BadSetting, Unavailable."""
    bound_ms = max(limits.IN_TRANSACTION_MIN_MS, ttl_ms // limits.MARGINS_PER_TTL)
    if url.startswith("sqlite:"):
        from .sqlite import SqliteDatabase

        path = sqlite_path(url)
        if create:
            _make_file(path)
        return SqliteDatabase(path, statements or load("sqlite"), env), ""
    if url.startswith(("postgresql://", "postgres://")):
        from .postgres import PostgresDatabase, read_url

        dsn, schema, pooler = read_url(url)
        texts = statements or load("postgres", schema)
        return PostgresDatabase(dsn, schema, texts, bound_ms=bound_ms, pooler=pooler), schema
    if url.startswith(HTTP):
        raise BadSetting(
            "the tables are behind a server that is reached over HTTP; nothing was done. "
            "Give this command the database's own URL"
        )
    raise BadSetting(
        f"{url!r} is no database that Outlast knows; nothing was opened. "
        "Use sqlite:PATH or postgresql://…"
    )


def load_driver(url: str) -> None:
    """Import what `open_store` will need for this URL, without opening anything."""
    scheme = url.partition(":")[0]
    home = {"sqlite": "sqlite", "http": "http_store", "https": "http_store"}
    import_module(f".{home.get(scheme, 'postgres')}", __package__)


def _remote(url: str, ttl_ms: int, check: bool) -> Store:
    from .http_store import HttpStore

    store = cast(Store, HttpStore(url, ttl_ms))
    if check:
        migrations.refuse_other(store.version())
    return store


def sqlite_path(url: str) -> Path:
    text = url.removeprefix("sqlite:").removeprefix("//")
    if not text or text == ":memory:":
        raise BadSetting("sqlite: needs the path of a file, e.g. sqlite:./.outlast/outlast.db")
    return Path(text)


def _make_file(path: Path) -> None:
    """An empty file, readable by its owner alone, in a folder that may have to be made."""
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"the SQLite file {path}", f"it cannot be created ({error})") from error
