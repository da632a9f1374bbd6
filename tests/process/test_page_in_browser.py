"""The page for people in a real browser, against a real server."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from process_server import ServerProcess

from mirror_sdk._visible import shown_names
from mirror_server.keys import Scope

pytestmark = [pytest.mark.process, pytest.mark.browser]

LEVEL = "/3311/0/5851"
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def light(shared_server: ServerProcess) -> str:
    """A device with a dimmer, and one whose name is made to break a page."""
    application = shared_server.application()
    application.add_device(NASTY, {"path": "/3303/0/5700", "value": NASTY, "observable": True})
    return application.add_device("a-light", {"path": LEVEL, "value": "10", "writable": True, "observable": True})


class Visit:
    """A visitor's page, and what went wrong on it."""

    def __init__(self, page: Page, server: ServerProcess) -> None:
        self.page = page
        self.server = server
        self.wrong: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda message: self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self.hosts.add(httpx.URL(request.url).netloc.decode()))

    def sign_in(self, key: str) -> None:
        self.page.goto(f"{self.server.url}/#key={key}")
        expect(self.page.get_by_role("button", name="a-light")).to_be_visible()


@pytest.fixture
def visit(browser: Browser, shared_server: ServerProcess, light: str, request: Any) -> Iterator[Visit]:
    context = browser.new_context(**getattr(request, "param", {"viewport": {"width": 1360, "height": 900}}))
    context.set_default_timeout(15_000)
    yield Visit(context.new_page(), shared_server)
    context.close()


def test_a_write_is_seen_as_it_happens(visit: Visit, light: str, tmp_path: Path) -> None:
    key = visit.server.key()
    application = visit.server.client(key)
    visit.sign_in(key)
    page = visit.page
    assert key not in page.url
    expect(page.get_by_text("Live:")).to_be_visible()
    page.get_by_role("button", name="a-light").click()
    expect(page.locator("#device")).to_contain_text(light)

    application.patch_device(light, online=False)
    application.write(light, LEVEL, "55", "dim")
    row = page.locator("#resources tr", has_text=LEVEL)
    expect(page.locator("#waiting tr")).to_contain_text("write /3311/0/5851", timeout=20_000)
    expect(row).to_contain_text("pending")
    expect(page.locator("#devices tr", has_text="a-light")).to_contain_text("1 pending")
    application.patch_device(light, online=True)
    expect(row).to_contain_text("success")
    expect(page.locator("#tail tr").first).to_contain_text("async-responses")
    expect(page.locator("#waiting tr")).to_have_count(0)

    application.read(light, LEVEL, "look")
    expect(row.locator("td").first).to_have_text("55")
    application.write(light, LEVEL, "56", "dim-again")
    expect(row).to_contain_text("success, unconfirmed")
    words = "The device took 56; the last report, 55, is older. A read confirms it."
    expect(page.locator("#resources .unconfirmed[colspan]")).to_have_text(words)
    expect(page.locator("#devices tr", has_text="a-light")).to_contain_text("1 unconfirmed")
    page.screenshot(path=tmp_path / "unconfirmed.png", full_page=True)
    application.http.put(f"/sim/v1/devices/{light}/resources{LEVEL}", json={"value": "20"})
    application.read(light, LEVEL, "look-again")
    expect(row).to_contain_text("success, but differs")
    expect(page.locator("#devices tr", has_text="a-light")).to_contain_text("1 differ")
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000
    assert visit.wrong == []
    assert visit.hosts == {f"127.0.0.1:{visit.server.port}"}


def test_an_event_has_the_time_of_the_service_not_that_of_the_browser(visit: Visit) -> None:
    visit.page.clock.set_fixed_time("2001-02-03T04:05:06Z")
    key = visit.server.key()
    application = visit.server.client(key)
    device_id = application.add_device("goes", {"path": LEVEL, "value": "1"})
    visit.sign_in(key)
    expect(visit.page.locator("#stream")).to_contain_text("Live")
    application.http.delete(f"/sim/v1/devices/{device_id}/registration").raise_for_status()
    row = visit.page.locator("#tail tr", has_text="de-registrations")
    expect(row).to_contain_text("goes")
    expect(row.locator("time")).to_have_count(1)
    assert not visit.page.locator("#tail time[datetime^='2001']").count()
    assert visit.wrong == []


