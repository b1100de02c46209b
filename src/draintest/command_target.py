"""A target in a TOML file: a command for each question, which prints the shapes of `Target`.

    [target]
    name = "mine"
    offers = ["log", "owners", "drain"]       # what is missing is unsupported
    version = { mine = "1.2" }

    [limits]                                  # milliseconds; what the target is started with
    ttl_ms = 2000

    [environment]                             # added for every command
    MINE_FOLDER = "{folder}"

    [commands]                                # lists of words
    worker = ["{python}", "mine.py", "worker", "--name", "{name}", "--ttl", "{ttl_ms}"]
    submit = ["{python}", "mine.py", "submit", "{program}"]

Words may hold {python} {here} (the file's folder) {folder} (the scenario's own) {name} {world}
{program} {task} {act} {receipt} {path}, and every limit by its name. Commands: prepare worker
submit tasks owners log metrics cancel settle export verify clean_up. `warm` starts a process that
reads a JSON list of words a line and answers {"code", "output", "errors"}: it saves starting one
for each command. A worker is ready when it has printed `ready`.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from .commands import Ran, Warm, run
from .languages import Language
from .processes import Launch
from .target import OFFERS, CannotSay, Limits, Shape, Target
from .workplace import Workplace

NEEDED = ("worker", "submit", "tasks")


class CommandTarget:
    """A target that is asked by the commands of a file."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        here: Path,
        folder: Path,
        limits: Limits,
        lane: Lane,
        *,
        words: Mapping[str, str] | None = None,
    ) -> None:
        self.name = settings["target"]["name"]
        self.offers = frozenset(settings["target"].get("offers", ()))
        self.limits, self._folder, self._lane = limits, folder, lane
        self._settings = settings
        self._words = {
            "python": sys.executable,
            "here": str(here),
            "folder": str(folder),
            **{each.name: str(getattr(limits, each.name)) for each in fields(limits)},
            **(words or {}),
        }

    def version(self) -> Shape:
        return dict(self._settings["target"].get("version", {}))

    def prepare(self) -> None:
        self._optional("prepare")

    def worker(self, name: str, world: str) -> Launch:
        words = self._command("worker", name=name, world=world)
        return Launch(words, {**self._environment(), "DRAINTEST_WORLD": world}, self._folder)

    def ready(self, output: str) -> bool:
        return str(self._settings["target"].get("ready", "ready")) in output

    def submit(self, program: Mapping[str, Any]) -> str:
        return str(self._ask("submit", program=json.dumps(program))["id"])

    def tasks(self) -> list[Shape]:
        return _items(self._ask("tasks"))

    def owners(self) -> list[Shape]:
        return _items(self._ask("owners"))

    def log(self) -> list[Shape]:
        return _items(self._ask("log"))

    def metrics(self) -> Shape:
        return dict(self._ask("metrics"))

    def cancel(self, task: str) -> None:
        self._ask("cancel", task=task)

    def settle(self, task: str, act: str, receipt: str | None) -> None:
        self._ask("settle", task=task, act=act, receipt=receipt or "")

    def export(self, path: Path) -> None:
        self._ask("export", path=str(path))

    def verify(self, path: Path) -> tuple[bool, str]:
        ran = self._run(self._command("verify", path=str(path)))
        return ran.code == 0, (ran.output + ran.errors)[-500:]

    def database(self) -> tuple[str, int]:
        raise CannotSay("a target in a file has no wire")

    def front(self) -> Any:
        raise CannotSay("a target in a file has no server before its database")

    def language(self) -> Callable[[], Language]:
        raise CannotSay("a target in a file has no wire")

    def through(self, port: int, host: str = "127.0.0.1") -> None:
        raise CannotSay("a target in a file has no wire")

    def files(self) -> list[Path]:
        listed = self._settings["target"].get("files", [])
        return [Path(name.format_map(self._words)) for name in listed]

    def litter(self) -> list[str]:
        return [f"file {path}" for path in self.files() if path.exists()]

    def clean_up(self) -> None:
        self._optional("clean_up")

    def _optional(self, command: str) -> None:
        if command in self._settings["commands"]:
            ran = self._run(self._command(command))
            if ran.code != 0:
                raise CannotSay(f"{command}: {ran.errors or ran.output}"[:400])

    def _ask(self, command: str, **words: str) -> Any:
        return self._run(self._command(command, **words)).json()

    def _run(self, words: list[str]) -> Ran:
        warm = self._lane.warm
        if warm is not None:
            return warm.run(*words)
        return run(words, environment=self._environment(), folder=self._folder)

    def _command(self, command: str, **words: str) -> list[str]:
        try:
            told = self._settings["commands"][command]
        except KeyError:
            raise CannotSay(f"the target has no command {command!r}") from None
        return [_filled(word, {**self._words, **words}) for word in told]

    def _environment(self) -> dict[str, str]:
        told = self._settings.get("environment", {})
        return {name: _filled(str(value), self._words) for name, value in told.items()}


