"""Verbs on leases: claim, renew, look, reap, and the end of a worker that was seen to die."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core import chain, counters, limits
from ..core.lifecycle import after, body_of, text_of
from ..core.model import Effect, Entry, Grant, Lease, Task
from ..core.vigil import Gap, Vigil
from .base import Verbs, keys_of
from .database import Call, LockedOut, LogMoved, Session
from .tasks import answer_cancel, end_lapsed, open_intents, progressed, resume_delay_ms
from .verbs import Claim, Heartbeat, Look, Reaped, Renewal, Renewed
from .writing import (
    Chapter,
    append_call,
    counter_calls,
    effect_of,
    event_of,
    lease_of,
    locked_task,
    news_calls,
    store_task,
    task_of,
)


class LeaseVerbs(Verbs):
    """What workers ask of leases."""

    # -- claim --------------------------------------------------------------------------------

    def claim(self, claim: Claim) -> list[Grant]:
        return self._with_patience("claim", lambda: self._claim(claim))

    def _claim(self, claim: Claim) -> list[Grant]:
        with self.database.transaction() as session:
            mine = {"worker": claim.worker.id}
            again, known = session.send(
                [("leases_by_token", {**mine, "token": claim.token}), ("get_worker", mine)]
            )
            if not again and known and known[0]["state"] != "active":
                return []  # it drains, and has not heard of it yet
            if again:
                return [self._grant_again(session, lease_of(row)) for row in again]
            picked, now_ms = self._pick(session, claim)
            if not picked:
                return []
            entries = [_grant_entry(task, claim, now_ms) for task in picked]
            inserted = session.send([append_call(entry) for entry in entries])
            grants = [
                _granted(task, entry, claim, now_ms)
                for task, entry, rows in zip(picked, entries, inserted, strict=True)
                if rows
            ]
            session.send_last(_grant_calls(grants))
            return grants

    def _pick(self, session: Session, claim: Claim) -> tuple[list[Task], int]:
        """Ready tasks, locked, queue by queue, and the time; a suspect alone, to an idle worker."""
        picked: list[Task] = []
        now_ms = 0
        room = min(claim.room, limits.CLAIM_BATCH)
        for queue in claim.queues:
            if room <= len(picked):
                break
            wanted = {
                "queue": queue,
                "agents": keys_of(claim.agents),
                "except_ids": keys_of(claim.except_ids),
                "suspect": limits.SUSPECT_RESUMES,
                "held": claim.held,
                "room": room - len(picked),
            }
            rows, [clock] = session.send([("pick_ready", wanted), ("read_clock", {})])
            picked += [task_of(row) for row in rows]
            now_ms = clock["now_ms"]
        suspects = [task for task in picked if task.resumes >= limits.SUSPECT_RESUMES]
        return suspects[:1] or sorted(picked, key=lambda task: task.id), now_ms

    def _grant_again(self, session: Session, lease: Lease) -> Grant:
        task = task_of(session.run("get_task", task_id=lease.task_id)[0])
        rows = session.run("read_events", task_id=task.id, after=task.head_seq - 1, limit=1)
        return Grant(task, lease, event_of(rows[0]), task.reason)  # type: ignore[arg-type]

    # -- renew --------------------------------------------------------------------------------

    def renew(
        self, worker_id: str, renewals: Sequence[Renewal], *, loop_blocked_ms: int = 0
    ) -> Heartbeat:
        # Tried once: a heartbeat that waits is late for its other leases; it is asked again anyway.
        return self._with_patience(
            "renew", lambda: self._renew(worker_id, renewals, loop_blocked_ms), tries=1
        )

    def _renew(
        self, worker_id: str, renewals: Sequence[Renewal], loop_blocked_ms: int
    ) -> Heartbeat:
        asked = {renewal.task_id: renewal for renewal in renewals}
        texts = msgspec.json.encode(asked).decode()
        with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
            calls: list[Call] = []
            if asked:
                calls = [("renew", {"renewals": texts}), ("held_leases", {"renewals": texts})]
            beat = ("beat_worker", {"worker": worker_id, "loop_blocked_ms": loop_blocked_ms})
            *answers, worker = session.send([*calls, beat])
            now_ms = session.run("read_clock")[0]["now_ms"]
        renewed, there = answers or ([], [])
        leases = _renewed(
            asked, {row["task_id"] for row in renewed}, {r["task_id"]: r for r in there}
        )
        if not worker or worker[0]["state"] == "retired":
            return Heartbeat(now_ms, leases, drain=False, known=False)
        drain = worker[0]["state"] != "active"
        return Heartbeat(now_ms, leases, drain=drain, drain_by=worker[0]["drain_by"])

    # -- look ---------------------------------------------------------------------------------

    def look(self, queues: Sequence[str], agents: Sequence[str]) -> Look:
        wanted = {"queues": keys_of(queues), "agents": keys_of(agents)}
        seen = self.database.once("look", **wanted, limit=limits.CLAIM_BATCH)[0]
        planned = [ms for ms in (seen["next_timer_ms"], seen["next_task_ms"]) if ms is not None]
        suspect_ms = seen["suspect_due_ms"]
        return Look(
            now_ms=seen["now_ms"],
            server=self.database.server,
            ready=seen["ready"],
            suspect_ms=None if suspect_ms is None else seen["now_ms"] - suspect_ms,
            lapsed=seen["lapsed"] + seen["timers"],
            reviews=seen["reviews"],
            next_due_ms=min(planned, default=None),
            workers=seen["workers"],
            timeline=self.database.timeline,
        )

    # -- reap ---------------------------------------------------------------------------------

    def reap(
        self,
        *,
        since_ms: int | None,
        gaps: Sequence[Gap] = (),
        limit: int = limits.REAP_BATCH,
    ) -> Reaped:
        seen = _seen(since_ms, gaps)
        found: dict[str, list[str]] = {name: [] for name in Reaped.__struct_fields__}
        found["spared"] = self._with_patience("spare", lambda: self._spare(seen))
        for row in self.database.once("lapsed_leases", limit=limit):
            what = self._reap_one(row["task_id"], row["grant"], seen)
            if what:
                found[what].append(row["task_id"])
        woken = self._with_patience("wake", lambda: self._wake(limit))
        found["woken"] = woken
        found["reviewed"] = self._end_reviews(limit)
        return Reaped(**found)

    def _reap_one(self, task_id: str, grant: str, seen: Vigil) -> str:
        """One task a transaction, and nobody is waited for: on to the next."""
        for _ in range(limits.REAP_TRIES):
            try:
                with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
                    return self._expire(session, task_id, grant, seen)
            except LogMoved:
                continue
            except LockedOut:
                if not self.database.end_blockers(task_id):
                    return "blocked"
        return "blocked"

    def _expire(self, session: Session, task_id: str, grant: str, seen: Vigil) -> str:
        task = locked_task(session, task_id)
        rows = session.run("lock_lapsed_lease", task_id=task_id, grant=grant)
        if not rows:
            return ""
        lease = lease_of(rows[0])
        now_ms = session.run("read_clock")[0]["now_ms"]
        sure = seen.looked(seen.server, now_ms).is_sure(now_ms, lease.ttl_ms)
        if not lease.spared and not sure:
            return "blocked"  # it lapsed, or was locked, just after all were spared: the next time
        chapter = Chapter(session, task, now_ms, worker=lease.worker)
        end_lapsed(chapter, lease)
        what = "expired"
        if answer_cancel(chapter):
            what = "cancelled"
        elif give_up(chapter):
            what = "abandoned"
        chapter.close(("delete_lease", {"task_id": task_id, "epoch": lease.epoch}))
        return what

    def _spare(self, seen: Vigil) -> list[str]:
        """Amnesty for all that this reaper cannot be sure of."""
        with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
            now_ms = session.run("read_clock")[0]["now_ms"]
            spared: list[str] = []
            for gap_ms, gap_end_ms in seen.looked(seen.server, now_ms).gaps:
                rows = session.run("spare_unsure", gap_ms=gap_ms, gap_end_ms=gap_end_ms)
                spared += [row["task_id"] for row in rows]
            return spared

    def _wake(self, limit: int) -> list[str]:
        with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
            woken = session.run("wake_timers", limit=limit)
            woken += session.run("wake_signalled", limit=limit)
            return [row["id"] for row in woken]

    def _end_reviews(self, limit: int) -> list[str]:
        """Reviews whose last doubt has ended elsewhere: by a zombie's word, or another task's."""
        ended = []
        for row in self.database.once("reviews", after="", limit=limit):
            try:
                if self._end_review(row["id"]):
                    ended.append(row["id"])
            except LockedOut:
                continue
        return ended

    def _end_review(self, task_id: str) -> bool:
        with self.database.transaction(lock_timeout_ms=limits.LOCK_TIMEOUT_MS) as session:
            task = locked_task(session, task_id)
            doubts = msgspec.json.decode(task.doubts or "[]")
            if task.state != "review" or not doubts:
                return False
            found = {key: session.run("lock_effect", key=key) for key in sorted(doubts)}
            effects = {key: effect_of(rows[0]) for key, rows in found.items() if rows}
            known = {key: _known(effects[key]) for key in effects}
            if len(known) < len(doubts) or not all(known.values()):
                return False
            now_ms = session.run("read_clock")[0]["now_ms"]
            chapter = Chapter(session, task, now_ms)
            for left, (key, body) in enumerate(sorted(known.items()), 1 - len(known)):
                chapter.add("effect.settled", {"key": key, **body, "ends_review": left == 0})  # type: ignore[dict-item]
            chapter.close()
            return True

    # -- a death that was seen ------------------------------------------------------------------

    def crash(self, worker_id: str, *, by: str) -> list[str]:
        rows = self.database.once("leases_of_worker", worker=worker_id)
        leases = [lease_of(row) for row in rows]
        return [lease.task_id for lease in leases if self._crash_one(lease, by)]

    def _crash_one(self, lease: Lease, by: str) -> bool:
        def act() -> bool:
            with self.database.transaction() as session:
                task = locked_task(session, lease.task_id)
                rows = session.run("lock_lease", task_id=lease.task_id)
                if not rows or rows[0]["grant"] != lease.grant:
                    return False
                now_ms = session.run("read_clock")[0]["now_ms"]
                chapter = Chapter(session, task, now_ms, worker=lease.worker)
                had_result = progressed(session, task)
                delay_ms = resume_delay_ms(1 if had_result else task.resumes + 1)
                body = {"reason": "crashed", "by": by, "progressed": had_result,
                        "due_ms": now_ms + delay_ms}  # fmt: skip
                chapter.take_over("lease.released", body, lease)
                answer_cancel(chapter) or give_up(chapter)
                chapter.close(("delete_lease", {"task_id": task.id, "epoch": lease.epoch}))
                return True

        return self._with_patience("crash", act)


# -- policy: pure -------------------------------------------------------------------------------


def _seen(since_ms: int | None, gaps: Sequence[Gap]) -> Vigil:
    """The reaper's watch until its last look."""
    return Vigil("", since_ms, tuple((length_ms, end_ms) for length_ms, end_ms in gaps))


