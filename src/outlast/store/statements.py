"""The SQL texts: one for both databases, read from sql/*.sql, each statement under its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ..core.model import Effect, Event, Lease, Task, Token, Worker

# A plain path: importlib.resources alone would be a tenth of the start-up of `outlast ps`.
SQL = Path(__file__).with_name("sql")
FILES = ("events", "tasks", "leases", "effects", "signals", "workers", "tokens", "webhooks")


def _rows(param: str, names: str, dialect: str) -> str:
    """A JSON array of objects as rows, `offers` as `offer`; a name with `:` is a whole number's."""
    row = param.removesuffix("s")
    columns = [(name.rstrip(":"), name.endswith(":")) for name in names.split()]
    if dialect == "sqlite":
        taken = ", ".join(f"json_extract(value, '$.{name}') as {name}" for name, _ in columns)
        return f"(select {taken} from json_each(:{param})) as {row}"  # noqa: S608 - our own words
    typed = ", ".join(f"{name} {'bigint' if whole else 'text'}" for name, whole in columns)
    return f"json_to_recordset(cast(:{param} as json)) as {row}({typed})"


OFFER = "task_id quoted_seq: quoted epoch: holder: kind body at_ms: digest"
EVENT = "task_id seq: holder: kind body at_ms: digest"
TASK = """id queue agent input key labels priority: max_resumes: max_expiries: created_ms: state
    reason due_ms: waiting_for doubts epoch: failures: resumes: expiries: handoffs: result error
    head_seq: head_digest head_ms: started_ms: finished_ms:"""

# The only words in which the two databases differ: SQLite has one writer, whose commit others see,
# takes a JSON array to pieces in its own way, and has doorbells for NOTIFY.
DIALECTS = {
    "sqlite": {
        "lock": "",
        "lock_skipping": "",
        "hint": "select id from outlast.workers where state = 'active' "
        "order by beat_ms desc limit 200",
    },
    "postgres": {
        "lock": "for no key update",
        "lock_skipping": "for no key update skip locked",
        "hint": "select pg_notify('outlast', '')",
    },
}


for _dialect, _words in DIALECTS.items():
    for _param, _names in {"offers": OFFER, "events": EVENT, "tasks": TASK}.items():
        _words[_param] = _rows(_param, _names, _dialect)


def _columns(value: type[Task | Event | Lease | Effect | Worker | Token]) -> str:
    names = value.__struct_fields__
    return ", ".join('grant_digest as "grant"' if name == "grant" else name for name in names)


COLUMNS = {
    "task": _columns(Task),
    "event": _columns(Event),
    "lease": _columns(Lease),
    "effect": _columns(Effect),
    "worker": _columns(Worker),
    "token": _columns(Token),
}


def texts() -> dict[str, str]:
    """Every statement as it is written, by name."""
    found: dict[str, str] = {}
    for file in FILES:
        text = (SQL / f"{file}.sql").read_text("utf-8")
        for part in re.split(r"^-- name: ", text, flags=re.M)[1:]:
            name, _, body = part.partition("\n")
            if name in found:
                raise ValueError(f"two statements are named {name}")
            found[name] = re.sub(r"^\s*--.*\n", "", body, flags=re.M).strip()
    return found


@cache
def load(dialect: str, schema: str = "outlast") -> Mapping[str, str]:
    """Every statement for one database, with locks, columns and the schema's name put in."""
    fragments = {**DIALECTS[dialect], **COLUMNS}
    return {name: place(fill(text, fragments), dialect, schema) for name, text in texts().items()}


def fill(text: str, fragments: Mapping[str, str]) -> str:
    for name, fragment in fragments.items():
        text = text.replace("{" + name + "}", fragment)
    return text


def place(text: str, dialect: str, schema: str) -> str:
    """Put the schema's name in; SQLite has none."""
    return text.replace("outlast.", "" if dialect == "sqlite" else f'"{schema}".')


def script(file: str, dialect: str, schema: str = "outlast") -> str:
    """A whole file of definitions, for migrations."""
    text = (SQL / file).read_text("utf-8")
    return place(text, dialect, schema)
