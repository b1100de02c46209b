"""One run: lanes that play scenarios side by side, each with a target, a store and workers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from . import faults
from .history import History, Record, merged
from .inspection import look, look_for_litter
from .network import Namespace
from .processes import Process
from .scenarios import Scenario
from .stage import Stage
from .strain import Gauge
from .target import CannotSay, Limits, Target
from .waiting import broken_off
from .workplace import Workplace
from .world.witness import Witness


class Maker(Protocol):
    """Makes a target for one scenario, in a folder of its own.

    `not_claimed`: the checks whose promise the system does not make.
    """

    name: str
    limits: Limits
    offers: frozenset[str]
    not_claimed: frozenset[str]
    server: Any

    def make(self, folder: Path, lane: int) -> Target: ...

    def disk(self, folder: Path, workplace: Workplace) -> Any:
        """A small disk that the target of this folder will have its store on; None: it cannot."""

    def schema(self, folder: Path) -> tuple[str, str] | None:
        """(URL, name) of the schema that the target of this folder will make, if any."""

    def open(self, workplace: Workplace) -> None:
        """Called once, before any scenario: what all of them share."""

    def close(self) -> None: ...


Progress = Callable[[str, str, str], None]


@dataclass(frozen=True)
class Shared:
    """What all scenarios of a run share."""

    workplace: Workplace
    history: History
    witness: Witness


@dataclass
class Run:
    """Plays scenarios, and keeps everything that was seen in `folder`.

    `progress(scenario, stage, said)`: told what is being done, for whoever watches.
    """

    maker: Maker
    folder: Path
    lanes: int
    progress: Progress
    header: Record

    def play(self, scenarios: list[Scenario]) -> list[Record]:
        """Play them all; the whole history, in order. Raises BrokenOff, with all cleared away."""
        (self.folder / "raw").mkdir(parents=True)
        workplace = Workplace()
        history = History(self.folder / "raw" / "harness.jsonl")
        witness = Witness(self.folder / "raw" / "world.jsonl")
        workplace.answer_for_process(witness.pid)
        gauge = Gauge(history, workplace.folder)
        history.add("run.began", **self.header, swept=workplace.swept)
        try:
            self.maker.open(workplace)
            # Who harms what all share is played when nobody else is there.
            for lanes, alone in ((self.lanes, False), (1, True)):
                chosen = [each for each in scenarios if each.alone is alone]
                self._play_all(chosen, lanes, Shared(workplace, history, witness))
        finally:
            gauge.close()
            self.maker.close()
            witness.close()
            history.add("run.ended")
            workplace.close()
            history.close()
        return merged(history.records(), witness.whole())

    def _play_all(self, scenarios: list[Scenario], lanes: int, shared: Shared) -> None:
        waiting: queue.SimpleQueue[Scenario] = queue.SimpleQueue()
        for scenario in scenarios:
            waiting.put(scenario)
        errors: list[BaseException] = []

        def lane(number: int) -> None:
            while not broken_off.is_set():
                try:
                    scenario = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    self._play(scenario, number, shared)
                except BaseException as error:
                    errors.append(error)
                    return

        threads = [threading.Thread(target=lane, args=(n,), daemon=True) for n in range(lanes)]
        for thread in threads:
            thread.start()
        for each in threads:
            each.join()
        if errors:
            raise errors[0]

    def _play(self, scenario: Scenario, lane: int, shared: Shared) -> None:
        place = shared.workplace.new_folder(scenario.name)
        disk = self.maker.disk(place, shared.workplace) if scenario.disk else None
        try:
            if scenario.disk and disk is None:
                self._skip(scenario, shared, ["a disk that can be filled"])
            else:
                self._play_at(place, scenario, lane, shared, disk)
        finally:
            if disk is not None:
                disk.close()

    def _skip(self, scenario: Scenario, shared: Shared, needs: list[str]) -> None:
        shared.history.add("scenario.skipped", name=scenario.name, needs=needs)

    def _play_at(
        self, place: Path, scenario: Scenario, lane: int, shared: Shared, disk: Any
    ) -> None:
        target = self.maker.make(place, lane)
        if not scenario.needs <= target.offers:
            self._skip(scenario, shared, sorted(scenario.needs))
            return
        if owned := self.maker.schema(place):
            shared.workplace.answer_for_schema(*owned)
        outputs = self.folder / "processes" / scenario.name
        outputs.mkdir(parents=True)
        stage = _Watched(scenario.name, target, shared, outputs, self.progress)
        stage.server, stage.disk = self.maker.server, disk
        stage.tell(
            "scenario.began",
            harms=list(scenario.harms),
            limits=asdict(target.limits),
            offers=sorted(target.offers),
            not_claimed=sorted(self.maker.not_claimed),
            **scenario.facts,
        )
        self.progress(scenario.name, "began", "")
        try:
            _perform(scenario, stage)
        finally:
            stage.end_workers()
            look(stage, outputs)
            look_for_litter(stage)
            stage.tell("scenario.ended")
            self.progress(scenario.name, "ended", "")


class _Watched(Stage):
    """A stage whose records are told to whoever watches, and whose processes are answered for."""

    def __init__(
        self, name: str, target: Target, shared: Shared, folder: Path, progress: Progress
    ) -> None:
        super().__init__(name, target, shared.witness, shared.history, folder)
        self._progress, self._workplace = progress, shared.workplace

    def tell(self, what: str, **fields: object) -> Record:
        record = super().tell(what, **fields)
        self._progress(self.name, what, str(fields.get("fault") or fields.get("act") or ""))
        return record

    def make_network(self, port: int) -> Namespace:
        return Namespace(self._workplace, port)

    def started(self, process: Process) -> None:
        self._workplace.answer_for_process(process.pid)


def _perform(scenario: Scenario, stage: Stage) -> None:
    try:
        stage.target.prepare()
        stage.tell("target.version", version=stage.target.version())
        scenario.play(stage)
    except faults.Missed as missed:
        stage.tell("scenario.missed", why=str(missed))
    except (CannotSay, OSError) as error:
        stage.tell("scenario.broken", why=f"{type(error).__name__}: {error}"[:500])