def test_names_and_values_are_text_never_markup(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.page.get_by_role("button", name=NASTY).click()
    assert visit.page.locator("main img").count() == 0
    assert visit.wrong == []


def test_a_wrong_key_is_told_and_not_kept(visit: Visit) -> None:
    page = visit.page
    page.goto(visit.server.url)
    page.get_by_label("Access key").fill(f"ak_0123456789abcdef_{'x' * 43}")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("status").first).to_contain_text("unknown or revoked access key")
    expect(page.get_by_role("main")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0


def test_a_key_is_kept_over_a_reload_until_it_is_forgotten(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.page.goto(visit.server.url)
    expect(visit.page.get_by_role("button", name="a-light")).to_be_visible()
    visit.page.get_by_role("button", name="Forget the key").click()
    visit.page.reload()
    expect(visit.page.get_by_label("Access key")).to_be_visible()
    expect(visit.page.get_by_role("main")).to_be_hidden()


def test_a_key_without_a_scope_is_told_which_one(visit: Visit) -> None:
    visit.page.goto(f"{visit.server.url}/#key={visit.server.key(Scope.SUBSCRIBE)}")
    expect(visit.page.get_by_role("status").first).to_contain_text("this key lacks the scope read")


@pytest.mark.parametrize("visit", [{"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}], indirect=True)
def test_on_a_phone_nothing_is_wider_than_the_screen(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.page.get_by_role("button", name="a-light").click()
    expect(visit.page.locator("#resources tr")).not_to_have_count(0)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 360
    background = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", background)[:3])) < 60


def test_devices_are_found_by_the_beginning_of_their_names_with_the_keyboard(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.page.get_by_label("Name begins with").press_sequentially("a-li")
    expect(visit.page.locator("#devices tr")).to_have_count(1)
    visit.page.keyboard.press("Tab")  # the table, which scrolls
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#device")).to_contain_text("a-light")


def test_the_focus_stays_where_the_devices_are_shown_anew(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    device = visit.page.get_by_role("button", name="a-light")
    device.focus()
    visit.page.evaluate("document.querySelector('#devices tr').id = 'before'")
    visit.page.evaluate("document.getElementById('prefix').dispatchEvent(new Event('input', {bubbles: true}))")
    expect(visit.page.locator("#before")).to_have_count(0)
    expect(device).to_be_focused()


def test_a_server_that_stops_is_told_and_found_again(browser: Browser, start_server: Any) -> None:
    server: ServerProcess = start_server("--simulate", "0")
    key = server.key()
    application = server.client(key)
    device = application.add_device("a-light", {"path": LEVEL, "value": "1", "observable": True})
    context = browser.new_context()
    visit = Visit(context.new_page(), server)
    visit.sign_in(key)
    expect(visit.page.get_by_text("Live:")).to_be_visible()
    assert server.stop() == 0
    server.child.close()
    expect(visit.page.locator("#stream")).to_contain_text("The server does not answer")
    server.start()
    expect(visit.page.get_by_text("Live:")).to_be_visible(timeout=20_000)
    server.client(key).http.put(f"/v2/subscriptions/{device}{LEVEL}").raise_for_status()
    expect(visit.page.locator("#tail")).to_contain_text(LEVEL)
    context.close()


def test_bytes_that_are_no_text_are_shown_as_bytes(visit: Visit) -> None:
    page = visit.page
    page.goto(visit.server.url)
    shown = {}
    for name, raw in {"text": "21 °C".encode(), "bytes": b"\x00\xff", "empty": b"", "long": b"x" * 500}.items():
        script = f"import('./page/show.js').then(m => m.shownValue('{base64.b64encode(raw).decode()}').textContent)"
        shown[name] = page.evaluate(script)
    assert shown == {"text": "21 °C", "bytes": "00 ff", "empty": "empty", "long": "x" * 200 + "…"}


def test_names_that_look_alike_are_told_apart_as_in_notebooks(visit: Visit) -> None:
    names = {"0198f00d0001": "Küche", "0198f00d0002": "küche", "0198f00d0003": "Ku\u0308che", "a": "straße"}
    names |= {"0198f00d0004": "Kü\u200bche", "0198f00d0005": "Hall", "b": "STRASSE"}
    visit.page.goto(visit.server.url)
    script = "devices => import('./page/show.js').then(m => Object.fromEntries(m.shownNames(devices)))"
    devices = [{"id": device_id, "endpoint_name": name} for device_id, name in names.items()]
    assert visit.page.evaluate(script, devices) == shown_names(names)
