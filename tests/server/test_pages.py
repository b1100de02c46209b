"""The pages tell what the store knows, to whoever may see it, and nothing that is written acts."""

from __future__ import annotations

import pytest

from outlast.core.clock import Env
from outlast.server.asked import Asked
from outlast.server.pages import home
from outlast.server.pages.fleet import Fleet
from outlast.store.migrate import migrate
from outlast.store.open import open_database, open_store
from tests.server.browsing import Browser
from tests.server.conftest import ANN
from tests.store import world

PAGES = ("/", "/?state=all", "/workers", "/effects?all=1", "/drain", "/health")
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


# -- what is told ------------------------------------------------------------------------------


def test_home_begins_with_the_deploy_sentence_and_lists_running_tasks_first(serve):
    served = serve()
    running = world.start(served.here)
    served.clock.move(4_000)
    waiting = world.start(served.here, agent="agent")
    waiting.wait("approval")
    page = Browser(served).get("/")
    assert page.status == 200
    assert "Safe to deploy: 1 task is being run, and can be handed over" in page.text
    assert page.text.index("Safe to deploy") < page.text.index(running.task_id[:13])
    assert page.html.index(f"task-{running.task_id}") < page.html.index(f"task-{waiting.task_id}")
    row = page.row(f"task-{running.task_id}")
    for said in ("▸ running", "host/4711", "build-1 · epoch 1", "4.0s ago", "6.0s left", "0 done"):
        assert said in row
    assert "hands over at next step" in row
    assert "for approval" in page.row(f"task-{waiting.task_id}")


def test_a_silent_owner_blocks_and_the_page_says_so_in_words(serve):
    served = serve()
    owner = world.start(served.here)
    served.clock.move(8_000)
    page = Browser(served).get("/")
    assert f"Not safe to deploy: task {owner.task_id}" in page.text
    assert "? stale" in page.row(f"task-{owner.task_id}")
    assert "owner silent for 8.0s" in Browser(served).get("/drain").text


def test_times_are_ages_with_the_absolute_time_beside(serve):
    served = serve()
    world.start(served.here)
    served.clock.move(3_000)
    assert 'title="20' in Browser(served).get("/").html


def test_a_task_page_tells_all_that_is_known_of_it(serve):
    served = serve()
    first = world.start(served.here, input='{"topic":"bees"}', labels={"team": "red"}, key="k-1")
    first.step("think", {"idea": "hive"})
    first.release("drain")
    heir = world.claim(served.here, "new")
    heir.intend("pay")
    heir.applied("pay", {"receipt": 17})
    first.step("too-late")
    world.signal(served.here, heir.task_id, "hint", {"look": "there"})
    heir.succeed({"honey": 3})
    page = Browser(served).get(f"/tasks/{heir.task_id}")
    for said in (
        "✓ succeeded",
        "the agent returned, in epoch 2",
        "team=red",
        "k-1",
        '"topic": "bees"',
        '"honey": 3',
        "lease.released (drain)",
        "step.done",
        '{"idea":"hive"}',
        "bank.pay",
        '{"receipt":17}',
        "write refused",
        "hint",
    ):
        assert said in page.text, said
    assert page.html.count("<rect x=") == 2


def test_a_beginning_of_a_task_id_is_enough_and_no_task_is_404(serve):
    served = serve()
    task = world.submit(served.here)
    browser = Browser(served)
    assert task.id in browser.get(f"/tasks/{task.id[:13]}").text
    missing = browser.get("/tasks/01234567")
    assert missing.status == 404
    assert "there is no task" in missing.text


def test_a_long_log_is_shown_in_pages(serve):
    served = serve()
    owner = world.start(served.here)
    for number in range(70):
        owner.note(f"note-{number}.")
    browser = Browser(served)
    newest = browser.get(f"/tasks/{owner.task_id}")
    log = newest.text.partition("Log 72")[2]
    assert "note-69." in log
    assert "note-10." not in log
    [older] = [link for link in newest.links if link.startswith("?before=")]
    page = browser.get(f"/tasks/{owner.task_id}{older.partition('#')[0]}")
    log = page.text.partition("Log 72")[2]
    assert "note-10." in log
    assert "note-69." not in log


def test_workers_stand_by_build_with_what_they_hold(serve):
    served = serve()
    owner = world.start(served.here)
    world.enlisted(served.here, "second", build="build-2", pid=99)
    served.clock.move(11_000)
    world.enlisted(served.here, "third", build="build-2", pid=100)
    page = Browser(served).get("/workers")
    assert "Build build-1 1" in page.text
    assert "Build build-2 2" in page.text
    holder = page.row("worker-worker-old")
    assert owner.task_id[:13] in holder
    assert "? silent" in holder
    assert "▸ active" in page.row("worker-worker-third")


