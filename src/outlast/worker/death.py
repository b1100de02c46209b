"""How a worker's process has ended, and what follows from it: values and pure functions."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

from ..core import limits
from .drain import EXIT_OK, EXIT_UNAVAILABLE

EXIT_USAGE = 2
# As a shell says it of a process that a signal has ended.
SIGNALLED = 128
# A worker that ends so has held nothing: it was never enlisted, or has given all of it back.
HELD_NOTHING = (EXIT_OK, EXIT_USAGE, EXIT_UNAVAILABLE)


@dataclass(frozen=True)
class Death:
    """The end of one process. `signal`: the name of what killed it; "" where it ended by itself.

    `code`: as a shell would say it. `out_of_memory`: the kernel counts one more that it killed for
    want of memory since this one began.
    """

    pid: int
    code: int
    signal: str = ""
    lived_ms: int = 0
    out_of_memory: bool = False

    @property
    def how(self) -> str:
        if not self.signal:
            return f"exit code {self.code}"
        return self.signal + ", probably out of memory" * self.out_of_memory

    @property
    def may_have_held(self) -> bool:
        """Whether the store must be told, lest a lease of its waits for its expiry."""
        return self.code not in HELD_NOTHING


def death_of(pid: int, status: int, lived_ms: int, *, out_of_memory: bool = False) -> Death:
    """From the status that `waitpid` gives."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return Death(pid, code, "", lived_ms)
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    starved = out_of_memory and -code == signal.SIGKILL
    return Death(pid, SIGNALLED - code, name, lived_ms, starved)


def starts_again(death: Death, *, told: bool, replaces: bool) -> bool:
    """Whether another process takes its place.

    Only who was killed is replaced: an exit code is a decision, of the worker's or of its agents',
    and goes to whoever started us. `told`: we were asked to leave. `replaces`: it stood in for one
    that was killed; that the store is away just now is then no reason to give up.
    """
    if told:
        return False
    return bool(death.signal) or (replaces and death.code == EXIT_UNAVAILABLE)


def pause_ms(deaths: int) -> int:
    """How long to wait before the next start, after so many deaths in a row."""
    return min(limits.RESTART_MS << min(deaths - 1, 30), limits.RESTART_MAX_MS)


def deaths_in_a_row(before: int, lived_ms: int) -> int:
    """Counted with this one; after a life of some length it is the first again."""
    return 1 if lived_ms >= limits.LIVED_MS else before + 1


def exit_code(death: Death, told: int) -> int:
    """What the supervisor ends with. `told`: the signal by which it was asked to leave; 0: none.

    One that was not at work yet dies of the order itself, however it was passed on.
    """
    if told and death.signal == signal.SIGTERM.name:
        return SIGNALLED + told
    return death.code
