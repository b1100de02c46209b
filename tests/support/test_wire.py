"""A wire before a server does exactly the harm it was asked for, and says when it has."""

import socket
import threading
from contextlib import suppress

import psycopg
import pytest

from tests.support.traps import DOWN, UP
from tests.support.waiting import until
from tests.support.wire import Wire

pytestmark = pytest.mark.postgres


@pytest.fixture
def table(postgres_url):
    """The address of a database with an empty table `written`."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("create table written (n int)")
    return postgres_url


@pytest.fixture
def before_server(wire, postgres_server):
    return wire(postgres_server.port)


def rows(url):
    with psycopg.connect(url) as connection:
        return [n for (n,) in connection.execute("select n from written order by n")]


def test_a_whole_wire_changes_nothing(before_server, table):
    with psycopg.connect(before_server.url(table)) as connection:
        connection.execute("insert into written select generate_series(1, 20000)")
        assert len(connection.execute("select n from written").fetchall()) == 20000
    assert len(rows(table)) == 20000
    assert before_server.bytes_lost == {UP: 0, DOWN: 0}
    until(lambda: before_server.connections == 0, "the closed connection to be forgotten")


def test_a_lost_request_is_never_executed(before_server, table):
    trap = before_server.lose_request(b"COMMIT")
    with (
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(before_server.url(table)) as connection,
    ):
        connection.execute("insert into written values (1)")
    trap.wait()
    assert rows(table) == []
    assert before_server.bytes_lost[UP] > 0


def test_a_lost_answer_looks_the_same_though_all_was_executed(before_server, table):
    trap = before_server.lose_answer(b"COMMIT")
    with (
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(before_server.url(table)) as connection,
    ):
        connection.execute("insert into written values (1)")
    trap.wait()
    assert rows(table) == [1]
    assert before_server.bytes_lost[DOWN] > 0


def test_the_nth_commit_is_lost_and_those_before_are_not(before_server, table):
    trap = before_server.lose_request(b"commit", nth=3)
    with pytest.raises(psycopg.OperationalError):
        write_three_rows(before_server.url(table))
    assert trap.sprung
    assert rows(table) == [1, 2]


def test_a_trap_springs_once_and_the_next_connection_passes(before_server, table):
    before_server.lose_request(b"COMMIT")
    for n in (1, 2):
        try:
            with psycopg.connect(before_server.url(table)) as connection:
                connection.execute("insert into written values (%s)", [n])
        except psycopg.OperationalError:
            assert n == 1
    assert rows(table) == [2]


def test_a_held_answer_comes_late_and_its_work_was_done_before(before_server, table):
    trap = before_server.hold_answer(b"insert")
    with psycopg.connect(before_server.url(table), autocommit=True) as connection:
        writing = in_thread(connection.execute, "insert into written values (1)")
        trap.wait()
        until(lambda: rows(table) == [1], "the row to be written")
        assert writing.is_alive()
        trap.let_go()
        writing.join(10)
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_held_request_is_executed_only_once_let_go(before_server, table):
    trap = before_server.hold_request(b"insert")
    with psycopg.connect(before_server.url(table), autocommit=True) as connection:
        writing = in_thread(connection.execute, "insert into written values (1)")
        trap.wait()
        assert rows(table) == []
        trap.let_go()
        writing.join(10)
    assert rows(table) == [1]


def test_a_cut_wire_resets_and_refuses_until_healed(before_server, table):
    with psycopg.connect(before_server.url(table), autocommit=True) as connection:
        before_server.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("insert into written values (1)")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(before_server.url(table))
    before_server.heal()
    assert rows(before_server.url(table)) == []


def test_a_paused_wire_delivers_when_healed(before_server, table):
    with psycopg.connect(before_server.url(table), autocommit=True) as connection:
        before_server.pause()
        writing = in_thread(connection.execute, "insert into written values (1)")
        writing.join(0.2)
        assert writing.is_alive()
        assert rows(table) == []
        before_server.heal()
        writing.join(10)
    assert rows(table) == [1]


def test_a_wire_paused_downwards_lets_the_request_through(before_server, table):
    with psycopg.connect(before_server.url(table), autocommit=True) as connection:
        before_server.pause(DOWN)
        writing = in_thread(connection.execute, "insert into written values (1)")
        until(lambda: rows(table) == [1], "the request to be executed")
        assert writing.is_alive()
        before_server.heal()
        writing.join(10)


def test_a_swallowing_wire_says_nothing_and_resets_when_healed(before_server, table):
    with psycopg.connect(before_server.url(table), autocommit=True) as connection:
        before_server.swallow()
        failures = []
        writing = in_thread(attempt, connection, failures)
        until(lambda: before_server.bytes_lost[UP] > 0, "the request to be lost")
        writing.join(0.2)
        assert writing.is_alive()
        before_server.heal()
        writing.join(10)
    assert len(failures) == 1
    assert rows(table) == []


def test_a_match_is_seen_across_two_pieces():
    with Wire(port_of(echo)) as wire, socket.create_connection(("127.0.0.1", wire.port)) as end:
        trap = wire.lose_request(b"COMMIT")
        end.sendall(b"..COM")
        assert end.recv(5) == b"..COM"
        end.sendall(b"MIT..")
        with pytest.raises(ConnectionResetError):
            end.recv(5)
        assert trap.sprung


def test_one_request_is_not_counted_twice():
    with Wire(port_of(echo)) as wire, socket.create_connection(("127.0.0.1", wire.port)) as end:
        trap = wire.lose_request(b"COMMIT", nth=2)
        for piece in (b"COMMIT", b"x", b"y"):
            end.sendall(piece)
            assert end.recv(10) == piece
        assert not trap.sprung


def test_a_reset_reaches_one_who_does_not_read():
    with Wire(port_of(flood)) as wire, socket.create_connection(("127.0.0.1", wire.port)) as end:
        until(lambda: wire.bytes_passed[DOWN] > 1_000_000, "the wire to be full")
        wire.reset()
        with pytest.raises(ConnectionResetError):
            drain(end)
        assert wire.connections == 0


def test_waiting_for_a_trap_that_nothing_springs_fails(before_server):
    with pytest.raises(AssertionError, match="no message with b'COMMIT'"):
        before_server.lose_request(b"COMMIT").wait(timeout_s=0.05)


def write_three_rows(url):
    with psycopg.connect(url, autocommit=True) as connection:
        for n in (1, 2, 3):
            connection.execute("begin")
            connection.execute("insert into written values (%s)", [n])
            connection.execute("commit")


def attempt(connection, failures):
    try:
        connection.execute("insert into written values (1)")
    except psycopg.OperationalError as error:
        failures.append(error)


def in_thread(work, *arguments):
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def port_of(serve) -> int:
    """The port of a server that serves one connection until the other side ends it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_one():
        with listener, listener.accept()[0] as end, suppress(OSError):
            serve(end)

    in_thread(serve_one)
    return listener.getsockname()[1]


def echo(end):
    while piece := end.recv(100):
        end.sendall(piece)


def flood(end):
    while True:
        end.sendall(bytes(65536))


def drain(end):
    while end.recv(65536):
        pass
