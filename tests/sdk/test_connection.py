"""The connection of a device: its representation, and its use in explanations."""

import json
from functools import partial

import pytest
from changed_responses import RESOURCES, TEMPERATURE, response_with, without
from html_cells import Cells

from mirror_sdk import NotFound
from mirror_sdk.wire.directory import DeviceConnection

OVER_DTLS = {"protocol": "coaps", "lwm2m_version": "1.1", "binding": "UQ", "address": "[2001:db8::1]:40000"}


@pytest.fixture
def client_with_connection(client_over):
    """Create clients of a service that adds these members to every connection."""

    def change(members):
        def add(request, answer):
            if not request.url.path.endswith("/connection"):
                return answer
            return response_with(answer, json.dumps(answer.json() | members).encode())

        return client_over(add)

    return change


def test_a_simulated_device(client, simulator, device_id):
    found = client.devices.connection(device_id)
    assert (found.protocol, found.way, found.reachable) == ("simulated", "simulated", True)
    assert (found.lifetime_seconds, found.lwm2m_version, found.address) == (86400, None, None)
    assert found.last_contact_at == simulator.get_clock()
    assert repr(found) == "<DeviceConnection simulated, reachable, last contact 2026-01-05 08:00:00>"


def test_the_connection_of_a_real_device_is_described_in_words(client_with_connection, device_id):
    found = client_with_connection(OVER_DTLS).devices.connection(device_id)
    assert found.rows() == [
        ("protocol", "LwM2M 1.1 over CoAP with DTLS"),
        ("binding", "UQ"),
        ("can be reached", "now"),
        ("lifetime", "86400 s"),
        ("registered until (UTC)", "2026-01-06 08:00:00"),
        ("last contact (UTC)", "2026-01-05 08:00:00"),
        ("address", "[2001:db8::1]:40000"),
    ]
    assert Cells(found._repr_html_()).rows[1] == ["protocol", "LwM2M 1.1 over CoAP with DTLS"]


def test_the_protocols_in_words():
    fields = {"device_id": "d1", "reachable": True, "lifetime_seconds": 60, "last_contact_at": "2026-01-05T08:00:00Z"}
    for protocol, version, way in (
        ("coap", "1.0", "LwM2M 1.0 over CoAP"),
        ("coaps", None, "LwM2M over CoAP with DTLS"),
        ("smoke signals\x1b[2J", "1.1", r"smoke signals\x1b[2J"),
        (None, None, ""),
    ):
        assert DeviceConnection(**fields, protocol=protocol, lwm2m_version=version).way == way


def test_an_explanation_names_the_transport_and_origin_of_a_value(client_with_connection, device_id):
    client = client_with_connection(OVER_DTLS)
    client.read_value(device_id, TEMPERATURE)
    why = client.devices.explain(device_id, TEMPERATURE).why
    assert "The device sent it in response to a read, by LwM2M 1.1 over CoAP with DTLS." in why
    assert "The device speaks LwM2M 1.1 over CoAP with DTLS; its messages come from [2001:db8::1]:40000." in why
    # A key without the permission does not see the address.
    client = client_with_connection(OVER_DTLS | {"address": None, "protocol": "coap"})
    assert "The device speaks LwM2M 1.1 over CoAP." in client.devices.explain(device_id, TEMPERATURE).why


def test_a_service_without_connection_details(client_over, device_id):
    client = client_over(partial(without, "/connection"))
    with pytest.raises(NotFound):
        client.devices.connection(device_id)
    client.read_value(device_id, TEMPERATURE)
    explanation = str(client.devices.explain(device_id, TEMPERATURE))
    assert "The device sent it in response to a read." in explanation
    assert "speaks" not in explanation


def test_an_explanation_says_whether_a_queue_mode_device_is_asleep(client, simulator):
    device_id = simulator.add_device("sleeper-1", RESOURCES[:1], queue_mode=True)
    awake = client.devices.explain(device_id, TEMPERATURE)
    assert client.devices.connection(device_id).reachable
    assert "The device is awake, but will sleep again soon. Later requests wait for its next contact." in awake.why
    assert awake.refresh[0] == f"client.read_value('{device_id}', '{TEMPERATURE}')"
    simulator.advance(300)
    asleep = client.devices.explain(device_id, TEMPERATURE)
    assert not client.devices.connection(device_id).reachable
    assert "The device sleeps: it accepts requests at its next contact." in asleep.why
    assert asleep.refresh[0].endswith("which waits until the device next makes contact")


@pytest.mark.parametrize("reachable", [True, False])
def test_an_explanation_says_whether_an_always_awake_device_is_reachable(client_with_connection, device_id, reachable):
    explanation = client_with_connection(OVER_DTLS | {"binding": "U", "reachable": reachable}).devices.explain(
        device_id, TEMPERATURE
    )
    said = "The device cannot be reached now: it accepts requests at its next contact."
    assert (said in explanation.why) is not reachable
    assert explanation.refresh[0].endswith("waits until the device next makes contact") is not reachable