def test_effects_in_doubt_are_shown_and_others_where_they_are_asked_for(serve):
    served = serve()
    owner = world.start(served.here)
    owner.intend("ship")
    owner.applied("ship")
    owner.intend("pay")
    owner.ask_a_person()
    browser = Browser(served)
    page = browser.get("/effects")
    assert "In doubt 1" in page.text
    assert owner.key("pay") in page.text
    assert owner.key("ship") not in page.text
    assert owner.key("ship") in browser.get("/effects?all=1").text
    assert "1 effect unknown" in browser.get("/").text


def test_drain_page_tells_who_drains_and_what_it_still_holds(serve):
    served = serve()
    owner = world.start(served.here)
    served.here.order_drain(ANN, build="build-1")
    page = Browser(served).get("/drain")
    row = page.row("draining-worker-old")
    assert owner.task_id[:13] in row
    assert "ann" in row
    assert "25s" in row


def test_health_tells_what_a_checkup_finds_and_how_many_writes_were_refused(serve):
    served = serve()
    old = world.start(served.here)
    old.release("drain")
    old.step("too-late")
    page = Browser(served).get("/health")
    assert "Nothing is broken" in page.text
    assert "1 late write refused so far" in page.text
    assert "journal_mode=wal" in page.text
    assert "Schema 1" in page.text


def test_every_page_says_which_store_this_is_and_who_you_are(serve):
    served = serve(store_url="postgresql://ann:hunter2@db.example/prod", version="1.2.3")
    for path in PAGES:
        page = Browser(served).get(path)
        assert "postgresql://ann:***@db.example/prod" in page.text
        assert "hunter2" not in page.html
        assert "Outlast 1.2.3" in page.text
        assert "somebody on this machine (admin)" in page.text


def test_every_page_is_drawn_from_postgresql_too(serve, postgres_url):
    database, schema = open_database(postgres_url, env=Env())
    migrate(database, schema)
    database.close()
    served = serve(postgres_url)
    owner = world.start(served.here, labels={"team": "red"})
    owner.intend("pay")
    owner.ask_a_person()
    world.start(served.here)
    for path in (*PAGES, f"/tasks/{owner.task_id}", "/?label=team%3Dred&state=review"):
        assert Browser(served).get(path).status == 200
    assert owner.task_id in Browser(served).get("/?label=team%3Dred").html
    assert "server=primary" in Browser(served).get("/health").text


# -- filters and paging ------------------------------------------------------------------------


def test_filters_stand_in_the_address(serve):
    served = serve()
    red = world.submit(served.here, agent="red", labels={"team": "a"}, input='{"find":"needle"}')
    blue = world.submit(served.here, agent="blue", queue="slow")
    ended = world.start(served.here)
    ended.succeed()
    browser = Browser(served)

    def shown(query: str) -> set[str]:
        page = browser.get(f"/?{query}")
        return {task for task in (red.id, blue.id, ended.task_id) if f"task-{task}" in page.html}

    assert shown("") == {red.id, blue.id}
    assert shown("state=all") == {red.id, blue.id, ended.task_id}
    assert shown("state=succeeded,failed") == {ended.task_id}
    assert shown("queue=slow") == {blue.id}
    assert shown("agent=red") == {red.id}
    assert shown("label=team%3Da") == {red.id}
    assert shown("text=needle") == {red.id}
    served.clock.move(60_000)
    assert shown("since=30s") == set()
    assert shown("since=2m") == {red.id, blue.id}


@pytest.mark.parametrize(
    "query", ["state=asleep", "since=never", "label=x", "group=-1", "text=%00"]
)
def test_a_filter_that_cannot_be_is_refused_on_a_page(serve, query):
    page = Browser(serve()).get(f"/?{query}")
    assert page.status == 400
    assert "That cannot be done" in page.text


def test_pages_of_fifty_go_through_all_tasks_once(serve):
    served = serve()
    for _ in range(3):
        world.start(served.here)
    ended = [world.start(served.here) for _ in range(60)]
    for owner in ended:
        owner.succeed()
    world.submit(served.here)
    browser, path, seen, pages = Browser(served), "/?state=all", [], 0
    while path:
        page = browser.get(path)
        seen += [part.partition('"')[0] for part in page.html.split('<tr id="task-')[1:]]
        path = next((link for link in page.links if "after=" in link), "")
        pages += 1
    assert pages == 2
    assert len(seen) == len(set(seen)) == 64
    assert set(seen[4:]) == {owner.task_id for owner in ended}


