"""What is watched changes by itself, costs the store one look a second, and ends when it should."""

from __future__ import annotations

import asyncio
import http.client
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from outlast.core.errors import Unavailable
from outlast.server import live
from outlast.server.app import Server
from outlast.server.asked import Asked
from outlast.server.desk import Busy, Desk
from outlast.server.live import Drawn, Live, Sight
from outlast.server.pages import fleet
from outlast.store.open import open_store
from outlast.store.verbs import Store
from tests.server.browsing import Browser
from tests.server.conftest import Served
from tests.store import world
from tests.support.waiting import until


class Message(msgspec.Struct, frozen=True):
    event: str
    data: str


class Stream:
    """An event stream as a browser reads it."""

    def __init__(self, served: Served, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=20)
        self._connection.request("GET", path, headers=headers)
        self.answer = self._connection.getresponse()

    def messages(self) -> Iterator[Message]:
        """Until the stream ends."""
        event, data = "", []
        for line in self.answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                data.append(value)
            elif not name and event:
                yield Message(event, "\n".join(data))
                event, data = "", []

    def until(self, event: str, text: str = "") -> Message:
        return next(m for m in self.messages() if m.event == event and text in m.data)

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@contextmanager
def stream(served: Served, path: str, **headers: str) -> Iterator[Stream]:
    opened = Stream(served, path, **headers)
    yield opened
    opened.close()


def test_a_stream_sends_the_page_once_and_again_when_it_changes(serve):
    served = serve()
    owner = world.start(served.here)
    with stream(served, "/live/home") as watched:
        assert watched.answer.getheader("content-type") == "text/event-stream; charset=utf-8"
        messages = watched.messages()
        assert [next(messages).event for _ in range(3)] == ["page", "beat", "beat"]
        served.clock.move(4_000)
        changed = next(m for m in messages if m.event == "page")
        assert "4.0s ago" in changed.data
        owner.succeed()
        changed = next(m for m in messages if m.event == "page" and owner.task_id not in m.data)
        assert "No tasks" in changed.data


def test_a_beat_says_the_databases_time(serve):
    served = serve()
    with stream(served, "/live/workers") as watched:
        assert watched.until("beat").data == "2027-01-15T08:00:00.000Z"
        served.clock.move(1_000)
        watched.until("beat", "2027-01-15T08:00:01.000Z")


def test_a_page_that_cannot_be_drawn_takes_no_other_along(serve, monkeypatch):
    served = serve()
    shown = served.server._site._live
    draws = shown._draw

    def draw(store, sight):
        if sight.page == "home":
            raise KeyError("a fault of ours")
        return draws(store, sight)

    with stream(served, "/live/home") as broken, stream(served, "/live/workers") as other:
        broken.until("page")
        monkeypatch.setattr(shown, "_draw", draw)
        assert "cannot be drawn" in broken.until("lost").data
        for _ in range(2):
            served.clock.move(1_000)
            moment = f"{served.clock.now_ms // 1_000 % 60:02}.000Z"
            other.until("beat", moment)
        monkeypatch.undo()
        served.clock.move(1_000)
        broken.until("beat")


def test_every_watched_page_has_its_stream_and_only_those(serve):
    served = serve()
    task = world.submit(served.here)
    for page in ("home", "workers", "effects", "drain", f"task?id={task.id}"):
        with stream(served, f"/live/{page}") as watched:
            assert watched.until("page").data
    for page in ("health", "nothing"):
        assert Browser(served).get(f"/live/{page}").status == 404


def test_a_stream_of_a_viewer_has_no_order_in_it(serve):
    served = serve(asks_for_tokens=True)
    owner = world.start(served.here)
    for role, may in (("viewer", False), ("operator", True)):
        cookie = {"Cookie": f"outlast_token={served.token(role)}"}
        with stream(served, f"/live/task?id={owner.task_id}", **cookie) as watched:
            assert ("/cancel" in watched.until("page").data) is may


def test_what_others_wrote_cannot_begin_a_message_of_its_own(serve):
    served = serve()
    world.submit(served.here, agent="a\n\nevent: beat\ndata: never\r\n\u2028event: lost")
    with stream(served, "/live/home") as watched:
        messages = watched.messages()
        first = [next(messages) for _ in range(2)]
        assert [message.event for message in first] == ["page", "beat"]
        assert first[1].data != "never"


