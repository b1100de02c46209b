"""The dashboard in a real browser: what changes while one looks, by keyboard, on a phone, dark."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from outlast.server import live
from outlast.store.open import open_store
from tests.server.conftest import Served
from tests.store import world
from tests.support.processes import Processes
from tests.support.programs import require, require_module

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE = {"width": 360, "height": 740}
SLOW_MS = 20_000


# Not for the whole session: while it is open this thread has a running loop, and none can be begun.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    require_module("playwright", "test")
    program = require("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Desktop:
    """Opens pages, and remembers what their consoles said and whom they asked for anything."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.complaints: list[str] = []
        self.hosts: set[str] = set()

    def open(self, url: str, **options: Any) -> Page:
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        context.set_default_timeout(SLOW_MS)
        page: Page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.goto(url)
        return page

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def desktop(chromium: Browser) -> Iterator[Desktop]:
    desktop = Desktop(chromium)
    yield desktop
    desktop.close()


def shows(page: Page, text: str, within: str = "body") -> None:
    """Wait until a part of the page shows a text."""
    from playwright.sync_api import expect

    expect(page.locator(within)).to_contain_text(text, timeout=SLOW_MS)


def is_live(page: Page) -> None:
    shows(page, "Live, as of", ".status")


def give_reason(page: Page, button: str) -> None:
    page.get_by_label("Reason").fill("the test wants it")
    page.get_by_role("button", name=button).click()


# -- what changes before one's eyes ------------------------------------------------------------


def test_an_owner_and_its_heartbeat_change_while_one_looks(serve, desktop):
    served = serve()
    owner = world.start(served.here)
    page = desktop.open(served.url)
    is_live(page)
    row = f"#task-{owner.task_id}"
    served.clock.move(4_000)
    shows(page, "4.0s ago", row)
    owner.renew()
    shows(page, "0.0s ago", row)
    owner.release("drain")
    world.enlisted(served.here, "heir", pid=99)
    heir = world.claim(served.here, "heir")
    shows(page, "host/99", row)
    shows(page, "epoch 2", row)
    assert heir.task_id == owner.task_id
    assert desktop.complaints == []
    assert desktop.hosts == {urlsplit(served.url).netloc}


def test_a_cancel_is_given_with_a_reason_and_watched_through_its_stages(serve, desktop):
    served = serve()
    owner = world.start(served.here)
    page = desktop.open(f"{served.url}/tasks/{owner.task_id}")
    page.get_by_role("link", name="Cancel…").click()
    shows(page, "Its owner is asked at its next heartbeat")
    give_reason(page, "Cancel this task")
    stages = page.locator(".stages li")
    done = page.locator(".stages li.done")
    done.nth(0).wait_for()
    assert "the test wants it" in stages.nth(0).inner_text()
    is_live(page)
    assert done.count() == 1
    served.clock.move(1_000)
    owner.renew()
    done.nth(1).wait_for()
    served.clock.move(1_000)
    owner.acknowledge_cancel()
    done.nth(3).wait_for()
    shows(page, "cancelled", ".lead")
    assert desktop.complaints == []


def test_an_unknown_effect_is_settled(serve, desktop):
    served = serve()
    owner = world.start(served.here)
    owner.intend("pay")
    owner.ask_a_person()
    page = desktop.open(served.url)
    page.get_by_role("link", name="1 effect unknown").click()
    page.get_by_role("link", name="Settle").click()
    page.get_by_role("radio", name="It was applied").check()
    page.get_by_label("Receipt").fill('{"tx": 17}')
    give_reason(page, "Settle it")
    shows(page, '{"tx":17}', "[aria-label=Effects]")
    assert world.effect(served.here, owner.key("pay")).state == "applied"
    assert desktop.complaints == []


def test_a_worker_is_drained_and_the_sentence_turns(serve, desktop):
    served = serve()
    owner = world.start(served.here)
    served.clock.move(8_000)
    page = desktop.open(f"{served.url}/workers")
    watcher = desktop.open(served.url)
    shows(watcher, "Not safe to deploy", ".sentence")
    page.get_by_role("link", name=re.compile("Drain host")).click()
    give_reason(page, "Drain this worker")
    shows(page, owner.task_id[:13], "#draining-worker-old")
    owner.renew()
    owner.release("drain")
    shows(watcher, "Safe to deploy: no task is being run", ".sentence")
    shows(page, "nothing; it is about to leave", "#draining-worker-old")
    assert desktop.complaints == []


def test_what_is_typed_and_focused_stays_while_the_page_changes(serve, desktop):
    served = serve()
    owner = world.start(served.here)
    page = desktop.open(served.url)
    is_live(page)
    page.get_by_text("Filter", exact=True).first.click()
    page.get_by_label("Agent").fill("age")
    link = page.locator(f"#task-{owner.task_id} a")
    link.focus()
    served.clock.move(3_000)
    shows(page, "3.0s ago")
    assert link.evaluate("link => link === document.activeElement")
    assert page.get_by_label("Agent").input_value() == "age"
    assert page.get_by_label("Agent").is_visible()


