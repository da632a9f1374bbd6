"""The page for people in a real browser, against a real server."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from contrast import expect_enough_contrast
from playwright.sync_api import Browser, Locator, Page, Route, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from process_server import PATIENCE_SECONDS, ServerProcess, run_command, wait_for, wait_until
from resource_paths import LEVEL, REBOOT, SWITCH

from mirror_sdk import InvalidValue, parse_value
from mirror_sdk._visible import display_names, visible
from mirror_sdk.object_table import lookup
from mirror_sdk.values import LWM2M_TLV, decode, encode, plain_text
from mirror_sdk.values.tlv import join_instances, write_tlv
from mirror_server.service.keys import Scope

pytestmark = [pytest.mark.process, pytest.mark.browser]

NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def light(shared_server: ServerProcess) -> str:
    """A device with a dimmer, and two whose names are made to break a page."""
    application = shared_server.application()
    application.add_device(
        NASTY,
        {"path": "/3303/0/5700", "value": NASTY, "observable": True},
        {"path": "/3303/0/5701", "value": f"{NASTY} as unit"},
    )
    application.add_device("z" * 64, {"path": LEVEL, "value": "8" * 200}, endpoint_type="a" + "\u0301" * 40)
    return application.add_device(
        "a-light",
        {"path": LEVEL, "value": "10", "writable": True, "observable": True},
        {"path": SWITCH, "value": "0", "writable": True},
        {"path": REBOOT, "value": "", "executable": True},
    )


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

    def open(self, device: str, resource: str) -> None:
        """Choose a device and open one of its resources."""
        self.page.get_by_role("button", name=device, exact=True).click()
        self.page.get_by_role("button", name=resource, exact=True).click()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def come_back(self) -> None:
        """What is looked for now and then is looked for at once when a visitor comes back to the page."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    @property
    def answer(self) -> Locator:
        """What came of the newest request of the opened resource."""
        return self.page.get_by_role("log", name="Responses").locator("li").first

    @property
    def finding(self) -> Locator:
        """What is said of the value that is typed."""
        return self.page.locator("#finding")


@pytest.fixture
def visit(browser: Browser, shared_server: ServerProcess, light: str, request: Any) -> Iterator[Visit]:
    at_a_desk = {"viewport": {"width": 1360, "height": 900}, "timezone_id": "America/Phoenix"}
    context = browser.new_context(**getattr(request, "param", at_a_desk))
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield Visit(context.new_page(), shared_server)
    context.close()


def test_a_write_is_seen_as_it_happens(visit: Visit, light: str) -> None:
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    visit.sign_in(key)
    assert key not in page.url
    expect(page.get_by_text("Live:")).to_be_visible()
    page.get_by_role("button", name="a-light").click()
    expect(page.locator("#device")).to_contain_text(light)
    row, why = page.locator("#resources tr", has_text=LEVEL).first, page.locator("#resources .why")
    of_fleet, waiting = page.locator("#devices tr", has_text="a-light"), page.locator("#waiting tr")

    application.patch_device(light, online=False)
    application.write(light, LEVEL, "55", "dim")
    visit.come_back()
    expect(waiting).to_contain_text("write Light Control · Dimmer /3311/0/5851")
    expect(waiting).to_contain_text("a-light")
    expect(row).to_contain_text("pending")
    expect(of_fleet).to_contain_text("1 pending")
    application.patch_device(light, online=True)
    expect(row).to_contain_text("success, never reported")
    expect(why).to_have_text("The device accepted 55 % and has never reported a value here. A read confirms it.")
    expect(of_fleet).to_contain_text("1 never reported")
    expect(page.locator("#tail tr").first).to_contain_text("async-responses")
    expect(waiting).to_have_count(0)

    application.read(light, LEVEL, "look")
    expect(row.locator(".value").first).to_have_text("55 %")
    expect(of_fleet).to_contain_text("agree")
    application.write(light, LEVEL, "56", "dim-again")
    expect(row).to_contain_text("success, unconfirmed")
    expect(why).to_have_text("The device accepted 56 %; the last report, 55 %, is older. A read confirms it.")
    application.http.put(f"/sim/v1/devices/{light}/resources{LEVEL}", json={"value": "20"})
    application.read(light, LEVEL, "look-again")
    expect(row).to_contain_text("success, but differs")
    expect(of_fleet).to_contain_text("1 differ")
    expect(why).to_contain_text("The device accepted 56 % and has reported 20 % since")
    assert visit.wrong == []
    assert visit.hosts == {f"127.0.0.1:{visit.server.port}"}