def test_streams_end_at_once_when_the_server_leaves_and_none_begins(serve):
    served = serve()
    with stream(served, "/live/home") as watched, stream(served, "/live/drain") as other:
        watched.until("beat")
        other.until("beat")
        served.server.leave()
        for each in (watched, other):
            list(each.messages())  # ends
    assert Browser(served).get("/live/home").status == 503


def test_a_real_server_is_not_kept_by_two_hundred_who_watch(processes, sqlite_url):
    environment = {"OUTLAST_DB": sqlite_url}
    run = processes.outlast("serve", "--port", "0", environment=environment)
    place = urlsplit(re.findall(r"http://\S+", run.wait_for_line("serves at"))[0]).netloc
    slow = socket.create_connection((place.split(":")[0], int(place.split(":")[1])))
    slow.sendall(b"GET /live/home HTTP/1.1\r\nHost: ")  # and never the rest
    pages = ("home", "workers", "drain")
    watched = [http.client.HTTPConnection(place, timeout=20) for _ in range(200)]
    for number, connection in enumerate(watched):
        connection.request("GET", f"/live/{pages[number % len(pages)]}")
    answers = [connection.getresponse() for connection in watched]
    assert {answer.status for answer in answers} == {200}
    assert all(_first(answer, b"event: page") for answer in answers)
    other = http.client.HTTPConnection(place, timeout=20)
    other.request("GET", "/readyz")
    assert other.getresponse().status == 200, "nobody else was let in"
    run.send(signal.SIGTERM)
    for answer in answers:
        answer.read()  # comes to its end
    run.wait()
    for connection in (*answers, *watched, other, slow):
        connection.close()
    assert "exceeded" not in run.output, "its streams had to be cut off"


def _first(answer: http.client.HTTPResponse, wanted: bytes) -> bool:
    return any(wanted in line for line in answer)


def test_a_stream_ends_after_a_while_and_who_may_see_it_is_asked_again(serve, monkeypatch):
    monkeypatch.setattr(live, "STREAM_S", 1.5)
    served = serve(asks_for_tokens=True)
    cookie = {"Cookie": f"outlast_token={served.token('viewer', lasts_ms=60_000)}"}
    with stream(served, "/live/home", **cookie) as watched:
        assert [message.event for message in watched.messages()][:2] == ["page", "beat"]
    served.clock.move(60_000)
    with stream(served, "/live/home", **cookie) as watched:
        assert watched.answer.status == 401


def test_who_goes_away_is_looked_for_no_more(serve, monkeypatch):
    monkeypatch.setattr(live, "STREAMS_MAX", 1)
    served = serve()
    with stream(served, "/live/home") as watched:
        watched.until("beat")
        refused = Browser(served).get("/live/home")
        assert refused.status == 503
        assert "1 pages are watched already" in refused.text
    until(lambda: _has_room(served), "the place of who went away to be free")


def _has_room(served: Served) -> bool:
    with stream(served, "/live/home") as watched:
        return watched.answer.status == 200


# -- what it costs -----------------------------------------------------------------------------


class Watching:
    """A `Live` on a desk without a database; `draws` counts what was asked of it."""

    def __init__(self) -> None:
        self.draws: list[Sight] = []
        self.desk = Desk("test", Nothing, threads=1, waiting_max=10)  # type: ignore[arg-type]
        self.live = Live(self.desk, self._draw)

    def _draw(self, store: Store, sight: Sight) -> Drawn:
        self.draws.append(sight)
        return Drawn(f"look {len(self.draws)}", "now")

    async def read(self, sight: Sight, beats: int) -> list[str]:
        """A stream up to so many beats."""
        told: list[str] = []
        stream = self.live.messages(sight)
        async for text in stream:
            told.append(text)
            if sum("event: beat" in each for each in told) == beats:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        return told


class Nothing:
    def close(self) -> None: ...


def sight(page: str = "home", **words: str) -> Sight:
    return Sight(page, Asked(tuple(words.items())), "viewer")


def run(monkeypatch: Any, watch: Callable[[Watching], Any]) -> Watching:
    monkeypatch.setattr(live, "LOOK_S", 0.05)
    watching = Watching()
    # On a thread of its own: a browser that another test drives keeps a loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, watch(watching)).result()
    watching.desk.close()
    return watching


def test_fifty_who_watch_the_same_page_cost_one_look_each_time(monkeypatch):
    async def watch(watching: Watching) -> None:
        await asyncio.gather(*(watching.read(sight(), beats=4) for _ in range(50)))

    assert len(run(monkeypatch, watch).draws) <= 5


