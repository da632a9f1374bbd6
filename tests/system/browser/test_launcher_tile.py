"""The tile in JupyterLab's launcher, and the server's page through Jupyter, in a real browser."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from process_lab import ADDRESS, MIRROR, START_SECONDS, JupyterProcess, Lab
from process_server import child_environment, responds, wait_until
from resource_paths import LEVEL

from mirror_sdk import MirrorClient, Simulator

pytestmark = pytest.mark.process

PREFIXED = re.compile(r"(http://127\.0\.0\.1:\d+/user/me/)lab\?token=(\w+)")
DEMO = re.compile(r"Mirror with simulated devices: (\S+)")
KEY = re.compile(r"ak_[0-9a-f]{16}_[\w-]{43}")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A process of ``mirror lab`` with a widget next to the notebook."""
    running = Lab(tmp_path_factory.mktemp("lab"), "--widget=watcher")
    try:
        assert running.request("GET", "/api/status").status_code == 200
        yield running
    finally:
        running.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def listens(address: str) -> bool:
    """Return whether a server listens at the address."""
    url = httpx.URL(address)
    try:
        with socket.create_connection((url.host, url.port or 80), timeout=5):
            return True
    except OSError:
        return False


def click_tile(page: Page, address: str, title: str) -> Page:
    """Open JupyterLab with only the launcher, click the tile, and return the page that it opens."""
    page.goto(address)
    tile = page.locator(".jp-LauncherCard", has_text=title)
    expect(tile.locator("img")).to_be_visible(timeout=60_000)
    with page.expect_popup() as opened:
        tile.click()
    return opened.value


@pytest.mark.browser
def test_the_tile_and_the_port_lead_to_the_page_of_the_mirror_the_notebooks_work_with(lab: Lab, page: Page) -> None:
    jupyter, _, token = lab.find(ADDRESS).groups()
    port = httpx.URL(lab.find(MIRROR)[1]).port
    mirror_page = click_tile(page, f"{jupyter}/lab?reset&token={token}", "Device state mirror")
    expect(page.locator(".Toastify__toast")).to_have_count(0)
    wrong: list[str] = []
    hosts: set[str] = set()
    mirror_page.on("console", lambda message: wrong.append(message.text))
    mirror_page.on("request", lambda request: hosts.add(httpx.URL(request.url).netloc.decode()))
    expect(mirror_page.get_by_text("Live", exact=True)).to_be_visible()
    assert mirror_page.url == f"{jupyter}/mirror/"
    with mirror_of(lab) as client:
        light = client.devices.list(endpoint_name="light-01")[0].id
        client.subscribe(light, LEVEL)
        Simulator(client).set_value(light, LEVEL, 63)
        expect(mirror_page.get_by_role("gridcell", name="63 %")).to_be_visible()
        mirror_page.get_by_role("gridcell", name="light-01").click()
        expect(mirror_page.locator(f".page-resource[data-path='{LEVEL}']")).to_contain_text("63")

        mirror_page.goto(f"{jupyter}/proxy/{port}/#key={key_of(lab)}")
        expect(mirror_page.get_by_text("Live", exact=True)).to_be_visible()
        assert mirror_page.url == f"{jupyter}/proxy/{port}/"
        Simulator(client).add_device("arrived-meanwhile")
    expect(mirror_page.get_by_role("gridcell", name="arrived-meanwhile")).to_be_visible()
    mirror_page.get_by_role("link", name="OpenAPI").click()
    expect(mirror_page).to_have_url(f"{jupyter}/proxy/{port}/openapi.json")
    assert wrong == []
    assert hosts == {httpx.URL(jupyter).netloc.decode()}


@pytest.mark.browser
def test_a_widget_runs_next_to_the_notebook(lab: Lab, page: Page) -> None:
    page.goto(lab.find(ADDRESS)[0])
    widget = page.locator(".mirror-widget").first
    expect(widget).to_be_visible()
    with mirror_of(lab) as client:
        client.subscribe("light-01", LEVEL)
        Simulator(client).set_value("light-01", LEVEL, 71)
        expect(widget).to_contain_text("light-01")
        expect(widget).to_contain_text("71")
    wait_until(lambda: are_side_by_side(page.locator(".jp-NotebookPanel")), "the two panels side by side")