def test_the_page_shows_the_connection_of_a_device(visit: Visit) -> None:
    real = {"protocol": "coaps", "lwm2m_version": "1.1", "binding": "U\u202eQ", "address": "[::1]:40000"}

    def change(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | real)

    visit.sign_in(visit.server.key())
    connection = visit.page.locator("#connection")
    visit.page.get_by_role("button", name="a-light").click()
    expect(connection).to_contain_text("simulated · reachable · lifetime 86400 s · last contact ")
    visit.page.route("**/connection", change)
    visit.come_back()
    words = "LwM2M 1.1 over CoAP with DTLS · binding U\\u202eQ · reachable · lifetime 86400 s · from [::1]:40000"
    expect(connection).to_contain_text(words)
    assert visit.wrong == []


def test_names_and_values_are_text_never_markup(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.page.get_by_role("button", name=NASTY, exact=True).click()
    for resource, value in (("Sensor Units", f"{NASTY} as unit"), ("Sensor Value", NASTY)):
        visit.press(f"Temperature · {resource}")
        visit.press("Read")
        expect(visit.answer).to_contain_text(f"Read: {value}, ")
        expect(visit.page.locator("#tail tr").first).to_contain_text(NASTY)
    assert visit.page.locator("main img").count() == 0
    assert visit.wrong == []


def test_number_has_its_unit_as_people_write_it_and_no_rounding_errors(visit: Visit) -> None:
    numbers = {"path": "/3313/0/5702", "value": "0.30000000000000004"}, {"path": "/3313/0/5701", "value": "m/s2"}
    visit.server.client(visit.server.key()).add_device("accelerometer", *numbers)
    visit.sign_in(visit.server.key())
    visit.page.get_by_role("button", name="accelerometer", exact=True).click()
    for resource, value in (("Sensor Units", "m/s2"), ("X Value", "0.3 m/s²")):
        visit.press(f"Accelerometer · {resource}")
        visit.press("Read")
        expect(visit.answer).to_contain_text(f"Read: {value}, ")
    expect(visit.page.locator("#resources tr", has_text="X Value").locator(".value").first).to_have_text("0.3 m/s²")
    assert visit.wrong == []


def test_a_deleted_device_is_reported(visit: Visit) -> None:
    key, page = visit.server.key(), visit.page
    device_id = visit.server.client(key).add_device("goes-for-good", {"path": LEVEL, "value": "1"})
    visit.sign_in(key)
    visit.press("goes-for-good")
    expect(page.locator("#resources tr")).to_have_count(1)
    # All requests have their responses.
    expect(page.locator("#connection")).to_be_visible()
    erased = run_command("erase", device_id, "--yes", "--database", visit.server.database_url)
    assert erased.returncode == 0, erased.stderr
    visit.come_back()
    expect(page.locator("#device")).to_have_text(f"There is no device with the id {device_id}.")
    expect(page.locator("#resources tr")).to_have_count(0)
    expect(page.get_by_role("button", name="goes-for-good")).to_have_count(0)
    assert visit.wrong == []


def test_numbers_without_a_distance_are_not_drawn(visit: Visit) -> None:
    key, page = visit.server.key(), visit.page
    application = visit.server.client(key)
    device_id = application.add_device("swings", {"path": LEVEL, "value": "1"})
    visit.sign_in(key)
    visit.open("swings", "Light Control · Dimmer")
    for value in ("1", "2", "1.7e308", "-1.7e308"):
        application.http.put(f"/sim/v1/devices/{device_id}/resources{LEVEL}", json={"value": value})
        visit.press("Read")
        expect(visit.answer).to_contain_text(f"Read: {value} %, ")
    expect(page.locator("figcaption")).to_have_text("2 values that this key received or read")
    assert "NaN" not in page.locator("figure svg").inner_html()
    assert visit.wrong == []


def test_a_failed_first_request_is_retried(visit: Visit) -> None:
    page = visit.page
    page.route("**/v3/devices?*", lambda route: route.fulfill(status=503))
    page.goto(f"{visit.server.url}/#key={visit.server.key()}")
    expect(page.get_by_role("status").first).to_contain_text("responded with 503")
    assert page.evaluate("sessionStorage.length") == 1
    page.unroute("**/v3/devices?*")
    expect(page.get_by_role("button", name="a-light")).to_be_visible()
    expect(page.get_by_role("status").first).to_have_text("")


def test_a_revoked_key_is_reported_and_signed_out(visit: Visit) -> None:
    key = visit.server.key()
    visit.sign_in(key)
    assert run_command("keys", "revoke", key.split("_")[1], "--database", visit.server.database_url).returncode == 0
    device = visit.page.get_by_role("button", name="a-light")
    # The stream may have reported it already; then there is nothing to click.
    if device.is_visible():
        with suppress(PlaywrightTimeoutError):
            device.click(timeout=10_000)
    expect(visit.page.get_by_role("status").first).to_contain_text("unknown or revoked access key")
    expect(visit.page.get_by_role("main")).to_be_hidden()
    assert visit.page.evaluate("sessionStorage.length") == 0


def test_a_rejection_that_arrives_after_sign_out_is_ignored(visit: Visit) -> None:
    """For example, two requests are rejected, and the page drops the key with the first."""
    visit.page.goto(visit.server.url)
    ended = visit.page.evaluate("""async () => {
        const { callApi, useKey } = await import("/page/interface.js");
        window.fetch = async (_, { signal }) => {
            const body = () => new Promise((_, end) => signal.addEventListener("abort", () => end(signal.reason)));
            return { ok: false, status: 401, json: body, text: body };
        };
        const ended = callApi("GET", "/v3/devices").catch((error) => error.name);
        await new Promise((resolve) => setTimeout(resolve));
        useKey(""); return await ended;
    }""")
    assert ended == "AbortError"


def test_a_key_survives_a_reload_until_sign_out_unless_it_is_rejected(visit: Visit) -> None:
    page, told = visit.page, visit.page.get_by_role("status").first
    visit.sign_in(visit.server.key())
    page.goto(f"{visit.server.url}/#device=no-device")
    page.reload()
    expect(page.locator("#device")).to_have_text("There is no device with the id no-device.")
    expect(page.get_by_role("button", name="a-light")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    page.reload()
    page.get_by_label("Access key").fill(f"ak_0123456789abcdef_{'x' * 43}")
    page.get_by_role("button", name="Show").click()
    expect(told).to_contain_text("unknown or revoked access key")
    expect(page.get_by_role("main")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_label("Access key").fill(visit.server.key(Scope.SUBSCRIBE))
    page.get_by_role("button", name="Show").click()
    expect(told).to_contain_text("this key lacks the scope read")


PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True, "is_mobile": True}
TOO_WIDE = """() => [...document.querySelectorAll("header, section")].flatMap((card) => {
    const edge = Math.min(card.getBoundingClientRect().right, document.documentElement.clientWidth);
    return [...card.querySelectorAll("*")].filter((each) => each.checkVisibility()).filter((each) => {
        const isCut = getComputedStyle(each).display !== "inline" && each.scrollWidth > each.clientWidth + 1;
        return each.getBoundingClientRect().right > edge + 0.5 || (isCut && each.clientWidth > 0);
    }).map((each) => `${each.tagName} ${each.textContent.slice(0, 40)}`);
})"""
ACTIONS = {
    "Device",
    "Last contact",
    "Drift",
    "a-light",
    "Back to the devices",
    "Device · Reboot",
    "Light Control · Dimmer",
}
ACTIONS |= {"Read", "Subscribe", "New value: a whole number from 0 to 100, in %", "Write"}


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_nothing_is_cut_on_a_phone_or_at_any_width_and_all_of_it_can_be_read(visit: Visit, light: str) -> None:
    page = visit.page
    # On another day each time has its date.
    page.clock.set_fixed_time("2031-02-03T04:05:06Z")
    key = visit.server.key()
    application = visit.server.client(key)
    visit.sign_in(key)
    page.get_by_role("button", name="a-light").tap()
    expect(page.locator("#resources .value").first).to_be_in_viewport()
    expect(page.get_by_role("heading", name="Resources")).to_be_focused()
    visit.press("Back to the devices")
    expect(page.get_by_role("heading", name="Devices")).to_be_in_viewport()
    visit.open("a-light", "Light Control · Dimmer")
    expect(page.locator("#stream")).to_contain_text("Live")
    application.patch_device(light, answer="reject")
    application.write(light, LEVEL, "33", "refused")
    expect(page.locator("#resources .why")).to_contain_text("REJECTED")
    application.patch_device(light, answer="normal", online=False)
    application.write(light, LEVEL, "34", "waits")
    visit.come_back()
    expect(page.locator("#waiting tr")).to_have_count(1)
    page.get_by_role("button", name="z" * 64).click()
    visit.open("a-light", "Light Control · Dimmer")
    page.get_by_label("New value").fill("140")
    expect(page.locator("#devices time").first).to_have_text(re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d"))
    for name in ("Read", "Subscribe", "Write"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_enabled()
    page.get_by_label("Name contains").focus()
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()"))
    assert not ACTIONS - reached
    for width in (360, 700, 961, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        wait_for([], lambda: page.evaluate(TOO_WIDE))
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect_enough_contrast(page.locator("body"))
    application.patch_device(light, online=True)
    assert visit.wrong == []


def test_a_device_is_read_written_and_executed_with_responses_on_the_page(visit: Visit, light: str) -> None:
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    visit.sign_in(key)
    visit.open("a-light", "Light Control · Dimmer")
    visit.press("Read")
    expect(visit.answer).to_contain_text(re.compile("Read: \\d+ %, "))

    typed = page.get_by_label("New value: a whole number from 0 to 100, in %")
    typed.fill("140")
    typed.press("Enter")
    expect(visit.finding).to_have_text("Expected a whole number from 0 to 100; write a number in this range.")
    expect(typed).to_have_value("140")
    expect(visit.answer).to_contain_text("Read")
    typed.fill("71")
    expect(visit.finding).to_have_text("")
    typed.press("Enter")
    expect(visit.answer).to_contain_text("Write of 71 %: done, ")
    assert application.simulated_values(light)[LEVEL] == "71"
    typed.fill("71")
    expect(visit.finding).to_contain_text("This is already the current value")

    application.patch_device(light, answer="reject")
    typed.fill("72")
    visit.press("Write")
    expect(visit.answer).to_contain_text("Write of 72 %: failed. REJECTED, the device rejected")
    expect(page.locator("#resources .why")).to_contain_text("The write of 72 % failed: REJECTED")
    visit.press("Acknowledge failure")
    expect(page.locator("#resources .why")).to_contain_text("test acknowledged it ")
    expect(page.get_by_text("failure, acknowledged")).to_be_visible()
    expect(page.get_by_role("button", name="Acknowledge failure")).to_be_hidden()
    application.patch_device(light, answer="normal")

    page.get_by_role("button", name="Light Control · On/Off").click()
    page.get_by_label("New value: true or false").select_option("true")
    visit.press("Write")
    expect(visit.answer).to_contain_text("Write of true: done, ")
    page.get_by_role("button", name="Device · Reboot").click()
    visit.press("Execute …")
    visit.press("Execute it now")
    expect(visit.answer).to_contain_text("Execution: done, ")
    assert page.get_by_role("button", name="Write", exact=True).count() == 0
    assert visit.wrong == []


def test_a_subscription_brings_values_to_a_plot_that_keys_walk_along(visit: Visit, light: str) -> None:
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    visit.sign_in(key)
    visit.open("a-light", "Light Control · Dimmer")
    visit.press("Subscribe")
    expect(page.get_by_text("This key is subscribed")).to_be_visible()
    for value in ("5", "25", "15"):
        application.http.put(f"/sim/v1/devices/{light}/resources{LEVEL}", json={"value": value})
        expect(page.locator("#resources tr", has_text=LEVEL)).to_contain_text(f"{value} %")
    plot = page.get_by_role("img", name="Light Control · Dimmer: ")
    expect(plot).to_have_accessible_name(re.compile("from 5 % to "))
    plot.focus()

    def is_at_the_last() -> bool:
        plot.press("End")
        return ": 15 %" in (page.locator("figcaption").text_content() or "")

    # A value stands in the table a moment before it is drawn.
    wait_until(is_at_the_last, "the last value at the end of the plot")
    plot.press("ArrowLeft")
    expect(page.locator("figcaption")).to_contain_text(": 25 %")
    page.reload()
    # What it shows again stands in the log of the key.
    expect(page.locator("#device")).to_contain_text(light)
    page.get_by_role("button", name="Light Control · Dimmer").click()
    expect(plot).to_have_accessible_name(re.compile("from 5 % to "))
    visit.press("Unsubscribe")
    expect(page.get_by_role("button", name="Subscribe", exact=True)).to_be_enabled()
    assert application.http.get(f"/v2/subscriptions/{light}{LEVEL}").status_code == 404
    assert visit.wrong == []


def test_a_read_only_key_sees_its_missing_scopes_and_no_failure_reasons_of_others(visit: Visit, light: str) -> None:
    other = visit.server.application()
    other.patch_device(light, answer="reject")
    other.write(light, LEVEL, "31", "refused-to-another")
    assert other.response("refused-to-another")["error"] == "REJECTED"
    other.patch_device(light, answer="normal")
    visit.sign_in(visit.server.key(Scope.READ))
    visit.open("a-light", "Light Control · Dimmer")
    why = "The write of 31 % failed: only the application that requested it gets the reason."
    expect(visit.page.locator(f'#resources [data-key="{LEVEL} why"]')).to_have_text(why)
    expect(visit.page.get_by_role("button", name="Read", exact=True)).to_be_enabled()
    for name in ("Write", "Subscribe"):
        expect(visit.page.get_by_role("button", name=name, exact=True)).to_be_disabled()
    expect(visit.page.get_by_text("This key lacks the scope write and subscribe")).to_be_visible()
    assert visit.wrong == []


def test_typed_input_stays_and_other_tabs_and_offline_devices_are_reported(visit: Visit) -> None:
    # Events have the time of the service, not that of the browser.
    visit.page.clock.set_fixed_time("2001-02-03T04:05:06Z")
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    device_id = application.add_device("b-light", {"path": LEVEL, "value": "1", "writable": True})
    tab = Visit(page.context.new_page(), visit.server)
    visit.sign_in(key)
    tab.page.goto(f"{visit.server.url}/#key={key}&device={device_id}")
    expect(tab.page.locator("#device")).to_contain_text("b-light")
    assert key not in tab.page.url
    visit.open("b-light", "Light Control · Dimmer")
    typed = page.get_by_label("New value")
    typed.fill("44")
    application.http.delete(f"/sim/v1/devices/{device_id}/registration").raise_for_status()
    expect(visit.finding).to_contain_text("The device is not registered")
    row = page.locator("#tail tr", has_text="de-registrations")
    expect(row).to_contain_text("b-light")
    expect(row.locator("time")).to_have_count(1)
    assert page.locator("#tail time[datetime^='2001']").count() == 0
    expect(typed).to_be_focused()
    expect(typed).to_have_value("44")
    visit.press("Write anyway")
    expect(visit.answer).to_contain_text("waits for the device, until ")
    tab.come_back()
    expect(page.locator("#waiting tr")).to_contain_text("b-light")
    expect(tab.page.locator("#waiting tr")).to_contain_text("b-light")
    application.json("POST", f"/sim/v1/devices/{device_id}/registration")
    expect(visit.answer).to_contain_text("Write of 44 %: done")
    expect(tab.page.locator("#tail")).to_contain_text("done (200)")
    expect(tab.page.locator("#resources")).to_contain_text("44 %")


def test_devices_are_sorted_and_filtered_and_times_have_their_zone(visit: Visit) -> None:
    application = visit.server.application()
    for name in ("c-10", "c-9", "c-8"):
        device_id = application.add_device(name, {"path": LEVEL, "value": "1"})
    application.http.delete(f"/sim/v1/devices/{device_id}/registration").raise_for_status()
    page = visit.page
    visit.sign_in(visit.server.key())
    page.get_by_label("Name contains").fill("c-")
    names = page.locator("#devices .name")
    expect(names).to_have_text(["c-8", "c-9", "c-10"])
    visit.press("Device ▲")
    expect(names).to_have_text(["c-10", "c-9", "c-8"])
    visit.press("Last contact")
    expect(names).to_have_text(["c-8", "c-9", "c-10"])
    expect(page.get_by_role("columnheader", name="Last contact")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("State").select_option("deregistered")
    expect(names).to_have_text(["c-8"])
    expect(page.locator("#zone")).to_have_text("Times are in America/Phoenix (UTC-07:00).")
    shown = page.locator("#devices time").text_content()
    page.get_by_label("in UTC").check()
    expect(page.locator("#zone")).to_have_text("Times are in UTC.")
    expect(page.locator("#devices time")).not_to_have_text(shown or "")


def test_devices_are_found_with_the_keyboard_and_the_focus_survives_updates(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    page, device = visit.page, visit.page.get_by_role("button", name="a-light")
    page.get_by_label("Name contains").press_sequentially("A-Li")
    expect(page.locator("#devices tr")).to_have_count(1)
    for _ in ("type", "state", "table", "name", "contact", "drift", "the device"):
        page.keyboard.press("Tab")
    page.evaluate("document.querySelector('#devices tr:has(:focus)').id = 'before'")
    page.evaluate("document.getElementById('name').dispatchEvent(new Event('input', {bubbles: true}))")
    expect(page.locator("#before")).to_have_count(0)
    expect(device).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#device")).to_contain_text("a-light")


def test_of_a_fleet_too_large_to_be_listed_the_service_finds_devices(visit: Visit, light: str) -> None:
    script = visit.server.client(visit.server.key()).http.get("/page/fleet.js").text
    small = re.sub(r"(MAX_DEVICES_PER_REQUEST|MAX_DEVICES) = [0-9_]+", r"\1 = 2", script)
    visit.page.route("**/page/fleet.js", lambda route: route.fulfill(body=small, content_type="text/javascript"))
    visit.page.goto(f"{visit.server.url}/#key={visit.server.key()}")
    expect(visit.page.locator("#devices tr")).to_have_count(2)
    expect(visit.page.get_by_text("the first 2 are listed")).to_be_visible()
    visit.page.get_by_label("Name contains").fill("a-l")
    expect(visit.page.locator("#devices tr")).to_have_count(1)
    expect(visit.page.locator(f"#devices [title='{light}']")).to_have_text("a-light")


def test_a_stopped_server_is_reported_and_reconnected(browser: Browser, start_server: Any) -> None:
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
    expect(visit.page.locator("#stream")).to_contain_text("The server does not respond")
    server.start()
    expect(visit.page.get_by_text("Live:")).to_be_visible()
    server.client(key).http.put(f"/v2/subscriptions/{device}{LEVEL}").raise_for_status()
    expect(visit.page.locator("#tail")).to_contain_text(LEVEL)
    context.close()


INSTANCES = {
    "/3/0/7": {0: 3800, 1: -5, 300: 2**40},
    "/3303/0/5700": {0: 21.5, 2: 3.8},
    "/3311/0/5850": {0: True, 1: False},
    "/3/0/14": {0: "+02:00", 1: 'gr\u00fc\u00dfe "\u202e"'},
    "/3/0/13": {0: datetime(2026, 1, 5, 8, tzinfo=UTC)},
    "/5/0/0": {0: b"\x00\xff"},
    "/1/0/10": {0: "3303:0"},
    "/1/0/17": {0: 2**63},
}


def as_tlv(values: Mapping[int, Any], path: str) -> bytes:
    definition = lookup(path)
    assert definition is not None
    instances = [write_tlv(value, f"{path}/{number}", definition.type) for number, value in values.items()]
    return join_instances(instances, path)


def test_values_are_displayed_as_text_bytes_or_by_instance(visit: Visit) -> None:
    visit.page.goto(visit.server.url)
    script = """async (texts) => {
        const { formatValue } = await import("./page/show.js");
        await import("./page/objects.js").then((objects) => objects.loadObjects());
        return texts.map(([payload, path, type]) => formatValue(payload, path, "mV", type).textContent);
    }"""
    values = {path: as_tlv(value, path) for path, value in INSTANCES.items()}
    cut = values["/3/0/7"][:-1]
    payloads = [(raw, path, LWM2M_TLV) for path, raw in values.items()]
    payloads += [(cut, "/3/0/7", LWM2M_TLV), (b"3800", "/3/0/7", "text/plain")]
    payloads += [(raw, "/9999/0/1", "") for raw in ("21 °C".encode(), b"\x00\xff", b"", b"x" * 500)]
    given = [[base64.b64encode(raw).decode(), path, content_type] for raw, path, content_type in payloads]
    *shown, shown_cut, shown_text, text, raw_bytes, empty, long = visit.page.evaluate(script, given)
    for (path, raw), words in zip(values.items(), shown, strict=True):
        told = json.loads(plain_text(decode(raw, LWM2M_TLV, path)))
        inside = ", ".join(f"{number}: {json.dumps(one, ensure_ascii=False)}" for number, one in told.items())
        unit = " mV" if path in {"/3/0/7", "/3303/0/5700", "/1/0/17"} else ""
        assert words == visible(f"{{{inside}}}") + unit
    assert (shown_cut, shown_text) == (cut.hex(" "), "3800 mV")
    assert (text, raw_bytes, empty) == ("21 °C", "00 ff", "empty")
    assert long.startswith("x" * 200 + "…")


def test_similar_names_are_distinguished_as_in_notebooks(visit: Visit) -> None:
    names = {"0198f00d0001": "Küche", "0198f00d0002": "küche", "0198f00d0003": "Ku\u0308che", "a": "straße"}
    names |= {"0198f00d0004": "Kü\u200bche", "0198f00d0005": "Hall", "b": "STRASSE"}
    visit.page.goto(visit.server.url)
    script = "devices => import('./page/show.js').then(m => Object.fromEntries(m.displayNames(devices)))"
    devices = [{"id": device_id, "endpoint_name": name} for device_id, name in names.items()]
    assert visit.page.evaluate(script, devices) == display_names(names)


TYPED = {
    LEVEL: "55| 55 |5.5e1|5.5|-0|+7|007|100|101|-1|1e2|1e400|5,5|55 %||nan|0x1",
    SWITCH: "true|OFF| yes|1|2|",
    "/3/0/13": "2026-01-05T08:00:00Z|2026-01-05 08:00:00+01:00|2026-02-30T08:00:00Z|2026-01-05T08:00:00|1767600000"
    "|2026010508|202601|2026-01-05T08:00:00.5Z|2026-01-05T08:00:00.000Z|9999999999999",
    "/3308/0/5900": "21.5|.5|5.|2.15e1|1e16|123456789012345678|1e-7|-0.0|0|1e999|1e-999|1_0",
    "/1/0/17": "18446744073709551615",
    "/1/0/18": "9223372036854775807|18446744073709551615|18446744073709551616|-1",
    "/1/0/1": "9223372036854775807|9223372036854775808|-9223372036854775808",
    "/1/0/10": "3303:0|3303|70000:1| 1:2 ",
    "/5/0/0": "00 ff 1a|00ff1a|AP8a|base64:AP8a|abcd|base64:abcd|0x00|zz||base64:",
    "/5/0/1": "coap://x|| a |grüße",
    "/3303/0/5700": "21",
    "/9999/0/1": "anything|",
}
"""By path, texts with a line between."""


def as_the_client_reads(text: str, path: str) -> dict[str, str] | None:
    try:
        payload, content_type = encode(parse_value(text, path), path)
    except InvalidValue:
        return None
    return {"payload": base64.b64encode(payload).decode(), "contentType": content_type}


def test_typed_input_is_parsed_like_in_the_client(visit: Visit) -> None:
    visit.page.goto(visit.server.url)
    script = """async (texts) => {
        const { readTyped } = await import("./page/typed.js");
        await import("./page/objects.js").then((objects) => objects.loadObjects());
        return texts.map(([path, text]) => readTyped(text, path));
    }"""
    texts = [(path, text) for path, listed in TYPED.items() for text in listed.split("|")]
    for (path, text), read in zip(texts, visit.page.evaluate(script, texts), strict=True):
        refused = read.get("problem") is not None
        assert (None if refused else read) == as_the_client_reads(text, path), f"{path} {text!r}: {read}"
