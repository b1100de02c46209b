"""A small correct target: leases, a fenced log and an effect ledger in one SQLite file.

Each broken target is this one with one rule taken out. The store's clock is the machine's
monotonic one, put at wall time when the store was made: no worker's wall clock decides anything.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

try:
    from tests.draintest.ledger import Gone, Parked, Store, verify
except ModuleNotFoundError:  # run as a program, from its own folder
    from ledger import Gone, Parked, Store, verify

pause = threading.Event().wait


class Worker:
    """Claims, runs, renews and reaps; SIGTERM drains it."""

    def __init__(self, store, name, limits):
        self.store, self.name = store, name
        self.ttl_ms, self.grace_ms, self.budget = limits
        self.leases, self.draining, self.lock = {}, 0.0, threading.Lock()

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: self.drain())
        threading.Thread(target=self.beat, daemon=True).start()
        print("ready", flush=True)
        while not (self.draining and self.is_over()):
            self.tick()
            pause(0.02)
        for lease in self.held():
            with contextlib.suppress(Gone):
                self.store.let_go(lease, "ready", reason="deadline")
        os._exit(75 if self.leases else 0)

    def tick(self):
        self.store.reap(self.budget)
        if not self.draining and len(self.leases) < 5:
            lease = self.store.claim(self.name, self.ttl_ms)
            if lease:
                with self.lock:
                    self.leases[lease.task, lease.epoch] = lease
                threading.Thread(target=self.attempt, args=[lease], daemon=True).start()

    def drain(self):
        self.draining = self.draining or time.monotonic()
        for lease in self.held():
            lease.stop = lease.stop or "drain"

    def is_over(self):
        return not self.leases or time.monotonic() > self.draining + self.grace_ms / 1000

    def held(self):
        with self.lock:
            return list(self.leases.values())

    def beat(self):
        while True:
            for lease in self.held():
                row = self.store.renew(lease, self.ttl_ms)
                if row is None:
                    lease.stop = "lost"
                elif row["cancel"]:
                    lease.stop = "cancel"
                    self.end_children(lease)
            pause(self.ttl_ms / 4000)

    def end_children(self, lease):
        for child in lease.children:
            child.kill()
            child.wait()

    # -- one attempt ------------------------------------------------------------------------------

    def attempt(self, lease):
        try:
            self.perform_all(lease, json.loads(self.store.row(lease.task)["program"]))
        except (Gone, Parked):
            pass
        finally:
            self.afterwards(lease)
            with self.lock:
                self.leases.pop((lease.task, lease.epoch), None)

    def afterwards(self, lease):
        """A place for what should not happen."""

    def perform_all(self, lease, program):
        known = self.recall(lease)
        after = []
        for act in program["acts"]:
            if act["name"] not in known:
                self.boundary(lease)
                known[act["name"]] = self.perform(lease, program["scenario"], act, list(after))
            after.append(known[act["name"]])
        self.boundary_at_end(lease)
        self.store.end(lease, "succeeded")

    def recall(self, lease):
        known = self.store.results(lease.task)
        if lease.epoch > 1:
            self.store.write(lease, "replayed")
        return known

    def boundary(self, lease):
        if lease.stop == "lost" or self.store.renew(lease, self.ttl_ms) is None:
            raise Gone
        if lease.stop == "cancel" or self.store.row(lease.task)["cancel"]:
            self.end_children(lease)
            self.store.end(lease, "cancelled")
            raise Parked
        if lease.stop == "drain":
            self.hand_over(lease)
            raise Parked

    def boundary_at_end(self, lease):
        if lease.stop != "drain":
            self.boundary(lease)

    def hand_over(self, lease):
        self.store.let_go(lease, "ready", reason="drain")

    def perform(self, lease, scenario, act, after):
        said = {"scenario": scenario, "task": lease.task, "act": act["name"], "after": after}
        fields = ("provider", "queryable", "policy", "arguments")
        said |= {field: act.get(field) for field in fields} | {"epoch": lease.epoch}
        if act["kind"] == "effect":
            result = self.effect(lease, act, said)
        elif act["kind"] == "step":
            result = tell(said | {"key": None})
        else:
            result = self.other(lease, act)
        self.store.record(lease, act, result)
        return result

    def effect(self, lease, act, said):
        said["key"] = self.key(lease, act)
        if self.store.intend(lease, act) == "intended":
            receipt = self.in_doubt(lease, act, said)
            if receipt is not None:
                return receipt
        try:
            return tell(said)
        except Refused:
            self.store.clear(lease, act)
            raise Gone from None

    def key(self, lease, act):
        return f"{lease.task}/{act['name']}"

    def in_doubt(self, lease, act, said):
        """The receipt, if it was done; None: do it again. Raises Parked: a person must say."""
        if act["policy"] == "retry":
            return None
        if act["policy"] == "probe":
            return ask("/find", said)["receipt"]
        self.store.let_go(lease, "review", reason="review")
        raise Parked

    def other(self, lease, act):
        if act["kind"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif act["kind"] == "spawn":
            lease.children.append(subprocess.Popen(["sleep", str(act["s"])]))
        else:
            pause(act["ms"] / 1000)


class Refused(Exception):
    """The provider did nothing: its fence says that somebody newer was there."""


def tell(said):
    """Act on the world; its receipt."""
    return ask("/act", said)["receipt"]


def ask(path, said):
    host = os.environ["DRAINTEST_WORLD"].removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=600)
    try:
        connection.request("POST", path, json.dumps({**said, "pid": os.getpid()}))
        answer = connection.getresponse()
        told = json.loads(answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise Gone from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(told)
    return told


def command(store, words):
    """Run one command but `worker`; its answer."""
    name, *words = words
    if name == "prepare":
        return store.make() or {}
    if name == "submit":
        return store.submit(json.loads(words[0]))
    if name == "verify":
        return verify(*words)
    return getattr(store, name)(*words)


def main(store_type=Store, worker_type=Worker, words=None):
    """PATH worker NAME TTL GRACE BUDGET, or PATH COMMAND ..., or `warm`: commands a line."""
    words = sys.argv[1:] if words is None else words
    if words == ["warm"]:
        return warm(store_type)
    path, *words = words
    if words[0] == "worker":
        name, *limits = words[1:]
        return worker_type(store_type(path), name, list(map(int, limits))).run()
    return print(json.dumps(command(store_type(path), words)))


def warm(store_type):
    stores = {}
    for line in sys.stdin:
        path, *words = json.loads(line)
        try:
            store = stores.setdefault(path, store_type(path))
            answer = {"code": 0, "output": json.dumps(command(store, words)), "errors": ""}
        except Exception as error:
            answer = {"code": 1, "output": "", "errors": repr(error)}
        if words[0] == "clean_up":
            stores.pop(path, None)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