class Lane:
    """What the scenarios of one lane share: a process for their commands, if the file names one."""

    def __init__(self, warm: Warm | None) -> None:
        self.warm = warm


class CommandMaker:
    """Makes targets from a TOML file. Raises ValueError and OSError."""

    not_claimed: frozenset[str] = frozenset()

    def __init__(self, path: Path, limits: dict[str, int]) -> None:
        self._here = path.resolve().parent
        self._settings = tomllib.loads(path.read_text())
        self._lanes: dict[int, Lane] = {}
        _refuse(self._settings)
        self.name = str(self._settings["target"]["name"])
        self.offers = frozenset(self._settings["target"].get("offers", ()))
        self.limits = Limits(**{**self._settings.get("limits", {}), **limits})

    def make(self, folder: Path, lane: int) -> Target:
        known = {"python": sys.executable, "here": str(self._here)}
        shared = self._lane(lane, known, self._here)
        return CommandTarget(self._settings, self._here, folder, self.limits, shared)

    def _lane(self, lane: int, known: Mapping[str, str], folder: Path) -> Lane:
        """What all scenarios of this lane share; made once."""
        if lane not in self._lanes:
            words = self._settings["commands"].get("warm")
            warm = Warm([_filled(word, known) for word in words], folder) if words else None
            self._lanes[lane] = Lane(warm)
        return self._lanes[lane]

    server = None

    def disk(self, folder: Path, workplace: Workplace) -> Any:
        """Whether its store is in the scenario's folder is not known."""
        return None

    def schema(self, folder: Path) -> tuple[str, str] | None:
        return None

    def open(self, workplace: Workplace) -> None:
        """Nothing is shared by its scenarios."""

    def close(self) -> None:
        for lane in self._lanes.values():
            if lane.warm is not None:
                lane.warm.close()


def _refuse(settings: Mapping[str, Any]) -> None:
    if "name" not in settings.get("target", {}):
        raise ValueError("[target] needs a name")
    if missing := [name for name in NEEDED if name not in settings.get("commands", {})]:
        raise ValueError(f"[commands] lacks {', '.join(missing)}")
    if unknown := set(settings["target"].get("offers", ())) - set(OFFERS):
        raise ValueError(f"unknown offers {sorted(unknown)}; there are {', '.join(OFFERS)}")
    if unknown := set(settings.get("limits", {})) - {each.name for each in fields(Limits)}:
        raise ValueError(f"unknown limits {sorted(unknown)}")


def _filled(word: str, words: Mapping[str, str]) -> str:
    """The word with each known {name} replaced; other braces stay, for JSON has them."""
    for name, value in words.items():
        if word == "{" + name + "}":
            return value
    for name, value in words.items():
        word = word.replace("{" + name + "}", value)
    return word


def _items(answer: Any) -> list[Shape]:
    found: list[Shape] = answer["items"]
    return found
