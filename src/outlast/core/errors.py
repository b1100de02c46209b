"""Every error that Outlast raises, sorted by who must act.

OutlastError
├─ UsageError            the caller
│  ├─ UnknownTask
│  ├─ UnknownAgent
│  ├─ UnknownEffect
│  ├─ UnknownWorker
│  ├─ UnknownToken
│  ├─ UnknownWebhook
│  ├─ NotSerializable
│  ├─ PayloadTooLarge
│  ├─ KeyReused
│  ├─ BadSetting
│  └─ BrokenChain
├─ Refused               nobody: nothing was written
│  ├─ LeaseLost
│  ├─ NotAllowedNow
│  ├─ NotSignedIn
│  └─ Forbidden
├─ NeedsReview           a person
│  ├─ EffectUnknown
│  ├─ EffectConflict
│  ├─ ReplayMismatch
│  └─ SchemaMismatch
├─ TaskEnded             the caller of result()
│  ├─ TaskFailed
│  └─ TaskCancelled
├─ NotDone               nobody: a tool says that nothing reached the world
└─ Unavailable           nobody: wait and try again

AttemptEnded             agent code must let it pass (a BaseException)
├─ Drained
├─ Cancelled
├─ LeaseLostNow
├─ TimedOut
├─ Suspended
└─ Reviewed
"""

from __future__ import annotations


class OutlastError(Exception):
    """Something that Outlast says; `exit_code` and `http_status` are how programs hear it."""

    exit_code = 1
    http_status = 500


class UsageError(OutlastError):
    """The caller asked for something that cannot be; nothing was written."""

    exit_code = 2
    http_status = 400


class UnknownTask(UsageError):
    """No task has this id."""

    exit_code = 3
    http_status = 404

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"there is no task {task_id!r} in this store; nothing was written. "
            "`outlast ps` lists the tasks"
        )
        self.task_id = task_id


class UnknownAgent(UsageError):
    """This worker or app has no agent of that name."""

    exit_code = 3
    http_status = 404

    def __init__(self, agent: str, known: tuple[str, ...] = ()) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"there is no agent {agent!r} here (known: {names}); nothing was written. "
            "Decorate a function with @app.agent, or correct the name"
        )
        self.agent = agent


class UnknownEffect(UsageError):
    """No effect has this key."""

    exit_code = 3
    http_status = 404

    def __init__(self, key: str) -> None:
        super().__init__(
            f"there is no effect with the key {key!r} in this store; nothing was written. "
            "`outlast effects` lists the keys"
        )
        self.key = key


class UnknownWorker(UsageError):
    """No worker has this id, or none matches."""

    exit_code = 3
    http_status = 404

    def __init__(self, worker: str) -> None:
        super().__init__(f"no worker is known as {worker!r}; nothing was written")
        self.worker = worker


class UnknownToken(UsageError):
    """No token has this id."""

    exit_code = 3
    http_status = 404

    def __init__(self, token_id: str) -> None:
        super().__init__(
            f"there is no token {token_id!r} in this store; nothing was written. "
            "`outlast token list` lists them"
        )
        self.token_id = token_id


class UnknownWebhook(UsageError):
    """No webhook has this id."""

    exit_code = 3
    http_status = 404

    def __init__(self, webhook_id: str) -> None:
        super().__init__(
            f"there is no webhook {webhook_id!r} in this store; nothing was written. "
            "`outlast webhook list` lists them"
        )
        self.webhook_id = webhook_id


class NotSerializable(UsageError):
    """A value would not come back from JSON as it went in."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"{what} cannot be recorded: {why}; it was not written. Return plain JSON values, "
            "or annotate the function with a type that can be rebuilt from JSON"
        )
        self.why = why


class PayloadTooLarge(UsageError):
    """A value is over the limit for one payload."""

    http_status = 413

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        self.why = f"it is {size_bytes:,} bytes as JSON, the limit is {limit_bytes:,}"
        super().__init__(
            f"{what} is {size_bytes:,} bytes as JSON, the limit is {limit_bytes:,}; it was not "
            "written. Store it elsewhere and record a reference"
        )


class KeyReused(UsageError):
    """A submit key that belongs to a task with other input."""

    http_status = 409

    def __init__(self, key: str, task_id: str) -> None:
        super().__init__(
            f"the submit key {key!r} belongs to task {task_id}, which has another agent or other "
            "input; nothing was written. Use another key, or submit the same input"
        )
        self.task_id = task_id


class BadSetting(UsageError):
    """A setting, flag or argument with a value that cannot be."""


class BrokenChain(UsageError):
    """A log whose digests do not follow from each other."""

    exit_code = 1

    def __init__(self, task_id: str, seq: int, why: str) -> None:
        super().__init__(f"the log of task {task_id} is broken at event {seq}: {why}")
        self.task_id, self.seq, self.why = task_id, seq, why


class Refused(OutlastError):
    """Nothing was written, by rule; nobody need act."""

    exit_code = 4
    http_status = 409


class LeaseLost(Refused):
    """The writer is no longer the holder of the task's log."""

    def __init__(
        self, task_id: str, epoch: int, why: str = "the log has gone on without it"
    ) -> None:
        super().__init__(
            f"epoch {epoch} of task {task_id} may not write: {why}; nothing was written"
        )
        self.task_id, self.epoch = task_id, epoch


