"""The initial observation event of auto-observed resources and of values that registrations carry.

Source: specification 3.2; wire.md 3.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import BareDevice, Devices, send_until
from devices_on_loopback import DeviceSide, until

from mirror_server.devices.lwm2m_client.resources import DeviceResource, LinkStyle

TEMPERATURE = "/3303/0/5700"
RULE = {"resource-path": [TEMPERATURE]}


@pytest.fixture
def bare(device_side: DeviceSide) -> Iterator[BareDevice]:
    """A device of raw datagrams that is not registered yet and holds 2.5; its links are those of :func:`links`."""
    with Devices() as devices:
        yield devices.add(BareDevice(device_side.port, "sensor-1", {TEMPERATURE: "2.5"}, links=links()))


def links(value: str | None = None, *, auto: bool = True) -> str:
    """The link of the temperature, with a value in it where one is given."""
    attributes = (';aobs="727"' if auto else "") + ("" if value is None else f';v="{value}"')
    return f"<{TEMPERATURE}>{attributes}"


def register(device: BareDevice) -> None:
    """Make one more full registration."""
    before = device.created
    send_until(device, device.registration(), lambda: device.created > before)


def device_id(server: Any, key: str) -> str:
    (device,) = server.call(key, "GET", "/v3/devices").json["data"]
    found: str = device["id"]
    return found


def reported(server: Any, key: str, device: str) -> str:
    return base64.b64decode(server.resource(key, device)["reported"]["value"]).decode()


def begin(server: Any, key: str, device: str, by: str) -> None:
    if by == "single":
        server.subscribe(key, device)
    else:
        server.put_rules(key, RULE, query="?apply=now")


def reads(device: BareDevice) -> list[str]:
    return [message.path for message in device.asked]


def test_auto_observed_resource_is_read_for_the_initial_event(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.put_rules(key, RULE)
    device = device_side.device("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    device_side.run(device.register())
    mine = device_id(real, key)
    until(lambda: real.observed(key) == [(mine, "21.5")])
    assert real.subscribed(key, mine) == [TEMPERATURE]
    assert reported(real, key, mine) == "21.5"
    assert ([request.path for request in device.requests], len(device.observations)) == ([TEMPERATURE], 0)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: real.observed(key) == [(mine, "21.5"), (mine, "22.5")])


@pytest.mark.parametrize("auto", [True, False])
def test_value_in_a_registration_is_the_initial_event_of_a_rule(real: Any, bare: BareDevice, auto: bool) -> None:
    key = real.key()
    real.put_rules(key, RULE)
    bare.links = links("2.5", auto=auto)
    register(bare)
    mine = device_id(real, key)
    until(lambda: real.observed(key) == [(mine, "2.5")])
    bare.values[TEMPERATURE], bare.links = "1.5", links("1.5", auto=auto)
    register(bare)
    until(lambda: real.observed(key) == [(mine, "2.5"), (mine, "1.5")])
    assert reported(real, key, mine) == "1.5"
    assert real.subscribed(key, mine) == [TEMPERATURE]


@pytest.mark.parametrize("by", ["single", "rule"])
def test_value_in_a_registration_is_the_initial_event_of_a_later_subscription(
    real: Any, bare: BareDevice, by: str
) -> None:
    key, second, never = real.key(), real.key(), real.key()
    bare.links = links("2.5")
    register(bare)
    mine = device_id(real, key)
    begin(real, key, mine, by)
    until(lambda: real.observed(key) == [(mine, "2.5")])
    begin(real, second, mine, by)
    until(lambda: real.observed(second) == [(mine, "2.5")])
    assert real.observed(key) == [(mine, "2.5")]
    assert real.observed(never) == []
    # The registration carried the value: a device that answers nothing would be subscribed as well.
    assert reads(bare) == []


def test_second_application_gets_the_initial_event_when_it_subscribes(real: Any, bare: BareDevice) -> None:
    key, second = real.key(), real.key()
    register(bare)
    mine = device_id(real, key)
    real.subscribe(key, mine)
    until(lambda: real.observed(key) == [(mine, "2.5")])
    real.subscribe(second, mine)
    until(lambda: real.observed(second) == [(mine, "2.5")])
    assert real.observed(key) == [(mine, "2.5")]
    bare.send(bare.notification(TEMPERATURE, "3.5", token=(727).to_bytes(2, "big")))
    until(lambda: real.observed(key)[1:] == real.observed(second)[1:] == [(mine, "3.5")])


def test_initial_event_bears_the_time_of_its_value(real: Any, bare: BareDevice) -> None:
    key = real.key()
    bare.links = links("2.5")
    register(bare)
    mine = device_id(real, key)
    until(lambda: real.resource(key, mine)["reported"])
    told_at = real.now
    real.advance(key, 60)
    real.subscribe(key, mine)
    until(lambda: real.observed(key) == [(mine, "2.5")])
    (event,) = (entry for kind, entry in real.log(key) if kind == "notifications")
    assert event["timestamp"] == told_at


def test_restart_makes_an_event_of_an_auto_observed_value_only_where_it_differs(real: Any, bare: BareDevice) -> None:
    key = real.key()
    real.put_rules(key, RULE)
    register(bare)
    mine = device_id(real, key)
    until(lambda: real.observed(key) == [(mine, "2.5")])
    asked = len(bare.asked)
    real.restart()
    send_until(bare, bare.update(), lambda: len(bare.asked) > asked)
    assert real.services.database.settle(60)
    assert real.observed(key) == [(mine, "2.5")]
    bare.values[TEMPERATURE], asked = "1.5", len(bare.asked)
    real.restart()
    send_until(bare, bare.update(), lambda: len(bare.asked) > asked)
    until(lambda: real.observed(key) == [(mine, "2.5"), (mine, "1.5")])


def test_auto_observed_resource_that_cannot_be_read_is_subscribed_all_the_same(real: Any, bare: BareDevice) -> None:
    key = real.key()
    bare.values.clear()
    register(bare)
    mine = device_id(real, key)
    real.subscribe(key, mine)
    until(lambda: real.subscribed(key, mine) == [TEMPERATURE])
    assert real.observed(key) == []
    bare.send(bare.notification(TEMPERATURE, "3.5", token=(727).to_bytes(2, "big")))
    until(lambda: real.observed(key) == [(mine, "3.5")])


def test_value_in_an_update_with_the_same_links_is_an_event_where_it_differs(real: Any, bare: BareDevice) -> None:
    key = real.key()
    real.put_rules(key, RULE)
    bare.links = links("2.5")
    register(bare)
    mine = device_id(real, key)
    until(lambda: real.observed(key) == [(mine, "2.5")])
    bare.send(bare.notification(TEMPERATURE, "3.5", token=(727).to_bytes(2, "big")))
    until(lambda: real.observed(key)[1:] == [(mine, "3.5")])
    update = bare.request(2, bare.location, payload=bare.links.encode())
    send_until(bare, update, lambda: len(real.observed(key)) == 3)
    assert real.observed(key)[2:] == [(mine, "2.5")]
    heard = len(bare.heard)
    send_until(bare, bare.request(2, bare.location, payload=bare.links.encode()), lambda: len(bare.heard) > heard)
    assert len(real.observed(key)) == 3


def test_mirror_device_that_publishes_values_is_heard_by_a_rule(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.put_rules(key, RULE)
    temperature = DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727)
    device = device_side.device("sensor-1", temperature, link_style=LinkStyle(publishes_values=True))
    device_side.run(device.register())
    mine = device_id(real, key)
    until(lambda: real.observed(key) == [(mine, "21.5")])
    assert list(device.requests) == []