def give_up(chapter: Chapter) -> bool:
    """Fail a task that has ended too many leases (source: semantics, `max_resumes`)."""
    task = chapter.task
    if task.resumes <= task.max_resumes and task.expiries <= task.max_expiries:
        return False
    said = (
        f"{task.resumes} leases in a row ended without a result (max_resumes {task.max_resumes}), "
        f"{task.expiries} in all (max_expiries {task.max_expiries})"
    )
    error = {"type": "Abandoned", "message": said}
    intents = open_intents(chapter.session, task.id)
    chapter.end("task.failed", {"reason": "abandoned", "error": error}, intents)
    return True


def _known(effect: Effect) -> dict[str, object] | None:
    """How a doubt in the ledger has ended by now, as the body of `effect.settled`; None: open."""
    if effect.observed is not None:
        observed = msgspec.json.decode(effect.observed)
        if observed.get("applied"):
            return {"applied": True, "result": observed.get("result"), "by": "observation",
                    "why": "the old owner reported it"}  # fmt: skip
    if effect.state in ("applied", "not_applied"):
        result = None if effect.result is None else msgspec.Raw(effect.result.encode())
        return {"applied": effect.state == "applied", "result": result,
                "by": f"task {effect.task_id}", "why": "resolved there"}  # fmt: skip
    return None


