"""A real worker loses the request, or the answer, of each call that it makes to its store."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from outlast.core.clock import Env
from outlast.store.open import open_store
from outlast.store.verbs import Store
from outlast.worker.drain import EXIT_UNAVAILABLE
from outlast.worker.worker import Worker
from tests.faults import errands
from tests.faults.bank import BankClient
from tests.faults.course import Course
from tests.faults.crew import PROJECT
from tests.faults.disks import in_memory
from tests.faults.lossy import Losses, LossyStore
from tests.support.processes import Processes

LIFE_S = 20.0
# Calls that come with the clock: the first and second stand for all.
BY_THE_CLOCK = ("look", "renew", "now_ms", "reap")


@pytest.mark.timeout(300)
def test_a_worker_may_lose_any_request_and_any_answer(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = tmp_path / "bank"
    opened = processes.python("-m", "tests.faults.bank", address, name="bank", folder=PROJECT)
    opened.wait_for_line("open", timeout_s=30)
    bank = BankClient(address.read_text())
    monkeypatch.setattr(errands.BANK, "address", bank.address)
    with in_memory(tmp_path) as folder:
        _lose_each_call(f"sqlite:{folder / 'outlast.db'}", bank)


def _lose_each_call(url: str, bank: BankClient) -> None:
    open_store(url, create=True).close()
    places = _places(life(url, bank, Losses()))
    print(f"{len(places)} calls: {', '.join(f'{verb} {nth}' for verb, nth in places)}")
    assert len(places) > 15
    missed = []
    for verb, nth in places:
        for what in ("request", "answer"):
            losses = Losses(what, nth, verb)
            life(url, bank, losses)
            if not losses.lost:
                missed.append((what, verb, nth))
    print(f"{2 * len(places)} lives, {len(missed)} in which the call was never made: {missed}")
    assert not [each for each in missed if each[1] not in BY_THE_CLOCK]


def life(url: str, bank: BankClient, losses: Losses) -> list[str]:
    """Both errands with one worker, in this process; the calls it made.

    A worker that cannot enlist ends, and is started again, as whoever supervises it would.
    """
    client = Client(url, bank)
    codes = []
    while not codes or codes[-1] == EXIT_UNAVAILABLE:
        client.worker = new_worker(url, losses)
        if not client.is_alive():
            client.start()
        codes.append(client.worker.run())
        if codes[-1] == EXIT_UNAVAILABLE:
            client.worker.loop.close()
    client.join()
    assert codes[-1] == 0
    assert len(codes) <= 2
    return losses.calls


def new_worker(url: str, losses: Losses) -> Worker:
    return Worker(
        errands.app,
        lambda: lossy(url, losses),
        Env(),
        ttl_ms=1_500,
        poll_ms=50,
        grace_ms=3_000,
        leave=_must_not_leave,
    )


def lossy(url: str, losses: Losses) -> Store:
    store: Store = LossyStore(open_store(url), losses)  # type: ignore[assignment]
    return store


class Client(threading.Thread):
    """Goes its course beside the worker, then tells it to leave; joined, it says what is wrong."""

    worker: Worker

    def __init__(self, url: str, bank: BankClient) -> None:
        super().__init__()
        self._url, self._bank = url, bank
        self._failed: BaseException | None = None

    def run(self) -> None:
        store = open_store(self._url)
        try:
            self._go(Course(store, self._bank))
        except BaseException as error:
            self._failed = error
        finally:
            self.worker.order_drain("the test")
            store.close()

    def _go(self, course: Course) -> None:
        deadline = time.monotonic() + LIFE_S
        while not course.go_on():
            assert time.monotonic() < deadline, course.said()
            time.sleep(0.01)
        course.check(self._url)

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if self._failed is not None:
            raise self._failed


def _places(calls: list[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    places = []
    for verb in calls:
        seen[verb] += 1
        if verb not in BY_THE_CLOCK or seen[verb] <= 2:
            places.append((verb, seen[verb]))
    return places


def _must_not_leave(code: int) -> None:
    raise AssertionError(f"the worker ended itself with {code}")
