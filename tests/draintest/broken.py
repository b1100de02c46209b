"""The broken targets: the reference with one rule taken out, and the checks that must notice.

Run as a program: `broken.py NAME ...` is `reference.py ...` with that fault planted.
"""

import sys
import threading
import time
from dataclasses import dataclass

try:
    from tests.draintest import reference
    from tests.draintest.ledger import Parked, Store
    from tests.draintest.reference import Worker, tell
except ModuleNotFoundError:  # run as a program, from its own folder
    import reference
    from ledger import Parked, Store
    from reference import Worker, tell


@dataclass(frozen=True)
class Broken:
    """One planted fault. `caught_by`: every check that must fail; `seen_in`: where it shows."""

    caught_by: tuple[str, ...]
    seen_in: tuple[str, ...]
    store: type = Store
    worker: type = Worker


# -- the fence ------------------------------------------------------------------------------------


class NoFence(Store):
    def allowed(self, row, lease):
        return True


class FenceByName(Store):
    def allowed(self, row, lease):
        return row["state"] == "running" and row["name"] == lease.name


class CheckThenWrite(Store):
    """Looks whether it still owns the task when it begins an act, and not when it writes."""

    def record(self, lease, act, result):
        with self.tx():
            self.add(lease.task, "recorded", lease.epoch, act=act["name"])
            put = "insert or replace into results values (?,?,?)"
            self.db().execute(put, [lease.task, act["name"], f'"{result}"'])


class LateFinish(Worker):
    """Ends the task with its last act, whoever owns it by now."""

    def perform(self, lease, scenario, act, after):
        if len(after) < 3:
            return super().perform(lease, scenario, act, after)
        said = {"scenario": scenario, "task": lease.task, "act": act["name"], "after": after}
        said |= {"provider": act["provider"], "key": self.key(lease, act), "epoch": lease.epoch}
        if self.store.intend(lease, act) != "intended" or not self.in_doubt(lease, act, said):
            tell({**said, "arguments": act["arguments"], "policy": act["policy"]})
        with self.store.tx():
            self.store.finish(lease.task, lease.epoch, "succeeded")
        raise Parked


class WritesAfterRelease(Worker):
    """Its `finally` has one more thing to say."""

    def afterwards(self, lease):
        if lease.stop == "drain":
            with self.store.tx():
                self.store.add(lease.task, "recorded", lease.epoch, act="last words")


class ResendUndoesHeir(Store):
    """The old owner's release, sent again since its answer was lost, takes the heir's lease."""

    def claim(self, name, ttl_ms):
        lease = super().claim(name, ttl_ms)
        if lease and lease.epoch == 2:
            with self.tx():
                self.add(lease.task, "released", 1, reason="again")
                self.set(lease.task, state="ready")
        return lease


class EpochStandsStill(Store):
    def grant(self, row, name, ttl_ms):
        return super().grant({**dict(row), "epoch": 0}, name, ttl_ms)


# -- leases ---------------------------------------------------------------------------------------


class WorkerClock(Store):
    def lapsed(self, row):
        return row["expires_ms"] < time.time() * 1000


class TooEarly(Store):
    def lapsed(self, row):
        return row["expires_ms"] - 450 < self.now_ms()


class NeverRenews(Store):
    def renew(self, lease, ttl_ms):
        row = self.row(lease.task)
        mine = row["state"] == "running" and row["epoch"] == lease.epoch
        return row if mine else None


class RenewsInItsLoop(Worker):
    """What holds up an agent holds up the heartbeat."""

    def __init__(self, *words):
        super().__init__(*words)
        self.loop = threading.Lock()
        self.store.renew = self.in_loop(self.store.renew)

    def in_loop(self, function):
        def call(*words):
            with self.loop:
                return function(*words)

        return call

    def other(self, lease, act):
        with self.loop:
            super().other(lease, act)


class RunningForEver(Store):
    def reap(self, budget):
        """Whoever owned it owns it."""


class PoisonLoop(Store):
    def bury(self, row, budget):
        super().bury(row, 10**9)


# -- drain ----------------------------------------------------------------------------------------


class StopsItsHeart(Worker):
    """On SIGTERM the heartbeat is the first to go."""

    def __init__(self, *words):
        super().__init__(*words)
        renew = self.store.renew
        self.store.renew = lambda lease, ttl_ms: (
            self.store.row(lease.task) if self.draining else renew(lease, ttl_ms)
        )


class Forgets(Worker):
    def hand_over(self, lease):
        """Somebody will notice."""


class WaitsForEver(Worker):
    def is_over(self):
        return not self.leases


# -- replay and effects ---------------------------------------------------------------------------


class NoReplay(Worker):
    def recall(self, lease):
        super().recall(lease)
        return {}


