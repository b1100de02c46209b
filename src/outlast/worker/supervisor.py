"""The parent of a worker's process: sees it die, ends what it leaves, and starts another.

    supervisor ──fork──► worker ──► whatever agents start
         │ SIGCHLD
         ├─ kills what is left of the tree
         ├──fork──► recorder: ends the leases in the store, and says so
         └──fork──► worker, after a pause

It forks and does not execute: all of ours is loaded before, so that the recorder is at work within
a millisecond (the driver of PostgreSQL alone takes a quarter of a second to import), the next
worker has but the user's app to load, and most of the memory is one and the same. The user's app
is never loaded here, no database is open, and there is no thread.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from ..core import limits
from ..core.clock import Env
from ..core.errors import OutlastError
from . import kin
from .death import Death, death_of, deaths_in_a_row, exit_code, pause_ms, starts_again
from .drain import EXIT_DEADLINE, EXIT_OK
from .parent import Parent
from .recorder import Recorder

Work = Callable[[str, Parent | None], int]
# What a worker understands as an order to leave. A hang-up drains, too.
ORDERS = {
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGINT: signal.SIGINT,
    signal.SIGHUP: signal.SIGTERM,
}
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
FORK_TRIES = 100


def supervise(work: Work, recorder: Recorder, env: Env) -> int:
    """Run `work(worker_id, parent)` in a child process, and again when that is killed.

    Returns twice, as `fork` does: in the child what `work` returns or raises, and in the parent
    the exit code to end with. Where other threads run, which no fork takes along, `work` is simply
    called.
    """
    if threading.active_count() > 1:
        return work(env.new_id(), None)
    return Supervisor(work, recorder, env).run()


class Supervisor:
    """One worker at a time, and the recorders of those that died."""

    def __init__(self, work: Work, recorder: Recorder, env: Env) -> None:
        self._work, self._recorder, self._env = work, recorder, env
        self._told = 0
        self._deaths = 0
        self._recording: set[int] = set()

    def run(self) -> int:
        self._adopts = kin.adopt_orphans()
        # A shell that became us may have started processes: they are no worker's.
        self._strangers = kin.children()
        self._ears = Ears()
        # What is loaded is never looked at by the collector again, which would copy its pages.
        gc.freeze()
        while True:
            worker_id, (reads, writes) = self._env.new_id(), os.pipe()
            pid = self._fork()
            if not pid:
                os.close(writes)
                return self._be_worker(worker_id, reads)
            os.close(reads)
            death = self._watch(pid, writes)
            os.close(writes)
            self._end_left(pid)
            next_ms = self._next_ms(death)
            if death.may_have_held:
                self._record(worker_id, death, next_ms)
            if next_ms is None:
                self._is_recorded()
                return exit_code(death, self._told)
            if self._wait(next_ms, lambda: bool(self._told)):
                return EXIT_OK if self._is_recorded() else EXIT_DEADLINE

    def _next_ms(self, death: Death) -> int | None:
        """Until another may start; None: none does."""
        again = starts_again(death, told=bool(self._told), replaces=self._deaths > 0)
        self._deaths = deaths_in_a_row(self._deaths, death.lived_ms)
        return pause_ms(self._deaths) if again else None

    # -- one worker's life -------------------------------------------------------------------------

    def _be_worker(self, worker_id: str, reads: int) -> int:
        if not self._adopts:
            os.setpgid(0, 0)
        return self._work(worker_id, Parent(reads))

    def _watch(self, pid: int, writes: int) -> Death:
        """Pass on what we are told, wait for what has ended; until the worker has."""
        clock, kills = self._env.clock, kin.oom_kills()
        began_ms = clock.monotonic_ms()
        while True:
            for number in self._ears.wait(None):
                self._pass_on(number, pid, writes)
            status = self._reap().get(pid)
            if status is not None:
                starved = kin.oom_kills() > kills
                return death_of(pid, status, clock.monotonic_ms() - began_ms, out_of_memory=starved)

    def _pass_on(self, number: int, pid: int, writes: int) -> None:
        """An order goes through the pipe, where a worker can tell it from one it got itself.

        Ctrl-C, and systemd by default, tell parent and child alike: by a signal the worker would
        hear everything twice, and a second order is one to leave at once.
        """
        with contextlib.suppress(OSError):  # it is dead already
            if number in ORDERS:
                self._told = self._told or number
                os.write(writes, bytes([ORDERS[signal.Signals(number)]]))
            elif number in PASSED_ON:
                os.kill(pid, number)

    def _end_left(self, pid: int) -> None:
        if self._adopts:
            kin.end_children(self._strangers | self._recording)
        else:
            kin.end_group(pid)

    def _reap(self) -> dict[int, int]:
        ended = dict(kin.reaped())
        self._recording -= ended.keys()
        self._strangers -= ended.keys()
        return ended

    # -- after it ----------------------------------------------------------------------------------

    def _record(self, worker_id: str, death: Death, next_ms: int | None) -> None:
        pid = self._fork()
        if pid:
            self._recording.add(pid)
            return
        # From here on nothing of the command that we are in may run.
        try:
            for number in ORDERS:
                signal.signal(number, signal.SIG_IGN)
            self._recorder.record(worker_id, death, next_ms)
        except Exception:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)

    def _wait(self, limit_ms: int, is_over: Callable[[], bool]) -> bool:
        """Hear and reap until something is so; False: it was not within the limit."""
        clock = self._env.clock
        end_ms = clock.monotonic_ms() + limit_ms
        while not is_over():
            left_ms = end_ms - clock.monotonic_ms()
            if left_ms <= 0:
                return False
            for number in self._ears.wait(left_ms / 1_000):
                self._told = self._told or number * (number in ORDERS)
            self._reap()
        return True

    def _is_recorded(self) -> bool:
        """Once the recorders are done; a store that is away is not waited for long."""
        return self._wait(limits.RECORDED_MS, lambda: not self._recording)

    def _fork(self) -> int:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()  # or both halves would write it
        for _ in range(FORK_TRIES):
            # A signal to the group that came in between would be heard twice by one, as its own.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, self._ears.numbers)
            try:
                pid = os.fork()
                if not pid:
                    self._ears.close()
                return pid
            except OSError:
                time.sleep(limits.RESTART_MS / 1_000)  # short of memory, or of pids
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise OutlastError("the system starts no more processes; the worker's cannot be started")


class Ears:
    """Signals as bytes in a pipe: to wait for one costs nothing, and none is lost."""

    def __init__(self) -> None:
        self._reads, self._writes = os.pipe()
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        # Who was started by `nohup` goes on to hear no hang-up.
        deaf = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        self.numbers = {signal.SIGCHLD, *ORDERS, *PASSED_ON} - deaf
        self._before = {number: signal.signal(number, _heard) for number in self.numbers}

    def wait(self, limit_s: float | None) -> bytes:
        """The numbers that have come, once there are any or the time is over."""
        if not select.select([self._reads], [], [], limit_s)[0]:
            return b""
        return os.read(self._reads, 4_096)

    def close(self) -> None:
        """Hear as before; in a process that was forked, too."""
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reads)
        os.close(self._writes)


def _heard(number: int, frame: FrameType | None) -> None:
    """The byte in the pipe says it all."""