def test_fifty_different_pages_take_turns_and_all_get_theirs(monkeypatch):
    looks: list[int] = []

    async def watch(watching: Watching) -> None:
        ask = watching.desk.ask

        async def counted(request: Callable[[Store], Any]) -> Any:
            before = len(watching.draws)
            answer = await ask(request)
            looks.append(len(watching.draws) - before)
            return answer

        monkeypatch.setattr(watching.desk, "ask", counted)
        pages = (sight(text=str(number)) for number in range(50))
        await asyncio.gather(*(watching.read(page, beats=2) for page in pages))

    run(monkeypatch, watch)
    assert max(looks) == live.SIGHTS_PER_LOOK


def test_nobody_watches_nobody_looks(monkeypatch):
    async def watch(watching: Watching) -> None:
        await watching.read(sight(), beats=1)
        await asyncio.wait_for(watching.live._looking, 5)  # type: ignore[arg-type]

    run(monkeypatch, watch)


def test_the_sentence_and_the_counts_are_asked_once_a_second_for_all(serve, monkeypatch):
    asked: list[str] = []
    judge = fleet.judge
    monkeypatch.setattr(fleet, "judge", lambda *args: (asked.append("judge"), judge(*args))[1])
    monkeypatch.setattr(fleet, "LOOK_S", 60.0)
    served = serve()
    browser = Browser(served)
    for _ in range(20):
        browser.get("/")
        browser.get("/drain")
    assert len(asked) == 1


# -- the store is away -------------------------------------------------------------------------


class Cut:
    """A store whose database can be cut off."""

    def __init__(self, store: Store, cut: threading.Event) -> None:
        self._store, self._cut = store, cut

    def __getattr__(self, verb: str) -> Any:
        if self._cut.is_set():
            raise Unavailable("the database", "the line is cut")
        return getattr(self._store, verb)


@contextmanager
def cut_off(served: Served, **options: Any) -> Iterator[threading.Event]:
    """Served anew, by way of a line that is cut once the event is set."""
    cut = threading.Event()

    def opened() -> Any:
        if cut.is_set():
            raise Unavailable("the database", "the line is cut")
        return Cut(open_store(served.db, env=served.env), cut)

    server = Server(opened, **options)
    served.front.app = server.app
    yield cut
    cut.clear()
    server.close()


def test_without_a_database_a_page_says_so_and_what_is_last_known(serve):
    served = serve()
    world.start(served.here)
    with cut_off(served) as cut:
        browser = Browser(served)
        assert browser.get("/").status == 200
        cut.set()
        for path in ("/", "/workers", "/effects", "/drain", "/health", "/tasks/00000000"):
            page = browser.get(path)
            assert page.status == 503
            assert "The store does not answer" in page.text
            assert "the line is cut" in page.text
            assert "Last known, as of 2027-01-15T08:00:00.000Z" in page.text
            assert "Safe to deploy: 1 task is being run" in page.text
            assert "default-src 'none'" in page.headers["content-security-policy"]


def test_where_tokens_are_asked_for_nothing_is_told_while_nobody_can_be_looked_up(serve):
    served = serve()
    owner = world.start(served.here)
    served.clock.move(9_000)
    token = served.token("viewer")
    with cut_off(served, asks_for_tokens=True) as cut:
        browser = Browser(served, token)
        assert owner.task_id in browser.get("/").text
        cut.set()
        page = browser.get("/")
        assert page.status == 503
        assert owner.task_id not in page.text


def test_a_stream_says_that_the_store_is_lost_and_goes_on_when_it_is_back(serve):
    served = serve()
    with cut_off(served) as cut, stream(served, "/live/home") as watched:
        watched.until("beat")
        cut.set()
        assert "the line is cut" in watched.until("lost").data
        cut.clear()
        watched.until("beat")


def test_a_stream_that_began_while_the_store_was_lost_sends_the_page_afterwards(serve):
    served = serve()
    with cut_off(served) as cut, stream(served, "/live/home") as first:
        first.until("beat")
        with stream(served, "/live/home") as second:
            cut.set()
            second.until("lost")
            cut.clear()
            assert "No tasks" in second.until("page").data


def test_a_live_task_that_is_gone_is_told_on_its_page(serve):
    served = serve()
    with stream(served, "/live/task?id=00000000") as watched:
        assert "there is no task" in watched.until("page").data


def test_a_server_that_leaves_takes_no_stream(monkeypatch):
    watching = Watching()
    watching.live.leave()
    with pytest.raises(Busy):
        watching.live.must_have_room()
    watching.desk.close()