class NotAllowedNow(Refused):
    """The state of the task does not allow this."""


class NotSignedIn(Refused):
    """A server wants a token, and was given none, or one that is not good any more."""

    http_status = 401


class Forbidden(Refused):
    """The token is good, but not for this."""

    http_status = 403


class NeedsReview(OutlastError):
    """A person must decide before this goes on."""

    exit_code = 6
    http_status = 409


class EffectUnknown(NeedsReview):
    """An effect may or may not have reached the world."""

    def __init__(self, key: str, tool: str) -> None:
        super().__init__(
            f"{tool} with the key {key!r} was begun and its outcome is not known; it was not begun "
            f"again. Look it up, then `outlast settle {key} --applied RECEIPT` or --not-applied"
        )
        self.key, self.tool = key, tool


class EffectConflict(NeedsReview):
    """An idempotency key that was used with other arguments."""

    def __init__(self, key: str, tool: str) -> None:
        super().__init__(
            f"the key {key!r} was used before with other arguments; {tool} was not called. "
            "Use another key, or submit the same arguments; `outlast show` says who used it"
        )
        self.key, self.tool = key, tool


class ReplayMismatch(NeedsReview):
    """The agent asks for something else than it did before under this key."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(
            f"the log does not fit what the agent asks now: {key!r} {why}; nothing was run. "
            "Deploy code that fits the log, then `outlast retry`"
        )
        self.key = key


class SchemaMismatch(NeedsReview):
    """The database and the code are of different versions."""

    def __init__(self, found: int | None, wanted: int) -> None:
        if found is None:
            todo = "has no Outlast tables; run `outlast migrate`"
        elif found < wanted:
            todo = f"has schema {found}, this code needs {wanted}; run `outlast migrate`"
        else:
            todo = f"has schema {found}, this code knows {wanted} at most; deploy newer code"
        super().__init__(f"the database {todo}. Nothing was written")
        self.found, self.wanted = found, wanted


class TaskEnded(OutlastError):
    """The task ended without a result."""


class TaskFailed(TaskEnded):
    """The task failed for good."""

    def __init__(self, task_id: str, reason: str, error: str | None) -> None:
        super().__init__(f"task {task_id} failed ({reason}): {error or 'no message'}")
        self.task_id, self.reason, self.error = task_id, reason, error


class TaskCancelled(TaskEnded):
    """The task was cancelled."""

    def __init__(self, task_id: str, by: str | None, why: str | None) -> None:
        super().__init__(
            f"task {task_id} was cancelled by {by or 'somebody'}: {why or 'no reason'}"
        )
        self.task_id, self.by, self.why = task_id, by, why


class NotDone(OutlastError):
    """Raised by a tool that knows that nothing reached the world: the effect failed, no doubt."""


class Unavailable(OutlastError):
    """The store cannot be reached; whether the last request was carried out is not known."""

    exit_code = 69
    http_status = 503

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"{what}: {why}. Whether the last request was carried out is not known; "
            "every request may be sent again"
        )


class AttemptEnded(BaseException):
    """This attempt is over. Agent code must let it pass: `except Exception` does not catch it."""


class Drained(AttemptEnded):
    """The worker hands the task over at a step boundary."""


class Cancelled(AttemptEnded):
    """Somebody asked for the task to be cancelled."""


class LeaseLostNow(AttemptEnded):
    """The lease is gone, or can no longer be trusted."""


class TimedOut(AttemptEnded):
    """The attempt's time limit has passed."""


class Suspended(AttemptEnded):
    """The task waits without a lease; it goes on, by replay, when it is woken."""


class Reviewed(AttemptEnded):
    """A person must decide; the task is in review."""
