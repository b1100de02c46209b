"""The servers of the tests are real: they start, die, come back, and leave nothing."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import psycopg
import pytest

from tests.support import leftovers, postgres_release
from tests.support.databases import on_every_postgres
from tests.support.keeper import PATTERN
from tests.support.postgres import database_name, log_of
from tests.support.postgres_release import Account
from tests.support.waiting import until

pytestmark = pytest.mark.postgres


@on_every_postgres
def test_an_empty_database_speaks_utf8_and_answers_for_its_commits(database_url):
    with psycopg.connect(database_url) as connection:
        settings = {
            name: connection.execute(f"show {name}").fetchone()[0]
            for name in ("server_encoding", "synchronous_commit", "TimeZone")
        }
        tables = connection.execute(
            "select count(*) from pg_tables where schemaname = 'public'"
        ).fetchone()
    assert settings == {
        "server_encoding": "UTF8",
        "synchronous_commit": "on",
        "TimeZone": "UTC",
    }
    assert tables == (0,)


@pytest.mark.postgres15
def test_both_releases_are_what_they_are_called(postgres_server, postgres15_server):
    versions = [
        server.run("show server_version_num")[0][0]
        for server in (postgres_server, postgres15_server)
    ]
    assert [int(version) // 10000 for version in versions] == [18, 15]


def test_two_tests_never_share_a_database(postgres_server):
    first, second = postgres_server.create_database(), postgres_server.create_database()
    with psycopg.connect(first, autocommit=True) as connection:
        connection.execute("create table mine ()")
    with psycopg.connect(second) as connection:
        assert connection.execute("select to_regclass('mine')").fetchone() == (None,)
    postgres_server.drop_database(first)
    postgres_server.drop_database(second)


def test_a_returned_database_is_empty_and_free_whatever_was_done_to_it(postgres_server):
    url = postgres_server.borrow_database()
    with psycopg.connect(url, autocommit=True) as forgotten:
        forgotten.execute("create table left_behind (n int)")
        forgotten.execute("create schema other create table left_too (n int)")
        forgotten.execute("create type colour as enum ('red')")
        forgotten.execute("create function f() returns int return 1")
        forgotten.execute(f"alter database {database_name(url)} set timezone to 'Asia/Tokyo'")
        postgres_server.return_database(url)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("select 1")
    assert postgres_server.borrow_database() == url
    with psycopg.connect(url) as connection:
        assert connection.execute(WHAT_IS_THERE).fetchall() == [("schema public",)]
        assert connection.execute("show timezone").fetchone() == ("UTC",)
        connection.execute("create table mine ()")
    postgres_server.return_database(url)


def test_a_dropped_database_is_gone_though_somebody_uses_it(postgres_server):
    url = postgres_server.create_database("in_use")
    with psycopg.connect(url) as connection:
        postgres_server.drop_database(url)
        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            connection.execute("select 1")
    names = postgres_server.run("select datname from pg_database")
    assert ("in_use",) not in names
    assert ("postgres",) in names


def test_a_durable_server_syncs_and_a_shared_one_need_not(own_postgres, postgres_server):
    assert own_postgres().run("show fsync") == [("on",)]
    assert postgres_server.run("show fsync") == [("off",)]


def test_what_was_committed_survives_a_kill_and_a_restart_on_the_same_port(own_postgres):
    server = own_postgres()
    url = server.url()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table kept (n int)")
        connection.execute("insert into kept values (1)")
        server.kill9()
        with pytest.raises(psycopg.OperationalError):
            until(lambda: connection.execute("select 1") and None, "the old connection to break")
    server.start()
    assert server.url() == url
    assert server.run("select n from kept") == [(1,)]
    assert "was not properly shut down" in log_of(server)


def test_a_restart_waits_for_the_children_of_a_killed_server(own_postgres):
    server = own_postgres()
    with psycopg.connect(server.url()) as connection:
        child = connection.info.backend_pid
        os.kill(child, signal.SIGSTOP)
        server.kill9()
        threading.Timer(0.3, os.kill, (child, signal.SIGKILL)).start()
        server.start()
    assert any(words in log_of(server) for words in ("lock file", "shared memory block"))


def test_a_stopped_server_refuses_and_a_restarted_one_answers(own_postgres):
    server = own_postgres()
    server.stop()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(server.url())
    server.restart()
    assert server.run("select 1") == [(1,)]


def test_a_frozen_server_answers_when_it_thaws(own_postgres):
    server = own_postgres()
    with psycopg.connect(server.url()) as connection:
        server.freeze()
        answers = []
        asking = threading.Thread(
            target=lambda: answers.append(connection.execute("select 7").fetchone())
        )
        asking.start()
        asking.join(0.3)
        assert answers == []
        server.thaw()
        asking.join(10)
        assert answers == [(7,)]


def test_settings_of_a_test_are_in_force(own_postgres):
    assert own_postgres(settings={"max_connections": "17"}).run("show max_connections") == [("17",)]


def test_a_closed_server_leaves_no_process_no_file_and_no_shared_memory(own_postgres):
    server = own_postgres()
    segment = Path(server.folder / "data" / "postmaster.pid").read_text().split("\n")[6].split()[1]
    assert segment in segments()
    processes = [server.pid, *leftovers.descendants(server.pid)]
    server.kill9()
    server.close()
    until(lambda: not any(map(leftovers.born, processes)), "its children to go")
    assert not server.folder.exists()
    assert segment not in segments()


def test_a_killed_test_run_leaves_nothing(processes):
    run = processes.python("-c", A_RUN_WITH_A_SERVER, folder=Path.cwd())
    postmaster, folder = run.wait_for_line("serving", timeout_s=30).split()[1:]
    postmaster = int(postmaster)
    family = [postmaster, *leftovers.descendants(postmaster)]
    assert all(map(leftovers.born, family))
    run.send(signal.SIGKILL)
    until(lambda: not any(map(leftovers.born, family)), "the keeper to end the server")
    until(lambda: not Path(folder).exists(), "the keeper to remove the folder")


def test_what_a_keeper_could_not_clear_the_next_run_does(tmp_path):
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    stale = tmp_path / PATTERN.replace("*", "stale")
    stale.mkdir()
    # Our own pid with another birth: the owner is gone and its pid in use again.
    (stale / "owner").write_text(f"{os.getpid()} 1")
    (stale / "processes").write_text(
        f'{{"pid": {sleeper.pid}, "born": {leftovers.born(sleeper.pid)}}}\n'
    )
    alive = tmp_path / PATTERN.replace("*", "alive")
    alive.mkdir()
    (alive / "owner").write_text(f"{os.getpid()} {leftovers.born(os.getpid())}")
    leftovers.sweep(tmp_path, PATTERN)
    assert sleeper.wait(5) == -signal.SIGKILL
    assert (stale.exists(), alive.exists()) == (False, True)


def test_a_pid_that_is_used_again_is_not_ended():
    sleeper = subprocess.Popen(["sleep", "600"])
    leftovers.end(sleeper.pid, leftovers.born(sleeper.pid) - 1)
    assert sleeper.poll() is None
    leftovers.end(sleeper.pid, leftovers.born(sleeper.pid))
    assert sleeper.wait(5) == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must hand servers to another user")
def test_programs_in_a_closed_home_are_copied_and_the_home_stays_closed(keeper, tmp_path):
    home = tmp_path / "home"
    package = home / "site-packages" / postgres_release.WHEEL
    (package / "pginstall" / "bin").mkdir(parents=True)
    (home / "site-packages" / f"{postgres_release.WHEEL}.libs").mkdir()
    program = package / "pginstall" / "bin" / "postgres"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    home.chmod(0o700)
    servers = Account.of_servers()
    assert not servers.may_read(program)
    copy = postgres_release.copy_for_everyone(package, keeper.new_folder("copy"))
    assert servers.may_read(copy / "pginstall" / "bin" / "postgres")
    assert (copy / "pginstall" / "bin" / "postgres").stat().st_mode & 0o777 == 0o755
    assert (home.stat().st_mode & 0o777, program.stat().st_mode & 0o777) == (0o700, 0o700)


def segments() -> list[str]:
    """The ids of the System V shared memory of this machine."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    return [line.split()[1] for line in lines]


WHAT_IS_THERE = """
with ours as materialized (
    select oid, nspname from pg_namespace where nspname !~ '^(pg_|information_schema)'
)
select 'schema ' || nspname from ours
 union all select 'relation ' || relname from pg_class where relnamespace in (select oid from ours)
 union all select 'function ' || proname from pg_proc where pronamespace in (select oid from ours)
 union all select 'type ' || typname from pg_type where typnamespace in (select oid from ours)
"""
A_RUN_WITH_A_SERVER = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.support import postgres_release
from tests.support.keeper import Keeper
from tests.support.postgres import PostgresServer
keeper = Keeper()
server = PostgresServer(postgres_release.from_wheel(keeper))
print("serving", server.pid, keeper.folder, flush=True)
time.sleep(600)
"""
