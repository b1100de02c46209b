"""A named statement, prepared by a session as psycopg would prepare it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import psycopg

from outlast.store.statements import load


def prepare(connection: psycopg.Connection[Any], name: str, values: Mapping[str, Any]) -> str:
    """Prepare it anew; what to `explain` to run it with these values."""
    names: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"(?<!:):([a-z_]+)", numbered, load("postgres")[name])
    given = ", ".join(psycopg.sql.Literal(values[each]).as_string(connection) for each in names)
    # Typed as psycopg sends them: all integers of one width, texts for the server to make out.
    types = ", ".join("bigint" if isinstance(values[each], int) else "unknown" for each in names)
    connection.execute("deallocate all")
    connection.execute(f"prepare hot {f'({types})' if names else ''} as {text}".encode())
    return f"execute hot({given})" if names else "execute hot"
