"""The pgbouncer of the tests pools transactions, and shows what that breaks."""

import psycopg
import pytest

pytestmark = pytest.mark.postgres


def test_a_session_does_not_keep_its_server_connection(pgbouncer, postgres_server, postgres_url):
    through = pgbouncer(postgres_server).url(postgres_url)
    with connect(through) as first, connect(through) as second:
        assert backend(first) == backend(second)
    with connect(postgres_url) as first, connect(postgres_url) as second:
        assert backend(first) != backend(second)


def test_what_one_transaction_commits_the_next_reads(pgbouncer, postgres_server, postgres_url):
    through = pgbouncer(postgres_server).url(postgres_url)
    with connect(through) as connection, connection.transaction():
        connection.execute("create table kept (n int)")
        connection.execute("insert into kept values (1)")
    with connect(postgres_url) as connection:
        assert connection.execute("select n from kept").fetchall() == [(1,)]


def test_a_prepared_statement_is_lost_between_transactions(
    pgbouncer, postgres_server, postgres_url
):
    through = pgbouncer(postgres_server, default_pool_size="2").url(postgres_url)
    with connect(through) as first, connect(through) as second:
        first.execute("prepare mine as select 1")
        with first.transaction():
            first.execute("select 1")
            # The other server connection: nothing was prepared there.
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                second.execute("execute mine")


def test_settings_can_be_changed(pgbouncer, postgres_server, postgres_url):
    through = pgbouncer(postgres_server, pool_mode="session").url(postgres_url)
    with connect(through) as first, connect(through) as second:
        assert backend(first) != backend(second)


def connect(url):
    return psycopg.connect(url, autocommit=True, prepare_threshold=None)


def backend(connection):
    return connection.execute("select pg_backend_pid()").fetchone()