# -- what every answer carries -----------------------------------------------------------------


def test_every_answer_forbids_what_pages_do_not_need(serve):
    served = serve()
    task = world.submit(served.here)
    browser = Browser(served)
    paths = [*PAGES, "/sign-in", f"/tasks/{task.id}", f"/tasks/{task.id}/cancel", "/tasks/none0000"]
    for page in (*map(browser.get, paths), browser.post("/drain/order?all=1", {})):
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cache-control"] == "no-store"


def test_no_page_has_scripts_or_styles_of_its_own_or_names_another_host(serve):
    served = serve()
    owner = world.start(served.here)
    browser = Browser(served)
    for path in (*PAGES, f"/tasks/{owner.task_id}", f"/tasks/{owner.task_id}/cancel", "/sign-in"):
        page = browser.get(path).html
        assert " style=" not in page
        assert "<script>" not in page
        assert " on" not in {part[:3] for part in page.split('="')}
        assert "http://" not in page
        assert "https://" not in page


def test_what_pages_load_is_there_and_nothing_else_of_the_folder(serve):
    browser = Browser(serve())
    page = browser.get("/")
    loaded = {part.partition('"')[0] for part in page.html.split('="/static/')[1:]}
    assert {"style.css", "live.js", "htmx.min.js"} <= loaded
    for name in loaded:
        found = browser.get(f"/static/{name}")
        assert found.status == 200
        assert (
            browser.get(f"/static/{name}", **{"If-None-Match": found.headers["etag"]}).status == 304
        )
    for name in ("README.md", "../app.py", "%2e%2e/app.py", "nothing"):
        assert browser.get(f"/static/{name}").status == 404


def test_what_others_wrote_is_shown_and_does_nothing(serve):
    served = serve()
    owner = world.start(
        served.here, agent=EVIL, input=f'{{"x":"{EVIL.replace(chr(34), "")}"}}', labels={EVIL: EVIL}
    )
    world.enlisted(served.here, "evil", host=EVIL, build=EVIL)
    owner.step(EVIL, EVIL)
    owner.intend(EVIL, tool=EVIL)
    world.signal(served.here, owner.task_id, EVIL, EVIL, sent_by=EVIL)
    owner.ask_a_person()
    owner.step(EVIL)
    failed = world.start(served.here, agent="agent")
    failed.send(
        failed.offer(("task.failed", {"reason": "error", "error": {"type": EVIL, "message": EVIL}}))
    )
    browser = Browser(served)
    cancelled = world.submit(served.here)
    browser.send(f"/tasks/{cancelled.id}/cancel", {"reason": EVIL})
    [doubt] = [link for link in browser.get("/effects").links if "settle?" in link]
    drain = [link for link in browser.get("/workers").links if "build=" in link]
    tasks = [f"/tasks/{task}" for task in (owner.task_id, failed.task_id, cancelled.id)]
    for path in (*PAGES, *tasks, doubt, *drain, f"/?text={EVIL}&agent={EVIL}", f"/?since={EVIL}"):
        page = browser.get(path.replace(" ", "%20"))
        assert page.status in (200, 400)
        assert "<script>alert" not in page.html
        assert "<img" not in page.html
    assert "<script>alert(1)" in browser.get("/").text


def test_marks_that_turn_or_hide_text_are_left_out(serve):
    served = serve()
    world.submit(served.here, agent="pay\u202etsil\u2066\x1b[31m")
    page = Browser(served).get("/").html
    assert not {"\u202e", "\u2066", "\x1b"} & set(page)


# -- what it costs -----------------------------------------------------------------------------


@pytest.mark.parametrize("query", [(), (("label", "team=red"),), (("text", "needle"),)])
def test_home_costs_as_many_statements_for_many_tasks_as_for_few(serve, query):
    served = serve()
    told = [statements(served, query)]
    for _ in range(3):
        served.here.submit([world.new_task(served.here, agent="other") for _ in range(200)])
    told.append(statements(served, query))
    assert told[1] <= told[0] + 5, "a page that is full has owners and effects to look up"
    assert told[1] < 40


def statements(served, query):
    """How many statements a look at the home page sends to the database."""
    store = open_store(served.db, env=served.env)
    seen = []
    store.now_ms()
    store.database._connect().set_trace_callback(seen.append)
    home.look(Fleet(), store, Asked(query))
    store.close()
    return len(seen)