def _renewed(
    asked: dict[str, Renewal], renewed: set[str], there: dict[str, dict[str, object]]
) -> dict[str, Renewed]:
    answers = {}
    for task_id, renewal in asked.items():
        row = there.get(task_id)
        if row is None or row["grant"] != renewal.grant:
            answers[task_id] = Renewed("lost")
            continue
        row = {k: v for k, v in row.items() if k not in ("task_id", "grant")}
        answers[task_id] = Renewed("held" if task_id in renewed else "again", **row)  # type: ignore[arg-type]
    return answers


def _grant_entry(task: Task, claim: Claim, now_ms: int) -> Entry:
    agent = claim.agents[task.agent]
    body = {
        "epoch": task.epoch + 1,
        "worker": claim.worker.id,
        "host": claim.worker.host,
        "pid": claim.worker.pid,
        "build": claim.worker.build,
        "ttl_ms": claim.ttl_ms,
        "reason": task.reason,
        "max_resumes": agent.max_resumes,
        "max_expiries": agent.max_expiries,
        "token": claim.token,
    }
    quote = chain.Quote.of_head(task)
    return chain.entry(
        quote, 0, holder=task.epoch + 1, kind="lease.granted", body=text_of(body), at_ms=now_ms
    )


def _granted(task: Task, entry: Entry, claim: Claim, now_ms: int) -> Grant:
    event = entry.event
    task = after(task, event)
    lease = Lease(
        task_id=task.id,
        grant=event.digest,
        epoch=task.epoch,
        worker=claim.worker.id,
        token=claim.token,
        ttl_ms=claim.ttl_ms,
        granted_ms=now_ms,
        expires_ms=now_ms + claim.ttl_ms,
        spared=0,
        beat_ms=now_ms,
        progress_ms=now_ms,
        doing=None,
    )
    return Grant(task, lease, event, task.reason)  # type: ignore[arg-type]


def _grant_calls(grants: Sequence[Grant]) -> list[Call]:
    counts: list[counters.Count] = []
    calls: list[Call] = []
    for grant in grants:
        lease = grant.lease
        params = {name: getattr(lease, name) for name in (
            "task_id", "grant", "epoch", "worker", "token", "ttl_ms", "granted_ms", "expires_ms",
        )}  # fmt: skip
        calls += [store_task(grant.task), ("insert_lease", params)]
        calls += news_calls(grant.event, body_of(grant.event), grant.task)
        counts += counters.counted(grant.event, body_of(grant.event), grant.task)
    worker = grants[0].lease.worker if grants else ""
    return [*calls, *counter_calls(counts, worker)]
