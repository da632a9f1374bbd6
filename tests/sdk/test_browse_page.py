"""``client.service.browse()`` opens the page of the service, at a device, without a key in any address."""

import pytest

from mirror_sdk.errors import UnknownDevice
from tests.sdk.conftest import URL

LIGHT = "light-01"
pytestmark = pytest.mark.usefixtures("no_environment")


def test_the_page_is_opened_at_a_device_by_its_id(simulator, client, opened):
    device = simulator.add_device(LIGHT, [])
    assert client.service.browse(LIGHT) == client.service.browse(device) == f"{URL}/#device={device}"
    assert client.service.browse() == f"{URL}/"
    assert opened == [f"{URL}/#device={device}"] * 2 + [f"{URL}/"]


def test_a_name_that_leads_to_no_device_opens_nothing(simulator, client, opened):
    simulator.add_device(LIGHT, [])
    with pytest.raises(UnknownDevice, match="light-01"):
        client.service.browse("light-1")
    with pytest.raises(TypeError, match="device_id"):
        client.service.browse(1)
    assert opened == []


def test_lab_opens_only_the_page_of_its_own_mirror(client, client_of, simulator, opened, monkeypatch):
    device = simulator.add_device(LIGHT, [])
    monkeypatch.setenv("API_PAGE", "http://localhost:8888/mirror-page")
    assert client.service.browse() == f"{URL}/"
    monkeypatch.setenv("API_HOST", f"{URL}/")
    assert client.service.browse() == "http://localhost:8888/mirror-page"
    assert client.service.browse(LIGHT) == f"http://localhost:8888/mirror-page?device={device}"
    assert client_of("https://elsewhere.example.com").service.browse() == "https://elsewhere.example.com/"
    assert len(opened) == 4