class ReplaysLate(Worker):
    """Does the first thing that is left, and then reads what was done before."""

    def perform_all(self, lease, program):
        self.late = lease.epoch > 1
        super().perform_all(lease, program)

    def recall(self, lease):
        return self.store.results(lease.task) if self.late else super().recall(lease)

    def perform(self, lease, scenario, act, after):
        result = super().perform(lease, scenario, act, [] if self.late else after)
        if self.late:
            self.late = False
            self.store.write(lease, "replayed")
        return result


class KeyFromAttempt(Worker):
    def key(self, lease, act):
        return f"{lease.task}/{act['name']}/{lease.epoch}"


class ResendsOnUnknown(Worker):
    def in_doubt(self, lease, act, said):
        return None


class SwallowsUnknown(Worker):
    def in_doubt(self, lease, act, said):
        return "assumed to be done"


# -- orders ---------------------------------------------------------------------------------------


class ActsAfterCancel(Store):
    def cancel(self, task):
        with self.tx():
            if self.row(task)["state"] == "running":
                return {}
        return super().cancel(task)


class OrphanedChild(Worker):
    def end_children(self, lease):
        """They will find their way."""


# -- records --------------------------------------------------------------------------------------


class CountsInProcess(Store):
    def metrics(self):
        return {"resumes": {}, "terminal": {}}


class HearsTheDead(Store):
    def silence_s(self):
        return 0


class CountsNoRow(Store):
    def metrics(self):
        return {**super().metrics(), "repeated": 0}


class LosesSubmits(Store):
    count = 0

    def submit(self, program):
        LosesSubmits.count += 1
        if LosesSubmits.count % 6 == 0:
            return {"id": f"lost{LosesSubmits.count}"}
        return super().submit(program)


class ForgesExport(Store):
    def lines(self):
        found = super().lines()
        found[1] = {**found[1], "at_ms": found[1]["at_ms"] + 1}
        return found


class Litters(Store):
    def clean_up(self):
        return {}


STOPPED = ("stop-charge-applied",)
KILLED = ("kill-charge-applied",)
TARGETS = {
    "no fence": Broken(("C4",), STOPPED, store=NoFence),
    "fence by worker name": Broken(("C4",), STOPPED, store=FenceByName),
    "check then write": Broken(("C4",), STOPPED, store=CheckThenWrite),
    "expiry by the worker's clock": Broken(("C2",), ("clock-of-heir",), store=WorkerClock),
    "takeover too early": Broken(("C2",), KILLED, store=TooEarly),
    "never renews": Broken(("C2",), ("long-call",), store=NeverRenews),
    "renewal dies with the event loop": Broken(("C2",), ("blocked",), worker=RenewsInItsLoop),
    "heartbeat stops first on drain": Broken(("C11",), ("drain-slow",), worker=StopsItsHeart),
    "drain forgets the task": Broken(("C11",), ("term-charge-applied",), worker=Forgets),
    "drain waits for ever": Broken(("C11",), ("drain-endless",), worker=WaitsForEver),
    "no replay": Broken(("C5",), KILLED, worker=NoReplay),
    "replay after the first effect": Broken(("C5",), KILLED, worker=ReplaysLate),
    "key from the attempt": Broken(("C6",), KILLED, worker=KeyFromAttempt),
    "resend on unknown": Broken(("C7",), ("kill-email-applied",), worker=ResendsOnUnknown),
    "swallow unknown": Broken(("C7",), ("kill-email-applied",), worker=SwallowsUnknown),
    "effect after cancel": Broken(("C10",), ("cancel-running",), store=ActsAfterCancel),
    "orphaned child": Broken(("C10",), ("cancel-child",), worker=OrphanedChild),
    "late finish accepted": Broken(("C4", "C9"), ("stop-ticket-applied",), worker=LateFinish),
    "a write after its own release": Broken(
        ("C4",), ("term-charge-applied",), worker=WritesAfterRelease
    ),
    "a resend that undoes the heir's lease": Broken(
        ("C1", "C4"), ("term-charge-applied",), store=ResendUndoesHeir
    ),
    "counters in the process": Broken(("C13",), KILLED, store=CountsInProcess),
    "hears the dead": Broken(("C13",), ("cancel-orphan",), store=HearsTheDead),
    "counts no row": Broken(("C13",), ("poison",), store=CountsNoRow),
    "running for ever": Broken(("C2", "C8"), ("kill-email-before",), store=RunningForEver),
    "poison loop": Broken(("C12",), ("poison",), store=PoisonLoop),
    "loses a submit": Broken(("C8",), ("many-submits",), store=LosesSubmits),
    "exports a forged log": Broken(("C14",), ("calm",), store=ForgesExport),
    "epochs stand still": Broken(("C3",), KILLED, store=EpochStandsStill),
    "litters": Broken(("C15",), ("calm",), store=Litters),
}


if __name__ == "__main__":
    planted = TARGETS[sys.argv[1]]
    reference.main(planted.store, planted.worker, sys.argv[2:])
