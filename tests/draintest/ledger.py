"""The reference target's store: tasks, a log that is a chain, results and intents, in SQLite."""

import contextlib
import hashlib
import json
import os
import sqlite3
import threading
import time

FINAL = ("succeeded", "failed", "cancelled")
TABLES = """
create table clock (offset_ms integer);
create table tasks (id text primary key, program text, state text, epoch integer, pid integer,
    name text, heard_ms integer, expires_ms integer, cancel integer, resumes integer);
create table log (task text, seq integer, kind text, epoch integer, at_ms integer, body text,
    digest text, primary key (task, seq));
create table results (task text, act text, result text, primary key (task, act));
create table intents (task text, act text, state text, primary key (task, act));
"""


class Gone(Exception):
    """The lease is lost, or was let go: nothing was written."""


class Parked(Exception):
    """The attempt has ended by itself: in review, drained or cancelled."""


class Lease:
    """What an attempt owns; `stop` says why it should end at its next boundary."""

    def __init__(self, task, epoch, name):
        self.task, self.epoch, self.name = task, epoch, name
        self.stop, self.children = "", []


class Store:
    """Everything that is written; each method is one transaction."""

    def __init__(self, path):
        self.path, self.local = path, threading.local()

    def make(self):
        self.db().executescript(TABLES)
        offset = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000
        self.db().execute("insert into clock values (?)", [offset])

    def db(self):
        if not hasattr(self.local, "db"):
            self.local.db = sqlite3.connect(self.path, isolation_level=None, timeout=20)
            self.local.db.row_factory = sqlite3.Row
            self.local.db.executescript("pragma journal_mode=wal; pragma synchronous=off")
        return self.local.db

    @contextlib.contextmanager
    def tx(self):
        db = self.db()
        db.execute("begin immediate")
        try:
            yield db
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")

    def now_ms(self):
        offset = self.db().execute("select offset_ms from clock").fetchone()[0]
        return time.monotonic_ns() // 1_000_000 + offset

    def row(self, task):
        return self.db().execute("select * from tasks where id = ?", [task]).fetchone()

    def add(self, task, kind, epoch, **body):
        last = self.db().execute(
            "select seq, digest from log where task = ? order by seq desc limit 1", [task]
        ).fetchone()  # fmt: skip
        seq, before = (last["seq"], last["digest"]) if last else (0, "")
        line = [task, seq + 1, kind, epoch, self.now_ms(), json.dumps(body)]
        stamp = hashlib.sha256(json.dumps([before, *line]).encode()).hexdigest()
        self.db().execute("insert into log values (?,?,?,?,?,?,?)", [*line, stamp])

    def set(self, task, **values):
        for name, value in values.items():
            self.db().execute(f"update tasks set {name} = ? where id = ?", [value, task])

    # -- owners -----------------------------------------------------------------------------------

    def allowed(self, row, lease):
        """The fence: only the lease that is held now writes."""
        return row["state"] == "running" and row["epoch"] == lease.epoch

    @contextlib.contextmanager
    def writing(self, lease):
        with self.tx() as db:
            if not self.allowed(self.row(lease.task), lease):
                raise Gone
            yield db

    def write(self, lease, kind, **body):
        with self.writing(lease):
            self.add(lease.task, kind, lease.epoch, **body)

    def claim(self, name, ttl_ms):
        with self.tx() as db:
            row = db.execute("select * from tasks where state = 'ready' limit 1").fetchone()
            return None if row is None else self.grant(row, name, ttl_ms)

    def grant(self, row, name, ttl_ms):
        lease = Lease(row["id"], row["epoch"] + 1, name)
        now_ms = self.now_ms()
        self.set(row["id"], state="running", epoch=lease.epoch, pid=os.getpid(), name=name,
                 heard_ms=now_ms, expires_ms=now_ms + ttl_ms)  # fmt: skip
        self.add(row["id"], "granted", lease.epoch, pid=os.getpid(), worker=name, ttl_ms=ttl_ms)
        return lease

    def renew(self, lease, ttl_ms):
        """Its row, renewed; None if the lease is lost."""
        with self.tx():
            row = self.row(lease.task)
            if row["state"] != "running" or row["epoch"] != lease.epoch:
                return None
            now_ms = self.now_ms()
            self.set(lease.task, heard_ms=now_ms, expires_ms=now_ms + ttl_ms)
            return row

    def lapsed(self, row):
        return row["expires_ms"] < self.now_ms()

    def reap(self, budget):
        with self.tx() as db:
            for row in db.execute("select * from tasks where state = 'running'").fetchall():
                if self.lapsed(row):
                    self.bury(row, budget)

    def bury(self, row, budget):
        self.add(row["id"], "expired", 0, expires_ms=row["expires_ms"])
        resumes = row["resumes"] + 1
        if row["cancel"]:
            self.finish(row["id"], 0, "cancelled")
        elif resumes > budget:
            self.finish(row["id"], 0, "failed")
        else:
            self.set(row["id"], state="ready", resumes=resumes)

    def finish(self, task, epoch, state):
        self.set(task, state=state)
        self.add(task, "ended", epoch, state=state)

    def end(self, lease, state):
        with self.writing(lease):
            self.finish(lease.task, lease.epoch, state)

    def let_go(self, lease, state, **body):
        with self.writing(lease):
            self.set(lease.task, state=state)
            self.add(lease.task, "released", lease.epoch, **body)

    # -- results ----------------------------------------------------------------------------------

    def results(self, task):
        found = self.db().execute("select act, result from results where task = ?", [task])
        return {row["act"]: json.loads(row["result"]) for row in found}

    def record(self, lease, act, result):
        with self.writing(lease) as db:
            kind = "applied" if act["kind"] == "effect" else "recorded"
            self.add(lease.task, kind, lease.epoch, act=act["name"])
            put = "insert or replace into results values (?,?,?)"
            db.execute(put, [lease.task, act["name"], json.dumps(result)])
            self.set(lease.task, resumes=0)

    def intend(self, lease, act):
        """Say that it is about to be done; what was said before: "", intended, not_applied."""
        with self.writing(lease) as db:
            find = "select state from intents where task = ? and act = ?"
            before = db.execute(find, [lease.task, act["name"]]).fetchone()
            if before is None:
                self.add(lease.task, "intended", lease.epoch, act=act["name"])
            put = "insert or replace into intents values (?,?,'intended')"
            db.execute(put, [lease.task, act["name"]])
            return before["state"] if before else ""

    def clear(self, lease, act):
        """It is known not to have been done."""
        with self.writing(lease) as db:
            db.execute("delete from intents where task = ? and act = ?", [lease.task, act["name"]])

    # -- everybody --------------------------------------------------------------------------------

    def submit(self, program):
        with self.tx() as db:
            task = f"t{db.execute('select count(*) from tasks').fetchone()[0] + 1}"
            values = [task, json.dumps(program), "ready", 0, 0, "", 0, 0, 0, 0]
            db.execute("insert into tasks values (?,?,?,?,?,?,?,?,?,?)", values)
            self.add(task, "submitted", 0)
            return {"id": task}

    def cancel(self, task):
        with self.tx():
            state = self.row(task)["state"]
            self.set(task, cancel=1)
            if state not in ("running", *FINAL):
                self.finish(task, 0, "cancelled")
            return {}

    def settle(self, task, act, receipt):
        with self.tx() as db:
            if receipt:
                put = "insert or replace into results values (?,?,?)"
                db.execute(put, [task, act, json.dumps(receipt)])
            change = "update intents set state = 'not_applied' where task = ? and act = ?"
            db.execute(change, [task, act])
            self.add(task, "settled", 0, act=act)
            self.set(task, state="ready")
            return {}

    def tasks(self):
        doubts = (
            self.db()
            .execute("""select * from intents i where not exists
            (select 1 from results r where r.task = i.task and r.act = i.act)""")
            .fetchall()
        )
        return {"items": [
            {"id": row["id"], "state": row["state"], "epoch": row["epoch"], "effects": [
                {"act": d["act"], "state": "unknown"} for d in doubts if d["task"] == row["id"]]}
            for row in self.db().execute("select * from tasks")]}  # fmt: skip

    def owners(self):
        held = self.db().execute("select * from tasks where state = 'running'")
        return {"items": [self.owner(row) for row in held]}

    def owner(self, row):
        told = {"task": row["id"], "worker": row["name"], "store_ms": self.now_ms()}
        return told | {name: row[name] for name in ("epoch", "pid", "expires_ms")}

    def lines(self):
        return [dict(row) for row in self.db().execute("select * from log order by task, seq")]

    def log(self):
        return {"items": [
            {**{name: line[name] for name in ("task", "seq", "kind", "epoch", "at_ms")},
             **json.loads(line["body"])} for line in self.lines()]}  # fmt: skip

    def metrics(self):
        told = {"resumes": {}, "terminal": {}, "silence_s": self.silence_s(), "repeated": 0}
        before, in_a_row = {}, {}
        for line in self.log()["items"]:
            kind, task = line["kind"], line["task"]
            if kind == "ended":
                told["terminal"][line["state"]] = told["terminal"].get(line["state"], 0) + 1
            if kind == "granted" and (why := before.get(task)):
                told["resumes"][why] = told["resumes"].get(why, 0) + 1
                in_a_row[task] = in_a_row.get(task, 0) + 1
                told["repeated"] += in_a_row[task] >= 3
            if kind in ("granted", "expired", "released", "waiting"):
                drained = line.get("reason") in ("drain", "deadline")
                before[task] = "expired" if kind == "expired" else "drain" * drained
        return told

    def silence_s(self):
        held = self.db().execute("select min(heard_ms) from tasks where state = 'running'")
        heard_ms = held.fetchone()[0]
        return 0 if heard_ms is None else (self.now_ms() - heard_ms) / 1000

    def clean_up(self):
        self.db().close()
        del self.local.db
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path + end)
        return {}

    def export(self, path):
        lines = "".join(json.dumps(line) + "\n" for line in self.lines())
        seal = json.dumps({"sha256": hashlib.sha256(lines.encode()).hexdigest()})
        with open(path, "w") as file:
            file.write(lines + seal + "\n")
        return {}


def verify(path):
    """Raises if the export is not as it was written, or its chain is broken."""
    with open(path) as file:
        *lines, seal = file.read().splitlines()
    whole = "".join(line + "\n" for line in lines)
    assert json.loads(seal)["sha256"] == hashlib.sha256(whole.encode()).hexdigest(), "the seal"
    before = {}
    for number, text in enumerate(lines, 1):
        line = json.loads(text)
        task = line["task"]
        fields = [line[n] for n in ("task", "seq", "kind", "epoch", "at_ms", "body")]
        wanted = hashlib.sha256(json.dumps([before.get(task, ""), *fields]).encode()).hexdigest()
        assert wanted == line["digest"], f"line {number} does not follow"
        before[task] = wanted
    return {}
