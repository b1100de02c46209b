"""A PostgreSQL server as a database: pipelined statements, bounded transactions, reconnecting."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors as pg
from psycopg.rows import dict_row
from psycopg.types.numeric import Int8Dumper

from ..core import limits
from ..core.errors import BadSetting, Unavailable
from .database import Call, LockedOut, Row, Unstorable, WrongTables
from .verbs import HintsCome

SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
Connection = psycopg.Connection[Row]


class PostgresSession:
    """One transaction; BEGIN travels with the first statements."""

    def __init__(self, connection: Connection, statements: Mapping[str, str], opening: list[str]):
        self.connection = connection
        self._statements = statements
        self._opening = opening
        self._closing: list[str] = []
        self.committed = False

    def run(self, name: str, /, **params: Any) -> list[Row]:
        return self.send([(name, params)])[0]

    def send(self, calls: Sequence[Call]) -> list[list[Row]]:
        if not calls:
            return []
        opening, self._opening = self._opening, []
        with self.connection.pipeline():
            for text in opening:
                self.connection.execute(text)
            cursors = [
                self.connection.execute(self._statements[name], params) for name, params in calls
            ]
            for text in self._closing:
                self.connection.execute(text)
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def send_last(self, calls: Sequence[Call]) -> None:
        # After an error the server skips what follows it in the pipeline, the commit too.
        self._closing = ["commit"]
        self.send(calls)
        self.committed = bool(calls)


class PostgresDatabase:
    """A connection to one server, for one thread.

    `bound_ms`: how long a transaction of ours may stand still before the server ends it, so that
    nobody waits for a frozen process. `pooler`: behind pgbouncer in transaction mode, where neither
    prepared statements nor session settings last.
    """

    dialect: Literal["postgres"] = "postgres"

    def __init__(self, dsn: str, schema: str, statements: Mapping[str, str], *, bound_ms: int,
                 pooler: bool) -> None:  # fmt: skip
        self._dsn, self.schema, self._pooler = dsn, schema, pooler
        self._statements = {name: _placeholders(text) for name, text in statements.items()}
        self._bound_ms = bound_ms
        self._open: Connection | None = None
        # For single statements: a new one each time would cost a quarter more.
        self._cursor: psycopg.Cursor[Row] | None = None
        self._server = ""
        self._warned: list[str] = []
        self._listens = False
        # Whether something that we are asked about may be committed here, and not yet elsewhere.
        self._unsure = True

    @property
    def server(self) -> str:
        self._connect()
        return self._server

    @property
    def timeline(self) -> str:
        """The server's own number for it: the last word of `server`."""
        return self.server.rpartition(" ")[2]

    @contextmanager
    def transaction(self, *, lock_timeout_ms: int | None = None) -> Iterator[PostgresSession]:
        connection = self._connect()
        opening = ["begin isolation level read committed"]
        if self._unsure:
            opening.append(WAIT_FOR_STANDBY)
        if self._pooler:
            opening += [f"set local {setting}" for setting in self._bounds(connection)]
        if lock_timeout_ms is not None:
            opening.append(f"set local lock_timeout = {lock_timeout_ms}")
        session = PostgresSession(connection, self._statements, opening)
        try:
            with self._translated():
                yield session
                if session._opening:
                    return  # nothing was sent
                if not session.committed:
                    self._warned.clear()
                    connection.execute("commit")
                self._refuse_warnings()
                self._unsure = False
        except BaseException:
            self._roll_back(connection)
            raise

    def once(self, name: str, /, **params: Any) -> list[Row]:
        self._connect()
        with self._translated():
            self._warned.clear()
            cursor = self._cursor
            assert cursor is not None
            cursor.execute(self._statements[name], params)
            rows = cursor.fetchall() if cursor.description else []
            self._refuse_warnings()
        return rows

    def hinted(self) -> bool:
        """Whether somebody has sent NOTIFY; from the first call on this connection listens."""
        # What is sent through a pooler is heard by nobody; and the next look connects, not this.
        if self._pooler or self._open is None:
            return False
        with self._translated():
            if not self._listens:
                self._listens = True
                self._open.execute(LISTEN)
            sent = list(self._open.notifies(timeout=0))
        return bool(sent)

    def hints_come(self, worker_id: str) -> HintsCome:
        if self._pooler or self._open is None:
            return HintsCome()
        return HintsCome(self._open.fileno())

    def has_tables(self) -> bool:
        query = "select to_regclass(%s) is not null as found"
        with self._translated():
            row = self._connect().execute(query, [f'"{self.schema}".schema']).fetchone()
        return bool(row and row["found"])

    def blockers(self) -> list[tuple[int, str]]:
        connection = self._connect()
        with self._translated():
            rows = connection.execute(BLOCKERS).fetchall()
        return [(row["pid"], row["what"]) for row in rows]

    def end_blockers(self, task_id: str) -> int:
        """End sessions that stand still inside a transaction and hold what a reaper needs.

        Whoever it is is found through the locks themselves: a second, bounded attempt waits for
        them, and another connection asks the server for whom.
        """
        connection, ended = self._connect(), 0
        with self._translated(), self._sibling() as waiting:
            waiting.execute("begin")
            waiting.execute(f"set local lock_timeout = {limits.LOCK_TIMEOUT_MS * 2}")
            row = waiting.execute("select pg_backend_pid() as pid").fetchone()
            assert row is not None
            with suppress(pg.LockNotAvailable, pg.PipelineAborted), waiting.pipeline():
                for probe in PROBES:
                    waiting.execute(probe.format(schema=self.schema), {"task_id": task_id})
                waiting.pgconn.send_flush_request()
                waiting.pgconn.flush()
                ended = self._end_those_blocking(connection, row["pid"])
            with suppress(psycopg.Error):
                waiting.execute("rollback")
        return ended

    def settings(self) -> dict[str, str]:
        connection = self._connect()
        with self._translated():
            row = connection.execute(SETTINGS).fetchone()
        return {name: str(value) for name, value in (row or {}).items()}

    def close(self) -> None:
        if self._open is not None:
            with suppress(psycopg.Error):
                self._open.close()
            self._open = None

    @contextmanager
    def migrating(self) -> Iterator[Callable[[str], None]]:
        connection = self._connect()

        def run(script: str) -> None:
            # A prepared statement is one command; a script is many.
            connection.execute(script.encode(), prepare=False)

        try:
            with self._translated():
                connection.execute("begin isolation level read committed")
                connection.execute("set local lock_timeout = 0")
                connection.execute(f"select pg_advisory_xact_lock({MIGRATION_LOCK})")
                connection.execute(f'create schema if not exists "{self.schema}"')
                yield run
                connection.execute("commit")
        except BaseException:
            self._roll_back(connection)
            raise

    # -- how it connects ----------------------------------------------------------------------

    def _connect(self) -> Connection:
        if self._open is not None and not self._open.closed:
            return self._open
        with self._translated():
            connection = self._sibling()
            try:
                self._server = self._examine(connection)
                if not self._pooler:
                    opening = [f"set {setting}" for setting in self._bounds(connection)]
                    opening += [LISTEN] if self._listens else []
                    connection.execute("; ".join(opening), prepare=False)
            except BaseException:
                connection.close()
                raise
        connection.add_notice_handler(self._note)
        self._open, self._cursor = connection, connection.cursor()
        return connection

    def _sibling(self) -> Connection:
        connection = psycopg.connect(
            self._dsn,
            autocommit=True,
            row_factory=dict_row,
            prepare_threshold=None if self._pooler else 5,
            connect_timeout=limits.CONNECT_TIMEOUT_S,
            tcp_user_timeout=self._bound_ms,
            application_name="outlast",
        )
        # One width for all integers, so that one statement is prepared once.
        connection.adapters.register_dumper(int, Int8Dumper)
        return connection

    def _examine(self, connection: Connection) -> str:
        """Refuse a server on which our promises do not hold; return which start of it this is."""
        row = connection.execute(EXAMINE).fetchone()
        assert row is not None
        if row["encoding"] != "UTF8":
            raise BadSetting(
                f"the database's encoding is {row['encoding']}, not UTF8: text would come back as "
                "bytes. Create it with encoding UTF8"
            )
        if row["version"] < 140000:
            raise BadSetting(f"PostgreSQL 14 or newer is needed, this is {row['version']}")
        if row["sync"] not in ("on", "remote_apply"):
            raise BadSetting(
                f"synchronous_commit is {row['sync']}: acknowledged writes may be lost, and epochs "
                "given twice. Set it to on for this role or database"
            )
        if row["isolation"] != "read committed":
            raise BadSetting(
                f"default_transaction_isolation is {row['isolation']}; it must be read committed, "
                "else claims fail. Set it for this role or database"
            )
        return f"{row['started']} {row['timeline']}"

    def _bounds(self, connection: Connection) -> list[str]:
        bounds = [
            f"idle_in_transaction_session_timeout = {self._bound_ms}",
            f"lock_timeout = {self._bound_ms}",
        ]
        if connection.info.server_version >= 170000:
            # The other one does not fire in the middle of a pipeline, nor (before 16) after one
            # that ended in an open transaction: there only a reaper's `end_blockers` helps.
            bounds.append(f"transaction_timeout = {self._bound_ms}")
        return bounds

    def _end_those_blocking(self, connection: Connection, pid: int) -> int:
        ended = 0
        for _ in range(limits.LOCK_TIMEOUT_MS * 2 // LOOK_MS):
            time.sleep(LOOK_MS / 1_000)
            row = connection.execute(END_BLOCKERS, {"pid": pid}).fetchone()
            assert row is not None
            ended += row["ended"]
            if not row["blockers"]:
                break
        return ended

    # -- how errors become ours ---------------------------------------------------------------

    def _note(self, notice: pg.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warned.append(notice.message_primary or "a warning")

    def _refuse_warnings(self) -> None:
        # "canceling wait for synchronous replication": committed here, perhaps nowhere else.
        if self._warned:
            self._unsure = True
            raise Unavailable("PostgreSQL", f"the commit was answered with: {self._warned.pop()}")

    def _roll_back(self, connection: Connection) -> None:
        try:
            if not connection.closed and connection.info.transaction_status != IDLE:
                connection.execute("rollback")
        except psycopg.Error:
            self.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure) as error:
            raise LockedOut(str(error)) from error
        except (pg.UndefinedTable, pg.UndefinedColumn, pg.InvalidSchemaName) as error:
            raise WrongTables(_first_line(error)) from error
        except (
            psycopg.OperationalError,
            psycopg.InterfaceError,
            pg.ReadOnlySqlTransaction,
            # We stood still for too long, and the server ended the session; these two alone among
            # the ends of a session are no OperationalError.
            pg.IdleInTransactionSessionTimeout,
            pg.TransactionTimeout,
        ) as error:
            self.close()
            self._unsure = True
            raise Unavailable("PostgreSQL", _first_line(error)) from error
        except psycopg.DataError as error:
            raise Unstorable(_first_line(error)) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise Unstorable(str(error)) from error


# A transaction that writes nothing does not wait for standbys when it commits. With this it does:
# so "it is there", said to a request that is sent again, is true of the standby too.
WAIT_FOR_STANDBY = "select pg_logical_emit_message(true, 'outlast', '')"
LISTEN = "listen outlast"  # what the statement `hint` notifies, in whatever schema
MIGRATION_LOCK = 7_857_420_118  # any number, the same in every process that migrates
IDLE = psycopg.pq.TransactionStatus.IDLE
EXAMINE = """
select current_setting('server_version_num')::int as version,
       pg_encoding_to_char(encoding) as encoding,
       current_setting('synchronous_commit') as sync,
       current_setting('default_transaction_isolation') as isolation,
       pg_postmaster_start_time()::text as started,
       case when pg_is_in_recovery() then 'standby'
            else substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as timeline
  from pg_database
 where datname = current_database()
"""
SETTINGS = """
select current_setting('server_version') as postgres,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_standby_names') as synchronous_standby_names,
       current_database() as database, current_user as role,
       case when pg_is_in_recovery() then 'standby' else 'primary' end as server
"""
BLOCKERS = """
select distinct blocker.pid,
       blocker.application_name || ', ' || coalesce(blocker.state, '') || ' for '
       || coalesce(round(extract(epoch from clock_timestamp() - blocker.state_change))::text, '?')
       || ' s' as what
  from pg_stat_activity waiting
 cross join lateral unnest(pg_blocking_pids(waiting.pid)) blocking(pid)
  join pg_stat_activity blocker on blocker.pid = blocking.pid
 where waiting.datname = current_database()
"""
# What a reaper locks, in our order of locks; rolled back at once.
PROBES = (
    'select 1 from "{schema}".tasks where id = %(task_id)s for no key update',
    'select 1 from "{schema}".leases where task_id = %(task_id)s for no key update',
    """insert into "{schema}".events (task_id, seq, holder, kind, body, at_ms, digest)
       select task_id, max(seq) + 1, 0, '', '', 0, ''
         from "{schema}".events where task_id = %(task_id)s group by task_id
           on conflict do nothing""",
    'select 1 from "{schema}".effects where task_id = %(task_id)s for no key update',
)
LOOK_MS = 20
# Only sessions that wait for their client: one that computes or commits is alive.
END_BLOCKERS = """
select cardinality(pg_blocking_pids(%(pid)s::int)) as blockers,
       (select count(pg_terminate_backend(pid))
          from pg_stat_activity
         where pid = any (pg_blocking_pids(%(pid)s::int))
           and wait_event = 'ClientRead'
           and state_change < clock_timestamp() - interval '200 milliseconds') as ended
"""


def read_url(url: str) -> tuple[str, str, bool]:
    """(the driver's URL, schema, behind a pooler) from ours. Raises BadSetting."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", "outlast")
    pooler = options.pop("pooler", "0") in ("1", "true", "yes")
    if not SCHEMA_NAME.match(schema):
        raise BadSetting(f"schema={schema!r} must be lower-case letters, digits and _")
    return urlunsplit(parts._replace(query=urlencode(options))), schema, pooler


def _placeholders(text: str) -> str:
    """`:name` as psycopg writes it; `::` casts are left alone."""
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