def test_page_and_key_require_a_jupyter_login(lab: Lab) -> None:
    jupyter = lab.find(ADDRESS)[1]
    port = httpx.URL(lab.find(MIRROR)[1]).port
    with httpx.Client(base_url=jupyter, trust_env=False, timeout=30) as unauthenticated:
        for path in ("/mirror/", f"/proxy/{port}/", f"/proxy/{port}/v3/devices", "/server-proxy/servers-info"):
            response = unauthenticated.get(path)
            assert response.status_code in {302, 403}, path
            assert not KEY.search(response.text + str(response.headers))


def test_the_key_is_in_no_log(lab: Lab) -> None:
    key = key_of(lab)
    bearer = {"Authorization": f"Bearer {key}"}
    assert lab.request("GET", "/mirror/v3/devices", headers=bearer).status_code == 200
    assert lab.request("GET", "/mirror/v3/nothing", headers=bearer).status_code == 404
    # Jupyter interprets it as a token, and as a wrong one.
    rejected = httpx.get(f"{lab.find(ADDRESS)[1]}/api/contents", headers=bearer, trust_env=False, timeout=30)
    assert rejected.status_code == 403
    wait_until(lambda: "/api/contents" in lab.output, "the rejection in the log")
    assert key not in lab.output
    assert key.split("_", 2)[2] not in lab.output


@pytest.fixture
def plain_jupyter(tmp_path: Path) -> Iterator[JupyterProcess]:
    """A JupyterLab without a mirror, whose address has a prefix. It is ready for requests."""
    options = ["--no-browser", "--allow-root", "--ServerApp.base_url=/user/me/", "--ServerApp.port=0"]
    environment = {name: value for name, value in child_environment().items() if not name.startswith("API_")}
    # The dialog about news would cover the elements to click.
    settings = tmp_path / "config" / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}', encoding="utf-8")
    running = JupyterProcess(tmp_path, [sys.executable, "-m", "jupyterlab", *options], environment)
    try:
        address = running.find(PREFIXED)[1]
        # It prints its address a moment before it listens there.
        wait_until(lambda: listens(address), "JupyterLab to listen", START_SECONDS)
        yield running
    finally:
        running.close()


@pytest.mark.browser
def test_without_a_mirror_the_tile_starts_one_that_ends_with_jupyter(plain_jupyter: JupyterProcess, page: Page) -> None:
    address, token = plain_jupyter.find(PREFIXED).groups()
    mirror_page = click_tile(page, f"{address}lab?reset&token={token}", "Device state mirror (demo)")
    expect(mirror_page.get_by_text("12 rows")).to_be_visible()
    expect(mirror_page.get_by_text("Live", exact=True)).to_be_visible()
    assert mirror_page.url == f"{address}mirror/"
    mirror = plain_jupyter.find(DEMO)[1]
    assert responds(mirror)
    plain_jupyter.close()
    # Jupyter handles the signal, and the page's requests do not change that.
    assert "received signal 15, stopping" in plain_jupyter.output
    wait_until(lambda: not responds(mirror), "the server to stop")
    assert not KEY.search(plain_jupyter.output)


def test_the_mirror_of_the_tile_ends_when_jupyter_is_shut_down_from_its_menu(plain_jupyter: JupyterProcess) -> None:
    address, token = plain_jupyter.find(PREFIXED).groups()
    headers = {"Authorization": f"token {token}"}
    with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=START_SECONDS) as http:
        assert http.get("mirror/").status_code == 200
        mirror = plain_jupyter.find(DEMO)[1]
        assert responds(mirror)
        assert http.post("api/shutdown").status_code == 200
    plain_jupyter.process.wait(START_SECONDS)
    wait_until(lambda: not responds(mirror), "the server to stop")


def are_side_by_side(panels: Locator) -> bool:
    """Return whether two panels are side by side at the same height."""
    boxes = [box for box in (panels.nth(number).bounding_box() for number in range(2)) if box]
    if len(boxes) < 2:
        return False  # JupyterLab has not opened both yet
    left, right = sorted(boxes, key=lambda box: box["x"])
    return left["x"] + left["width"] <= right["x"] and left["y"] == right["y"]


def key_of(lab: Lab) -> str:
    """Return the key of the lab's tile."""
    listed = lab.request("GET", "/server-proxy/servers-info").json()["server_processes"]
    (entry,) = [server["launcher_entry"] for server in listed if server["name"] == "mirror"]
    return entry["path_info"].partition("#key=")[2]


def mirror_of(lab: Lab) -> MirrorClient:
    return MirrorClient(lab.find(MIRROR)[1], key_of(lab))