def test_a_page_stays_live_when_one_stream_ends_and_the_next_begins(serve, desktop, monkeypatch):
    monkeypatch.setattr(live, "STREAM_S", 1.5)
    served = serve()
    page = desktop.open(served.url)
    is_live(page)
    page.evaluate(
        """() => {
            window.states = [];
            const keep = () => window.states.push(document.documentElement.dataset.stream);
            new MutationObserver(keep).observe(document.documentElement, {attributes: true});
        }"""
    )
    with page.expect_response("**/live/home?"), page.expect_response("**/live/home?"):
        pass
    served.clock.move(5_000)
    shows(page, "08:00:05.000Z", ".status")
    assert "lost" not in page.evaluate("window.states")


def test_a_hidden_page_stops_looking_and_catches_up_when_it_is_seen(serve, desktop):
    served = serve()
    world.start(served.here)
    page = desktop.open(served.url)
    is_live(page)
    hide(page, True)
    shows(page, "Paused, as of", ".status")
    served.clock.move(5_000)
    hide(page, False)
    shows(page, "5.0s ago")
    is_live(page)
    assert desktop.complaints == []


def hide(page: Page, hidden: bool) -> None:
    """What a browser does when its window is covered; a headless one has no window."""
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_when_the_server_is_killed_the_page_says_last_known_and_greys(
    processes: Processes, desktop: Desktop, sqlite_url: str
) -> None:
    store = open_store(sqlite_url, create=True)
    owner = world.start(store)
    run = processes.outlast("serve", "--port", "0", environment={"OUTLAST_DB": sqlite_url})
    url = re.findall(r"http://\S+", run.wait_for_line("serves at"))[0]
    page = desktop.open(url)
    is_live(page)
    run.send(signal.SIGKILL)
    shows(page, "Last known, as of", ".status")
    assert owner.task_id[:13] in page.inner_text("#live")
    assert float(page.locator("#live").evaluate("e => getComputedStyle(e).opacity")) < 1
    port = url.rpartition(":")[2]
    processes.outlast("serve", "--port", port, environment={"OUTLAST_DB": sqlite_url})
    is_live(page)
    store.close()


# -- however it is used ------------------------------------------------------------------------


def test_a_task_is_cancelled_by_keyboard_alone(serve, desktop):
    served = serve()
    task = world.submit(served.here)
    page = desktop.open(served.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    tab_to(page, task.id[:13])
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_url("**/tasks/*")
    tab_to(page, "Cancel…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/cancel")
    tab_to(page, "")
    page.keyboard.type("by keyboard")
    page.keyboard.press("Enter")
    shows(page, "cancelled", ".lead")
    assert served.here.get(task.id).state == "cancelled"


def tab_to(page: Page, text: str) -> None:
    """Press Tab until what has the focus reads so; "": until it is a field to type into."""
    for _ in range(60):
        page.keyboard.press("Tab")
        tag, said = page.evaluate(
            "[document.activeElement.tagName, document.activeElement.textContent]"
        )
        if (text and text in said) or (not text and tag == "INPUT"):
            return
    raise AssertionError(f"Tab never came to {text!r}")


def every_page(served: Served) -> list[str]:
    owner = world.start(
        served.here,
        agent="an_agent_with_a_rather_long_name_for_a_phone",
        input='{"text":"' + "long " * 40 + "x" * 300 + '"}',
        labels={"a-label-key": "v" * 200},
    )
    owner.step("k" * 100, {"value": "y" * 300})
    owner.intend("pay" * 30)
    owner.ask_a_person()
    running = world.start(served.here)
    tasks = [f"/tasks/{each.task_id}" for each in (owner, running)]
    return ["/", "/workers", "/effects?all=1", "/drain", "/health", "/sign-in", *tasks,
            f"{tasks[1]}/cancel", "/tasks/none0000"]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone_and_none_complains(serve, desktop, scheme):
    served = serve()
    paths = every_page(served)
    page = desktop.open(served.url, viewport=PHONE, color_scheme=scheme)
    for path in paths:
        page.goto(served.url + path)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        bright = sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128
        assert bright is (scheme == "light")
    assert [said for said in desktop.complaints if "404" not in said] == []
    assert desktop.hosts == {urlsplit(served.url).netloc}


def test_without_javascript_pages_are_read_and_orders_given(serve, desktop):
    served = serve()
    owner = world.start(served.here)
    page = desktop.open(served.url, java_script_enabled=False)
    shows(page, "Safe to deploy: 1 task is being run")
    page.get_by_role("link", name=owner.task_id[:13]).click()
    page.get_by_role("link", name="Cancel…").click()
    give_reason(page, "Cancel this task")
    shows(page, "the test wants it", ".stages")
    assert owner.task.cancel_by == "somebody on this machine"
