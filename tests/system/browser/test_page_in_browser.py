"""The server's page in a real browser, against a real server."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import httpx
import pytest
from accessibility import violations
from contrast import expect_enough_contrast
from device_rules import CASES, STATUSES, reads_of
from playwright.sync_api import Browser, Locator, Page, Route, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from process_server import PATIENCE_SECONDS, ServerProcess, run_command, wait_for, wait_until
from resource_paths import LEVEL, REBOOT, SWITCH

from mirror_sdk import InvalidValue, parse_value
from mirror_sdk._formatting import display_names, visible
from mirror_sdk.object_definitions import lookup
from mirror_sdk.values import LWM2M_TLV, decode, encode, plain_text
from mirror_sdk.values.tlv import join_instances, write_tlv
from mirror_server.service.keys import Scope

pytestmark = [pytest.mark.process, pytest.mark.browser]

NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def light(shared_server: ServerProcess) -> str:
    """A device with a dimmer, and two whose names could break a page."""
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
    """A visitor's page, and its errors."""

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
        expect(self.cell("a-light")).to_be_visible()

    def cell(self, name: str) -> Locator:
        """The name of a device in the list."""
        return self.page.locator("[role=gridcell][col-id=name]").get_by_text(name, exact=True)

    def status(self, device_id: str) -> Locator:
        """The status of a device in the list."""
        return self.page.locator(f"[row-id='{device_id}'] [col-id=status]")

    def row(self, path: str) -> Locator:
        """A resource of the chosen device."""
        return self.page.locator(f".page-resource[data-path='{path}']")

    def choose(self, device: str) -> None:
        """Choose a device, and show all of its resources."""
        self.cell(device).click()
        expect(self.page.locator("#mirror-device-title")).to_have_text(device)
        expect(self.page.locator(".page-resource").first).to_be_visible()
        more = self.page.get_by_role("button", name=re.compile("^Show .* without a value"))
        if more.is_visible():
            more.click()

    def open(self, device: str, resource: str) -> None:
        """Choose a device and open one of its resources."""
        self.choose(device)
        self.press(resource)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def refresh(self) -> None:
        """Let the page read everything that it otherwise reads periodically, like when a visitor returns to it."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")

    @property
    def response(self) -> Locator:
        """The result of the newest request for the open resource."""
        return self.page.get_by_role("log", name="Responses").locator("p").first

    @property
    def finding(self) -> Locator:
        """Return the message of the page about the typed value."""
        return self.page.locator(".page-finding")

    @property
    def message(self) -> Locator:
        """Return the message about the complete page."""
        return self.page.locator("#mirror-status")

    @property
    def events(self) -> Locator:
        return self.page.locator(".page-events li")

    @property
    def pending(self) -> Locator:
        return self.page.locator(".page-pending-requests li")


@pytest.fixture
def visit(browser: Browser, shared_server: ServerProcess, light: str, request: Any) -> Iterator[Visit]:
    at_a_desk = {"viewport": {"width": 1700, "height": 1000}, "timezone_id": "America/Phoenix"}
    context = browser.new_context(**getattr(request, "param", at_a_desk))
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    yield Visit(context.new_page(), shared_server)
    context.close()


def test_a_write_is_seen_as_it_happens(visit: Visit, light: str) -> None:
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    visit.sign_in(key)
    assert key not in page.url
    expect(page.locator(".page-stream").first).to_have_text("Live")
    visit.choose("a-light")
    expect(page.locator(".page-facts")).to_contain_text(light)
    expect(page).to_have_url(re.compile(light))
    row, why = visit.row(LEVEL), visit.row(LEVEL).locator(".page-why")

    application.patch_device(light, online=False)
    application.write(light, LEVEL, "55", "dim")
    visit.refresh()
    expect(visit.pending).to_contain_text("a-light Write Light Control · Dimmer /3311/0/5851")
    expect(row).to_contain_text("Pending")
    expect(row.locator(".page-desired-value")).to_have_text("desired 55 %")
    expect(visit.status(light)).to_contain_text("Pending")
    application.patch_device(light, online=True)
    expect(row).to_contain_text("Never reported")
    expect(why).to_have_text("The device accepted 55 % and has never reported a value here. A read confirms it.")
    expect(visit.status(light)).to_contain_text("Never reported")
    expect(visit.events.first).to_contain_text("a-light Response")
    expect(visit.pending).to_have_count(0)

    application.read(light, LEVEL, "look")
    expect(row.locator(".page-resource-value")).to_have_text("55 %")
    expect(row.locator(".page-desired")).to_have_count(0)
    expect(visit.status(light)).to_contain_text("In sync")
    application.write(light, LEVEL, "56", "dim-again")
    expect(row).to_contain_text("Unconfirmed")
    expect(why).to_have_text("The device accepted 56 %; the last report, 55 %, is older. A read confirms it.")
    application.http.put(f"/sim/v1/devices/{light}/resources{LEVEL}", json={"value": "20"})
    application.read(light, LEVEL, "look-again")
    expect(row).to_contain_text("Drifting")
    expect(visit.status(light)).to_contain_text("Drifting")
    expect(why).to_contain_text("The device accepted 56 % and has reported 20 % since")
    assert visit.wrong == []
    assert visit.hosts == {f"127.0.0.1:{visit.server.port}"}


def test_the_page_shows_the_connection_of_a_device(visit: Visit) -> None:
    real = {"protocol": "coaps", "lwm2m_version": "1.1", "binding": "U\u202eQ", "address": "[::1]:40000"}

    def change(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | real)

    visit.sign_in(visit.server.key())
    connection = visit.page.locator(".page-connection")
    visit.choose("a-light")
    expect(connection).to_contain_text("simulated · reachable · lifetime 86,400 s · last contact ")
    visit.page.route("**/connection", change)
    visit.refresh()
    words = "LwM2M 1.1 over CoAP with DTLS · binding U\\u202eQ · reachable · lifetime 86,400 s · from [::1]:40000"
    expect(connection).to_contain_text(words)
    assert visit.wrong == []


def test_a_device_has_its_name_description_and_attributes(visit: Visit) -> None:
    application = visit.server.client(visit.server.key())
    device_id = application.add_device("a-described", {"path": LEVEL, "value": "1"})
    metadata = {"name": "Lamp", "description": "Flickers.", "custom_attributes": {"room": "B\u202e12"}}
    application.http.put(f"/v3/devices/{device_id}", json=metadata).raise_for_status()
    visit.sign_in(visit.server.key())
    visit.choose("a-described")
    for text in ("Name Lamp", "room B\\u202e12"):
        expect(visit.page.locator(".page-facts")).to_contain_text(text)
    expect(visit.page.get_by_text("Flickers.")).to_be_visible()
    assert visit.wrong == []


def test_resources_without_a_value_are_hidden_until_they_are_requested(visit: Visit) -> None:
    application = visit.server.client(visit.server.key())
    resources = ({"path": path, "value": "1"} for path in ("/3303/0/5700", "/3303/1/5700", "/3304/0/5700"))
    device_id = application.add_device("a-sensor", *resources)
    application.read(device_id, "/3303/0/5700", "one-of-them")
    visit.sign_in(visit.server.key())
    visit.cell("a-sensor").click()
    expect(visit.page.locator(".page-resource")).to_have_count(1)
    visit.press("Show 2 without a value")
    expect(visit.page.locator(".page-object h3")).to_have_text(
        ["Temperature 0 /3303/0", "Temperature 1 /3303/1", "Humidity /3304/0"]
    )
    visit.press("Hide resources without a value")
    expect(visit.page.locator(".page-resource")).to_have_count(1)
    assert visit.wrong == []


def test_names_and_values_are_text_never_markup(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.choose(NASTY)
    for resource, value in (("Sensor Units", f"{NASTY} as unit"), ("Sensor Value", NASTY)):
        visit.press(f"Temperature · {resource}")
        visit.press("Read")
        expect(visit.response).to_contain_text(f"Read: {value}, ")
        expect(visit.events.first).to_contain_text(NASTY)
    expect(visit.page.locator(".mirror-plot-states")).to_be_visible()
    assert visit.page.locator("main img").count() == 0
    assert visit.wrong == []


def test_number_has_its_unit_as_people_write_it_and_no_rounding_errors(visit: Visit) -> None:
    numbers = {"path": "/3313/0/5702", "value": "0.30000000000000004"}, {"path": "/3313/0/5701", "value": "m/s2"}
    device_id = visit.server.client(visit.server.key()).add_device("accelerometer", *numbers)
    visit.sign_in(visit.server.key())
    visit.choose("accelerometer")
    for resource, value in (("Sensor Units", "m/s2"), ("X Value", "0.3 m/s²")):
        visit.press(f"Accelerometer · {resource}")
        visit.press("Read")
        expect(visit.response).to_contain_text(f"Read: {value}, ")
    expect(visit.row("/3313/0/5702").locator(".page-resource-value")).to_have_text("0.3 m/s²")
    expect(visit.page.locator(f"[row-id='{device_id}'] [col-id=value]")).to_have_text("0.3 m/s²")
    assert visit.wrong == []


def test_resources_do_not_move_when_the_connection_arrives(visit: Visit) -> None:
    visit.server.client(visit.server.key()).add_device("steady", {"path": LEVEL, "value": "1"})
    delayed: list[Route] = []
    visit.page.route("**/connection", lambda route: delayed.append(route))  # noqa: PLW0108 - Playwright needs a function
    visit.sign_in(visit.server.key())
    with visit.page.expect_request("**/connection"):
        visit.choose("steady")
    resource, connection = visit.page.locator(".page-resource").first, visit.page.locator(".page-connection")
    position = resource.bounding_box()
    expect(connection).not_to_contain_text("last contact")
    delayed[0].continue_()
    expect(connection).to_contain_text("last contact")
    assert resource.bounding_box() == position


def test_a_deleted_device_is_reported(visit: Visit) -> None:
    key, page = visit.server.key(), visit.page
    device_id = visit.server.client(key).add_device("a-goes-for-good", {"path": LEVEL, "value": "1"})
    visit.sign_in(key)
    visit.choose("a-goes-for-good")
    # All requests have their responses.
    expect(page.locator(".page-connection")).to_contain_text("last contact")
    erased = run_command("erase", device_id, "--yes", "--database", visit.server.database_url)
    assert erased.returncode == 0, erased.stderr
    visit.refresh()
    expect(page.locator(".page-device")).to_contain_text(f"There is no device with the id {device_id}.")
    expect(page.locator(".page-resource")).to_have_count(0)
    expect(visit.cell("a-goes-for-good")).to_have_count(0)
    assert visit.wrong == []


def test_numbers_without_a_distance_are_not_drawn(visit: Visit) -> None:
    key, page = visit.server.key(), visit.page
    application = visit.server.client(key)
    device_id = application.add_device("a-swing", {"path": LEVEL, "value": "1"})
    visit.sign_in(key)
    visit.open("a-swing", "Light Control · Dimmer")
    for value in ("1", "2", "1.7e308", "-1.7e308"):
        application.http.put(f"/sim/v1/devices/{device_id}/resources{LEVEL}", json={"value": value})
        visit.press("Read")
        expect(visit.response).to_contain_text(f"Read: {value} %, ")
    expect(page.locator("figcaption")).to_have_text("2 values that this key received or read")
    expect(page.get_by_role("group", name="Light Control · Dimmer: Dimmer from 1 % to 2 %")).to_be_visible()
    assert visit.wrong == []


def test_a_failed_first_request_is_retried(visit: Visit) -> None:
    page = visit.page
    page.route("**/v3/devices?*", lambda route: route.fulfill(status=503))
    page.goto(f"{visit.server.url}/#key={visit.server.key()}")
    expect(visit.message).to_contain_text("responded with 503")
    assert page.evaluate("sessionStorage.length") == 1
    page.unroute("**/v3/devices?*")
    expect(visit.cell("a-light")).to_be_visible()
    expect(visit.message).to_be_hidden()


def test_a_revoked_key_is_reported_and_signed_out(visit: Visit) -> None:
    key = visit.server.key()
    visit.sign_in(key)
    assert run_command("keys", "revoke", key.split("_")[1], "--database", visit.server.database_url).returncode == 0
    device = visit.cell("a-light")
    # The stream may have reported it already; then there is no button to click.
    if device.is_visible():
        with suppress(PlaywrightTimeoutError):
            device.click(timeout=10_000)
    expect(visit.message).to_contain_text("Signed out: unknown or revoked access key")
    expect(visit.cell("a-light")).to_have_count(0)
    expect(visit.page.get_by_label("Access key")).to_be_visible()
    assert visit.page.evaluate("sessionStorage.length") == 0


def test_a_rejection_that_arrives_after_sign_out_is_ignored(visit: Visit) -> None:
    """For example, two requests are rejected, and the page drops the key with the first."""
    visit.page.goto(visit.server.url)
    ended = visit.page.evaluate("""async () => {
        const { comparable: { Session } } = await import("/page/ui.js");
        window.fetch = async (_, { signal }) => {
            const body = () => new Promise((_, end) => signal.addEventListener("abort", () => end(signal.reason)));
            return { ok: false, status: 401, json: body, text: body };
        };
        const session = new Session("ak_1");
        const ended = session.call("GET", "/v3/devices").catch((error) => error.name);
        await new Promise((resolve) => setTimeout(resolve));
        session.end(); return await ended;
    }""")
    assert ended == "AbortError"


@pytest.mark.parametrize("key", ["ak_\N{EN DASH}1", "\N{CYRILLIC SMALL LETTER A}k_1", "ak_1\n2", "ak_1 2"])
def test_a_key_that_no_header_can_have_is_rejected(visit: Visit, key: str) -> None:
    visit.page.goto(f"{visit.server.url}/#{httpx.QueryParams(key=key)}")
    expect(visit.message).to_contain_text("Sign-in failed: malformed access key")
    expect(visit.page.get_by_label("Access key")).to_be_visible()
    assert visit.page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize("pattern", ["**/v3/api-keys/me", "**/page/objects.json", "**/v3/device-echo?*"])
def test_a_response_that_is_not_json_is_reported_and_requested_again(visit: Visit, pattern: str) -> None:
    visit.page.route(pattern, lambda route: route.fulfill(body="<html>Sign in to this network</html>\n"))
    visit.page.goto(f"{visit.server.url}/#key={visit.server.key()}")
    expect(visit.message).to_contain_text("responded with something other than JSON")
    visit.page.unroute(pattern)
    expect(visit.cell("a-light")).to_be_visible()
    expect(visit.message).to_have_text("")
    assert visit.wrong == []


def test_a_key_survives_a_reload_until_sign_out_unless_it_is_rejected(visit: Visit) -> None:
    page = visit.page
    visit.sign_in(visit.server.key())
    page.goto(f"{visit.server.url}/#device=no-device")
    page.reload()
    expect(page.locator(".page-device")).to_contain_text("There is no device with the id no-device.")
    expect(visit.cell("a-light")).to_be_visible()
    visit.press("Sign out")
    expect(visit.message).to_have_text("Signed out.")
    page.reload()
    page.get_by_label("Access key").fill(f"ak_0123456789abcdef_{'x' * 43}")
    visit.press("Sign in")
    expect(visit.message).to_contain_text("Sign-in failed: unknown or revoked access key")
    assert page.evaluate("sessionStorage.length") == 0
    page.get_by_label("Access key").fill(visit.server.key(Scope.SUBSCRIBE))
    visit.press("Sign in")
    expect(visit.message).to_contain_text("Sign-in failed: this key lacks the scope read")


def test_the_address_of_a_device_and_of_its_resource_can_be_shared(visit: Visit, light: str) -> None:
    visit.sign_in(visit.server.key())
    visit.open("a-light", "Light Control · Dimmer")
    expect(visit.page).to_have_url(re.compile(f"device={light}&resource="))
    address = visit.page.url
    visit.choose(NASTY)
    expect(visit.page).not_to_have_url(re.compile(light))
    visit.page.go_back()
    expect(visit.page.locator(".page-facts")).to_contain_text(light)
    visit.page.goto("about:blank")
    visit.page.goto(address)
    expect(visit.page.get_by_role("button", name="Light Control · Dimmer")).to_have_attribute("aria-expanded", "true")
    expect(visit.page.locator(".page-facts")).to_contain_text(light)
    assert visit.wrong == []


PHONE = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark", "has_touch": True, "is_mobile": True}
# A text may be cut if it has a tooltip, like cells and the names in a legend. .ag-aria-* is for screen readers only.
TOO_WIDE = """() => [...document.querySelectorAll(".mirror-page *")].filter((each) => {
    if (!each.checkVisibility()) return false;
    if (each.closest(".ag-root-wrapper, .ag-aria-description-container, .mirror-hidden, .uplot")) return false;
    const edge = document.documentElement.clientWidth + 0.5;
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(each).overflowX) || each.closest("[title]");
    const isCut = getComputedStyle(each).display !== "inline" && each.scrollWidth > each.clientWidth + 1;
    return each.getBoundingClientRect().right > edge || (isCut && !scrolls && each.clientWidth > 0);
}).map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(0, 40)}`)"""
ACTIONS = {"More", "Devices", "Events", "Pending", "Back to the devices", "Device · Reboot", "Light Control · Dimmer"}
ACTIONS |= {"15 min", "Read", "Subscribe", "New value: a whole number from 0 to 100, in %", "Write"}


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_nothing_is_cut_on_a_phone_or_at_any_width_and_all_of_it_can_be_read(visit: Visit, light: str) -> None:
    page = visit.page
    # On another day, each time includes its date.
    page.clock.set_fixed_time("2031-02-03T04:05:06Z")
    key = visit.server.key()
    application = visit.server.client(key)
    visit.sign_in(key)
    visit.cell("a-light").tap()
    expect(page.locator(".page-resource").first).to_be_in_viewport()
    expect(page.get_by_role("heading", name="a-light")).to_be_focused()
    visit.press("Back to the devices")
    expect(page.get_by_role("heading", name="Devices")).to_be_focused()
    application.patch_device(light, answer="reject")
    application.write(light, LEVEL, "33", "refused")
    visit.cell("a-light").tap()
    expect(visit.row(LEVEL).locator(".page-why")).to_contain_text("REJECTED")
    application.patch_device(light, answer="normal", online=False)
    application.write(light, LEVEL, "34", "waits")
    visit.refresh()
    expect(page.get_by_role("button", name="Pending 1")).to_be_visible()
    visit.press("Light Control · Dimmer")
    page.get_by_label("New value").first.fill("140")
    for name in ("Read", "Subscribe", "Write"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_enabled()
    reached = set()
    page.get_by_role("button", name="More").focus()
    for _ in range(40):
        reached.add(
            page.evaluate("""() => {
            const { labels, ariaLabel, textContent } = document.activeElement;
            return (labels?.[0]?.textContent ?? ariaLabel ?? textContent).trim();
        }""")
        )
        page.keyboard.press("Tab")
    assert not {name for name in ACTIONS if not any(each.startswith(name) for each in reached)}
    for width in (360, 700, 961, 1280, 1600, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        wait_for([], lambda: page.evaluate(TOO_WIDE))
        wait_for(True, partial(page.evaluate, "width => document.documentElement.scrollWidth <= width", width))
        expect(page.locator(".ag-body-horizontal-scroll")).to_be_hidden()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect_enough_contrast(page.locator("body"))
    visit.choose("z" * 64)
    wait_for([], lambda: page.evaluate(TOO_WIDE))
    application.patch_device(light, online=True)
    assert visit.wrong == []


@pytest.mark.parametrize("visit", [PHONE, {"viewport": {"width": 1700, "height": 1000}}], indirect=True)
def test_no_rule_of_accessibility_is_violated(visit: Visit, light: str) -> None:
    visit.page.goto(visit.server.url)
    expect(visit.page.get_by_label("Access key")).to_be_visible()
    wait_for([], lambda: violations(visit.page))
    key = visit.server.key()
    visit.sign_in(key)
    wait_for([], lambda: violations(visit.page))
    visit.open("a-light", "Light Control · Dimmer")
    visit.press("Read")
    expect(visit.response).to_contain_text("Read: ")
    wait_for([], lambda: violations(visit.page))
    visit.page.goto(f"{visit.server.url}/#device=no-device")
    expect(visit.page.get_by_text("There is no device with the id no-device.")).to_be_visible()
    wait_for([], lambda: violations(visit.page))
    assert visit.wrong == []


@pytest.mark.parametrize("visit", [{"viewport": {"width": 1280, "height": 800}}], indirect=True)
def test_one_part_at_a_time_is_next_to_the_devices_if_there_is_no_room_for_all(visit: Visit) -> None:
    visit.sign_in(visit.server.key())
    visit.choose("a-light")
    visit.press("Events")
    expect(visit.page.get_by_role("heading", name="Events")).to_be_visible()
    visit.page.get_by_role("button", name="Pending").click()
    expect(visit.page.get_by_text("No pending requests.")).to_be_visible()
    expect(visit.page.get_by_role("heading", name="Events")).to_have_count(0)
    visit.press("Device")
    expect(visit.page.get_by_role("heading", name="a-light")).to_be_visible()
    assert visit.wrong == []


def test_without_a_chosen_device_the_fleet_is_summarized(visit: Visit, light: str) -> None:
    visit.sign_in(visit.server.key())
    overview = visit.page.locator(".page-overview")
    expect(overview).to_contain_text("Never reported")
    overview.get_by_role("button", name=re.compile("Never reported")).click()
    expect(visit.page.get_by_role("searchbox")).to_have_value("Never reported")
    assert visit.wrong == []


def test_a_device_is_read_written_and_executed_with_responses_on_the_page(visit: Visit, light: str) -> None:
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    visit.sign_in(key)
    visit.open("a-light", "Light Control · Dimmer")
    visit.press("Read")
    expect(visit.response).to_contain_text(re.compile("Read: \\d+ %, "))
    expect(page.get_by_role("slider")).to_have_value(application.simulated_values(light)[LEVEL])

    typed = page.get_by_label("New value: a whole number from 0 to 100, in %", exact=True)
    typed.fill("140")
    typed.press("Enter")
    expect(visit.finding).to_have_text("Expected a whole number from 0 to 100; write a number in this range.")
    expect(typed).to_have_value("140")
    expect(visit.response).to_contain_text("Read")
    typed.fill("71")
    expect(visit.finding).to_have_text("")
    typed.press("Enter")
    expect(visit.response).to_contain_text("Write of 71 %: done, ")
    assert application.simulated_values(light)[LEVEL] == "71"
    typed.fill("71")
    expect(visit.finding).to_contain_text("This is already the current value")

    application.patch_device(light, answer="reject")
    typed.fill("72")
    visit.press("Write")
    expect(visit.response).to_contain_text("Write of 72 %: failed. REJECTED, the device rejected")
    why = visit.row(LEVEL).locator(".page-why")
    expect(why).to_contain_text("The write of 72 % failed: REJECTED")
    visit.press("Acknowledge failure")
    expect(why).to_contain_text("test acknowledged it ")
    expect(page.get_by_text("Failed, acknowledged")).to_be_visible()
    expect(page.get_by_role("button", name="Acknowledge failure")).to_be_hidden()
    application.patch_device(light, answer="normal")

    visit.press("Light Control · On/Off")
    page.get_by_role("group", name="New value: true or false").get_by_role("button", name="true").click()
    visit.press("Write")
    expect(visit.response).to_contain_text("Write of true: done, ")
    visit.press("Device · Reboot")
    visit.press("Execute …")
    visit.press("Execute it now")
    expect(visit.response).to_contain_text("Execution: done, ")
    assert page.get_by_role("button", name="Write", exact=True).count() == 0
    assert visit.wrong == []


def test_a_subscription_brings_values_to_a_chart_that_keys_move(visit: Visit, light: str) -> None:
    key = visit.server.key()
    application, page = visit.server.client(key), visit.page
    visit.sign_in(key)
    visit.open("a-light", "Light Control · Dimmer")
    visit.press("Subscribe")
    expect(page.get_by_text("This key is subscribed")).to_be_visible()
    for value in ("5", "25", "15"):
        application.http.put(f"/sim/v1/devices/{light}/resources{LEVEL}", json={"value": value})
        expect(visit.row(LEVEL).locator(".page-resource-value")).to_have_text(f"{value} %")
    chart = page.get_by_role("group", name="Light Control · Dimmer: ")
    expect(chart).to_have_accessible_name(re.compile("from 5 % to "))
    # There are no earlier values.
    for _ in range(8):
        chart.press("ArrowLeft")
    expect(chart).to_have_accessible_name(re.compile("nothing to draw"))
    chart.press("0")
    expect(chart).to_have_accessible_name(re.compile("from 5 % to "))
    page.get_by_text("Values", exact=True).click()
    values = page.get_by_role("list", name="Values, newest first").get_by_role("listitem")
    for position, value in enumerate(("15 %", "25 %", "5 %")):
        expect(values.nth(position)).to_contain_text(value)
    page.reload()
    # The page reads the values again from the log of the key, and the URL contains the open resource.
    expect(chart).to_have_accessible_name(re.compile("from 5 % to "))
    expect(page.locator("figcaption")).to_contain_text("values that this key received or read")
    visit.press("Unsubscribe")
    expect(page.get_by_role("button", name="Subscribe", exact=True)).to_be_enabled()
    assert application.http.get(f"/v2/subscriptions/{light}{LEVEL}").status_code == 404
    assert visit.wrong == []


@pytest.mark.with_extension("history")
def test_the_chart_has_the_history_with_writes_and_absences(browser: Browser, start_server: Any) -> None:
    server: ServerProcess = start_server("--simulate", "0", "--keep-history", "1d")
    application = server.application()
    device = application.add_device("a-light", {"path": LEVEL, "value": "7", "writable": True})
    application.read(device, LEVEL, "before")
    application.write(device, LEVEL, "9", "dim")
    application.read(device, LEVEL, "after")
    application.http.delete(f"/sim/v1/devices/{device}/registration").raise_for_status()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    visit = Visit(context.new_page(), server)
    # A key without a log: the values come from the history.
    visit.sign_in(server.key())
    visit.open("a-light", "Light Control · Dimmer")
    expect(visit.page.locator("figcaption")).to_have_text("2 values from the server's history")
    chart = visit.page.get_by_role("group", name="Light Control · Dimmer: Dimmer from 7 % to 9 %")
    expect(chart.locator(".u-over")).to_be_visible()
    tooltip = visit.page.locator(".mirror-tooltip:visible")
    missing = {"9 %", "Write of 9 %: done", "The device was offline"}

    def shows_all() -> bool:
        # The chart may have moved, below what the page has read meanwhile.
        box = chart.locator(".u-over").bounding_box()
        assert box is not None
        # On a slow machine the write is further from the end of the chart than the absence.
        for distance in range(1, int(box["width"]), 4):
            visit.page.mouse.move(box["x"] + box["width"] - distance, box["y"] + box["height"] / 2)
            text = " ".join(tooltip.all_text_contents())
            missing.difference_update([part for part in missing if part in text])
        return not missing

    wait_until(shows_all, "the value, the write and the absence near the end of the chart")
    assert visit.wrong == []
    context.close()


def test_a_read_only_key_sees_its_missing_scopes_and_no_failure_reasons_of_others(visit: Visit, light: str) -> None:
    other = visit.server.application()
    other.patch_device(light, answer="reject")
    other.write(light, LEVEL, "31", "refused-to-another")
    assert other.response("refused-to-another")["error"] == "REJECTED"
    other.patch_device(light, answer="normal")
    visit.sign_in(visit.server.key(Scope.READ))
    visit.open("a-light", "Light Control · Dimmer")
    why = "The write of 31 % failed: only the application that requested it gets the reason."
    expect(visit.row(LEVEL).locator(".page-why")).to_have_text(why)
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
    expect(tab.page.get_by_role("heading", name="b-light")).to_be_visible()
    assert key not in tab.page.url
    visit.open("b-light", "Light Control · Dimmer")
    typed = page.get_by_label("New value: a whole number from 0 to 100, in %", exact=True)
    typed.fill("44")
    application.http.delete(f"/sim/v1/devices/{device_id}/registration").raise_for_status()
    expect(visit.finding).to_contain_text("The device is not registered")
    event = visit.events.filter(has_text="Deregistered")
    expect(event).to_contain_text("b-light")
    expect(event.locator("time")).to_have_count(1)
    assert page.locator(".page-events time[datetime^='2001']").count() == 0
    expect(typed).to_be_focused()
    expect(typed).to_have_value("44")
    visit.press("Write anyway")
    expect(visit.response).to_contain_text("waits for the device, until ")
    tab.refresh()
    for each in (visit, tab):
        expect(each.pending).to_contain_text("b-light")
    application.json("POST", f"/sim/v1/devices/{device_id}/registration")
    expect(visit.response).to_contain_text("Write of 44 %: done")
    expect(tab.events.filter(has_text="done (200)")).to_have_count(1)
    expect(tab.row(LEVEL)).to_contain_text("44 %")


def test_users_see_each_others_writes_and_sign_out_alone(browser: Browser, visit: Visit) -> None:
    device_id = visit.server.application().add_device("d-light", {"path": LEVEL, "value": "1", "writable": True})
    context = browser.new_context(viewport={"width": 1700, "height": 1000})
    other = Visit(context.new_page(), visit.server)
    for each in (visit, other):
        each.page.goto(f"{visit.server.url}/#key={visit.server.key()}&device={device_id}")
        expect(each.page.get_by_role("heading", name="d-light")).to_be_visible()
    visit.press("Light Control · Dimmer")
    visit.page.get_by_label("New value").first.fill("44")
    visit.press("Write")
    expect(visit.response).to_contain_text("Write of 44 %: done")
    # Nothing reports the write to another key: the page reads it.
    expect(other.row(LEVEL).locator(".page-desired-value")).to_have_text("desired 44 %")
    expect(other.page.get_by_role("log", name="Responses").locator("p")).to_have_count(0)
    visit.press("Sign out")
    expect(visit.page.get_by_label("Access key")).to_be_visible()
    other.press("Light Control · Dimmer")
    other.press("Read")
    expect(other.response).to_contain_text("Read: 44 %")
    expect(other.page.locator(".page-stream").first).to_have_text("Live")
    assert visit.wrong == other.wrong == []
    context.close()


def test_devices_are_sorted_and_filtered_and_times_have_their_zone(visit: Visit) -> None:
    application = visit.server.application()
    for name in ("c-10", "c-9", "c-8"):
        device_id = application.add_device(name, {"path": LEVEL, "value": "1"})
    application.http.delete(f"/sim/v1/devices/{device_id}/registration").raise_for_status()
    page = visit.page
    visit.sign_in(visit.server.key())
    page.get_by_role("searchbox").fill("c-")

    def names() -> list[str]:
        """Return the names in the list, in display order."""
        name = "row.querySelector('[col-id=name]')?.textContent ?? ''"
        script = f"rows => rows.map(row => [Number(row.ariaRowIndex), {name}])"
        return [name for _, name in sorted(page.locator("[row-id]").evaluate_all(script))]

    wait_for(["c-8", "c-9", "c-10"], names)
    page.get_by_role("columnheader", name="Device").click()
    wait_for(["c-10", "c-9", "c-8"], names)
    page.get_by_role("columnheader", name="Last contact").click()
    page.get_by_role("columnheader", name="Last contact").click()
    wait_for(["c-8", "c-9", "c-10"], names)
    expect(page.get_by_role("columnheader", name="Last contact")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("State").select_option("deregistered")
    wait_for(["c-8"], names)
    zone = page.get_by_label("Time zone")
    expect(zone.locator("option:checked")).to_have_text("America/Phoenix (UTC-07:00)")
    visit.choose("c-8")
    contact = page.locator(".page-connection time")
    expect(contact).to_have_attribute("title", re.compile("GMT-7|MST"))
    zone.select_option("UTC")
    expect(contact).not_to_have_attribute("title", re.compile("GMT-7|MST"))
    page.reload()
    expect(zone.locator("option:checked")).to_have_text("UTC")


def test_devices_are_found_with_the_keyboard_and_the_focus_survives_updates(visit: Visit, light: str) -> None:
    visit.sign_in(visit.server.key())
    page, device = visit.page, visit.cell("a-light")
    search = page.get_by_role("searchbox")
    search.press_sequentially("A-Li")
    expect(page.locator("[row-id]")).to_have_count(1)

    def reaches_the_device() -> bool:
        page.keyboard.press("Tab")
        return bool(page.evaluate("document.activeElement.closest('[role=gridcell]') !== null"))

    wait_until(reaches_the_device, "the focus on the device")
    expect(device).to_be_focused()
    application = visit.server.client(visit.server.key())
    application.http.put(f"/v3/devices/{light}", json={"description": "Changed."}).raise_for_status()
    visit.refresh()
    expect(device).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="a-light")).to_be_visible()


def test_of_a_fleet_too_large_to_be_listed_the_service_finds_devices(visit: Visit, light: str) -> None:
    script = """import { mountPage } from "./ui.js";
        mountPage(document.getElementById("page"), { maxDevices: 2, devicesPerRequest: 2 });"""
    visit.page.route("**/page/page.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    visit.page.goto(f"{visit.server.url}/#key={visit.server.key()}")
    expect(visit.page.locator("[row-id]")).to_have_count(2)
    expect(visit.page.get_by_text("the first 2 are listed")).to_be_visible()
    visit.page.get_by_role("searchbox").fill("a-l")
    expect(visit.page.locator("[row-id]")).to_have_count(1)
    expect(visit.page.locator(f"[row-id='{light}']")).to_contain_text("a-light")


def test_a_stopped_server_is_reported_and_reconnected(browser: Browser, start_server: Any) -> None:
    server: ServerProcess = start_server("--simulate", "0")
    key = server.key()
    application = server.client(key)
    device = application.add_device("a-light", {"path": LEVEL, "value": "1", "observable": True})
    context = browser.new_context(viewport={"width": 1700, "height": 900})
    visit = Visit(context.new_page(), server)
    visit.sign_in(key)
    stream = visit.page.locator(".page-top .page-stream")
    expect(stream).to_have_text("Live")
    assert server.stop() == 0
    server.child.close()
    expect(stream).to_contain_text("Server away; trying again in")
    expect(visit.message).to_have_text("The server does not respond; trying again.")
    # A device that is chosen meanwhile is read as soon as the server is back.
    visit.cell("a-light").click()
    expect(visit.page.locator(".page-device")).to_contain_text("Reading a-light …")
    server.start()
    expect(stream).to_have_text("Live")
    expect(visit.message).to_be_hidden()
    expect(visit.page.locator(".page-device")).not_to_contain_text("Reading a-light …")
    server.client(key).http.put(f"/v2/subscriptions/{device}{LEVEL}").raise_for_status()
    expect(visit.events.first).to_contain_text(LEVEL)
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
        const { comparable: { loadObjects, valueText, Session } } = await import("./page/ui.js");
        await loadObjects(new Session(""));
        return texts.map(([payload, path, type]) => {
            const { text, unit } = valueText(payload, path, "mV", type);
            return unit ? `${text} ${unit}` : text;
        });
    }"""
    values = {path: as_tlv(value, path) for path, value in INSTANCES.items()}
    cut = values["/3/0/7"][:-1]
    payloads = [(raw, path, LWM2M_TLV) for path, raw in values.items()]
    payloads += [(cut, "/3/0/7", LWM2M_TLV), (b"3800", "/3/0/7", "text/plain")]
    payloads += [(raw, "/9999/0/1", "") for raw in ("21 °C".encode(), b"\x00\xff", b"", b"x" * 500)]
    arguments = [[base64.b64encode(raw).decode(), path, content_type] for raw, path, content_type in payloads]
    *formatted, formatted_cut, formatted_text, text, raw_bytes, empty, long = visit.page.evaluate(script, arguments)
    for (path, raw), words in zip(values.items(), formatted, strict=True):
        decoded = json.loads(plain_text(decode(raw, LWM2M_TLV, path)))
        inside = ", ".join(f"{number}: {json.dumps(one, ensure_ascii=False)}" for number, one in decoded.items())
        unit = " mV" if path in {"/3/0/7", "/3303/0/5700", "/1/0/17"} else ""
        assert words == visible(f"{{{inside}}}") + unit
    assert (formatted_cut, formatted_text) == (cut.hex(" "), "3800 mV")
    assert (text, raw_bytes, empty) == ("21 °C", "00 ff", "empty")
    assert long.startswith("x" * 200 + "…")


def test_similar_names_are_distinguished_as_in_notebooks(visit: Visit) -> None:
    names = {"0198f00d0001": "Küche", "0198f00d0002": "küche", "0198f00d0003": "Ku\u0308che", "a": "straße"}
    names |= {"0198f00d0004": "Kü\u200bche", "0198f00d0005": "Hall", "b": "STRASSE"}
    visit.page.goto(visit.server.url)
    script = "devices => import('./page/ui.js').then(m => Object.fromEntries(m.comparable.displayNames(devices)))"
    devices = [{"id": device_id, "endpoint_name": name} for device_id, name in names.items()]
    assert visit.page.evaluate(script, devices) == display_names(names)


def test_statuses_and_main_values_are_those_of_the_fleet_table(visit: Visit) -> None:
    visit.page.goto(visit.server.url)
    script = """async (cases) => {
        const { comparable } = await import("./page/ui.js");
        await comparable.loadObjects(new comparable.Session(""));
        const found = cases.map(([device, reads]) => {
            const summary = new comparable.DeviceSummary();
            for (const read of reads) summary.read(read);
            const now = Date.parse(reads.at(-1).created_at);
            return [summary.status(device, now), summary.text(device, now), summary.main?.path ?? ""];
        });
        return [comparable.DEVICE_STATUSES, found];
    }"""
    statuses, found = visit.page.evaluate(script, [[case["device"], list(reads_of(case))] for case in CASES])
    assert statuses == STATUSES
    for case, (status, text, main) in zip(CASES, found, strict=True):
        assert (status, text, main) == (case["status"], case["text"], case["main"]), case["case"]


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
"""Expected texts by path, with a line break between them."""


def as_the_client_reads(text: str, path: str) -> dict[str, str] | None:
    try:
        payload, content_type = encode(parse_value(text, path), path)
    except InvalidValue:
        return None
    return {"payload": base64.b64encode(payload).decode(), "contentType": content_type}


def test_typed_input_is_parsed_like_in_the_client(visit: Visit) -> None:
    visit.page.goto(visit.server.url)
    script = """async (texts) => {
        const { comparable: { loadObjects, readTyped, Session } } = await import("./page/ui.js");
        await loadObjects(new Session(""));
        return texts.map(([path, text]) => readTyped(text, path));
    }"""
    texts = [(path, text) for path, listed in TYPED.items() for text in listed.split("|")]
    for (path, text), read in zip(texts, visit.page.evaluate(script, texts), strict=True):
        is_rejected = read.get("problem") is not None
        assert (None if is_rejected else read) == as_the_client_reads(text, path), f"{path} {text!r}: {read}"
