"""Stores with one promise taken out of their SQL: the tests of this folder must notice each.

A mutant lives in the tests only: OUTLAST_TEST_MUTANT names one, and every store that these tests
open then runs statements of which one is broken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from outlast.core.clock import Env
from outlast.store.open import open_database
from outlast.store.sql_store import SqlStore
from outlast.store.statements import load
from outlast.store.verbs import Store

VARIABLE = "OUTLAST_TEST_MUTANT"


@dataclass(frozen=True)
class Mutant:
    """One edit of one statement; `without` says what is then no longer so."""

    without: str
    statement: str
    pattern: str
    replacement: str

    def applied(self, statements: Mapping[str, str]) -> dict[str, str]:
        """The statements with this one broken; raises if there is nothing to break."""
        text = statements[self.statement]
        broken = re.sub(self.pattern, self.replacement, text, flags=re.S)
        assert broken != text, f"{self.without}: {self.pattern!r} is not in {self.statement}"
        return {**statements, self.statement: broken}


MUTANTS: dict[str, Mutant] = {}


def open_with_mutant(url: str, env: Env) -> Store | None:
    """A store that runs broken statements, if the environment asks for one."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    dialect = "sqlite" if url.startswith("sqlite:") else "postgres"
    statements = MUTANTS[name].applied(load(dialect))
    database, _schema = open_database(url, env=env, statements=statements)
    return SqlStore(database, env)
