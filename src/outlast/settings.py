"""Settings: flag, then OUTLAST_*, then outlast.toml or [tool.outlast], then the default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from .core import limits
from .core.durations import Duration, duration_ms, shown
from .core.errors import BadSetting

DEFAULT_DB = "sqlite:.outlast/outlast.db"
# A table of ours in pyproject.toml, in any of TOML's spellings; an `outlast` elsewhere is none.
OURS = rb"""tool["']?\s*\.\s*["']?outlast|\[\s*["']?tool["']?\s*\]|^\s*tool\s*="""
DB_SCHEMES = ("sqlite:", "postgresql://", "postgres://", "https://", "http://")


class Setting(msgspec.Struct, frozen=True):
    """One thing that can be set. `secret`: also read from the file that OUTLAST_NAME_FILE names."""

    name: str
    default: Any
    help: str
    secret: bool = False

    @property
    def variable(self) -> str:
        return f"OUTLAST_{self.name.upper()}"


SETTINGS: tuple[Setting, ...] = (
    Setting("db", DEFAULT_DB, "the store: sqlite:PATH or postgresql://...", secret=True),
    Setting("token", "", "what to show a server that is the store (https://...)", secret=True),
    Setting("queue", "default", "the queues a worker takes from, with commas between"),
    Setting("slots", 10, "how many tasks a worker runs at once"),
    Setting("ttl", "30s", "how long a lease lasts without a heartbeat"),
    Setting("grace", "25s", "how long a drain may take before it cuts off"),
    Setting("poll", "1s", "how often a worker looks for tasks when nobody wakes it"),
    Setting("supervisor", True, "whether a parent process sees a worker die and starts another"),
    Setting("build", "", "which build of your code this is; shown, and drained by"),
    Setting("output", "table", "table, wide, json, jsonl or name"),
    Setting("by", "", "who gives the orders; default: user@host"),
)
SWITCHES = {
    **dict.fromkeys(("1", "on", "true", "yes"), True),
    **dict.fromkeys(("0", "off", "false", "no"), False),
}
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


class Settings:
    """Where each setting's value comes from, for one process in one folder."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, folder: str | os.PathLike[str] = ""
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._folder = folder
        self._from_file: tuple[str, Mapping[str, Any]] | None = None

    def look_up(self, name: str, flag: Any = None) -> tuple[Any, str]:
        """(value, where it comes from, in words); raises BadSetting."""
        setting = BY_NAME[name]
        if flag is not None:
            return flag, f"--{name}"
        if (from_environment := self._variable(setting)) is not None:
            return from_environment
        file_name, values = self._file()
        if name in values:
            return values[name], f"{name} in {file_name}"
        return setting.default, f"the default of {name}"

    def db(self, flag: str | None = None) -> str:
        """The store's URL, checked for its scheme; raises BadSetting."""
        value, source = self.look_up("db", flag)
        url = db_url(value, source)
        return self._with_token(url) if url.startswith("http") else url

    def text(self, name: str, flag: str | None = None) -> str:
        value, source = self.look_up(name, flag)
        if not isinstance(value, str):
            raise BadSetting(
                f"{source}: {shown(value)} is no text; nothing was done. Put it in quotes"
            )
        return value

    def duration_ms(self, name: str, flag: Duration | None = None) -> int:
        value, source = self.look_up(name, flag)
        return duration_ms(value, source)

    def count(self, name: str, flag: int | None = None, *, at_least: int = 1) -> int:
        value, source = self.look_up(name, flag)
        try:
            number = int(value) if not isinstance(value, bool | float) else None
        except (TypeError, ValueError):
            number = None
        if number is None or not at_least <= number <= 10_000:
            raise BadSetting(
                f"{source}: {shown(value)} is no whole number from {at_least} to 10000; "
                "nothing was done"
            )
        return number

    def switch(self, name: str, flag: bool | None = None) -> bool:
        """Whether something is on; raises BadSetting."""
        value, source = self.look_up(name, flag)
        known = SWITCHES.get(str(value).lower())
        if known is None:
            raise BadSetting(f"{source}: {shown(value)} is neither on nor off; nothing was done")
        return known

    def ttl_ms(self, flag: Duration | None = None) -> int:
        """A lease's time to live, refused where two heartbeats would not fit; raises BadSetting."""
        value, source = self.look_up("ttl", flag)
        return lease_ttl_ms(value, source)

    def queues(self, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Queue names: repeated flags, or commas between; a list in a file."""
        value, source = self.look_up("queue", flags or None)
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
            raise BadSetting(
                f"{source}: {shown(value)} is no list of queue names; nothing was done"
            )
        names = tuple(dict.fromkeys(n.strip() for w in words for n in w.split(",") if n.strip()))
        if not names:
            raise BadSetting(f"{source}: no queue is named; nothing was done")
        return names

    def _with_token(self, url: str) -> str:
        """The URL of a server, with the token before its host, where none is there yet."""
        token, scheme, rest = self.text("token"), *url.split("://", 1)
        return f"{scheme}://{quote(token, safe='')}@{rest}" if token and "@" not in rest else url

    def _variable(self, setting: Setting) -> tuple[str, str] | None:
        value = self._environ.get(setting.variable)
        file_variable = f"{setting.variable}_FILE"
        path = self._environ.get(file_variable) if setting.secret else None
        if value and path:
            raise BadSetting(
                f"both {setting.variable} and {file_variable} are set, and it is not clear which "
                "one is meant; nothing was done. Unset one of them"
            )
        if path:
            return _secret(path, file_variable), file_variable
        return (value, setting.variable) if value else None

    def _file(self) -> tuple[str, Mapping[str, Any]]:
        if self._from_file is None:
            self._from_file = _read_files(self._folder)
        return self._from_file


def db_url(value: Any, source: str) -> str:
    """A store's URL as it was given; a plain path of a file is no URL. Raises BadSetting."""
    if not isinstance(value, str) or not value.startswith(DB_SCHEMES) or value == "sqlite:":
        raise BadSetting(
            f"{source}: {redacted(str(value))!r:.80} is no store; nothing was done. "
            "Write sqlite:PATH, postgresql://user@host/name, or https://host of a server"
        )
    return value


def lease_ttl_ms(value: Duration, source: str = "ttl") -> int:
    """Milliseconds of a lease's time to live; raises BadSetting with the reason."""
    ttl_ms = duration_ms(value, source)
    if ttl_ms < limits.TTL_MIN_MS:
        raise BadSetting(
            f"{source}: a lease of {ttl_ms} ms is refused; nothing was started. It is renewed each "
            f"third of that ({ttl_ms // limits.BEATS_PER_TTL} ms), and a busy Python process was "
            f"seen to delay one by half a second, so that not two beats would fit and live tasks "
            f"would be taken over. Give {limits.TTL_MIN_MS} ms or more; 30s is the default"
        )
    if ttl_ms > limits.TTL_MAX_MS:
        raise BadSetting(
            f"{source}: a lease of {value} is refused, nothing was started: the tasks of a dead "
            "worker would lie idle for as long. Give a day at most; 30s is the default"
        )
    return ttl_ms


def redacted(url: str) -> str:
    """The URL without its password, to be shown."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    end = min((i for i in map(rest.find, "/?#") if i >= 0), default=len(rest))
    credentials, at, host = rest[:end].rpartition("@")
    user, colon, _ = credentials.partition(":")
    if scheme.startswith("http") and at:
        user, colon = "***", ""
    shown = f"{scheme}://{user}{':***' if colon else ''}{at}{host}{rest[end:]}"
    head, found, tail = shown.partition("password=")
    return (
        shown if not found else f"{head}password=***{tail[tail.find('&') :] if '&' in tail else ''}"
    )


def _secret(path: str, variable: str) -> str:
    try:
        value = _read(path).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"{variable} names {path!r}, which cannot be read ({_reason(error)}); nothing was done"
        ) from error
    if not value:
        raise BadSetting(f"{variable} names {path!r}, which is empty; nothing was done")
    return value


def _read_files(folder: str | os.PathLike[str]) -> tuple[str, Mapping[str, Any]]:
    own, shared = "outlast.toml", "pyproject.toml"
    # Not pathlib: a folder that may not be looked into has no settings, and that is no error.
    if os.path.isfile(os.path.join(folder, own)):
        return own, _known(_toml(folder, own), own)
    path = os.path.join(folder, shared)
    # Most pyproject.toml hold nothing of ours, and the TOML reader costs a tenth of our start-up.
    if os.path.isfile(path) and os.access(path, os.R_OK) and re.search(OURS, _read(path), re.M):
        ours = _toml(folder, shared).get("tool", {}).get("outlast", {})
        return shared, _known(ours, f"[tool.outlast] of {shared}")
    return own, {}


def _toml(folder: str | os.PathLike[str], name: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read(os.path.join(folder, name)).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"{name} cannot be read ({_reason(error)}); nothing was done") from error


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _known(values: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(values, dict):
        raise BadSetting(f"{where} is no table of settings; nothing was done")
    for name in values:
        if name not in BY_NAME:
            raise BadSetting(
                f"{where} sets {name!r}, which is no setting; nothing was done. "
                f"There are: {', '.join(BY_NAME)}"
            )
    return values


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__
