"""The initial observation event of auto-observed resources and of values that registrations carry.

Source: specification 3.2; wire.md 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import BareDevice, Devices, send_until
from devices_on_loopback import DeviceSide, registered, reported, until, wait_for_values
from resource_paths import TEMPERATURE

from mirror_server.extensions.lwm2m.device.resources import DeviceResource

RULE = {"resource-path": [TEMPERATURE]}


@pytest.fixture
def bare(device_side: DeviceSide) -> Iterator[BareDevice]:
    """A device of raw datagrams with the value 2.5 and the links of :func:`links`, not registered yet."""
    with Devices() as devices:
        yield devices.add(BareDevice(device_side.port, "sensor-1", {TEMPERATURE: "2.5"}, links=links()))


def links(value: str | None = None, *, auto: bool = True) -> str:
    """Return the link of the temperature, optionally with a value."""
    attributes = (';aobs="727"' if auto else "") + ("" if value is None else f';v="{value}"')
    return f"<{TEMPERATURE}>{attributes}"


@pytest.fixture
def send_notification(bare: BareDevice) -> Callable[[], None]:
    """Send a notification with 3.5 from the device."""
    return lambda: bare.send(bare.notification(TEMPERATURE, "3.5", token=(727).to_bytes(2, "big")))


def test_auto_observed_resource_is_read_for_the_initial_event(real, key, device_side, register):
    real.put_rules(key, RULE)
    device, mine = register("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    wait_for_values(real, key, mine, "21.5")
    assert real.subscribed(key, mine) == [TEMPERATURE]
    assert reported(real, key, mine) == "21.5"
    assert ([request.path for request in device.requests.copy()], len(device.observations)) == ([TEMPERATURE], 0)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    wait_for_values(real, key, mine, "21.5", "22.5")


@pytest.mark.parametrize("auto", [True, False])
def test_value_in_registration_is_initial_event_of_rule(real, key, bare, auto):
    real.put_rules(key, RULE)
    bare.links = links("2.5", auto=auto)
    mine = registered(real, key, bare)
    wait_for_values(real, key, mine, "2.5")
    bare.values[TEMPERATURE], bare.links = "1.5", links("1.5", auto=auto)
    registered(real, key, bare)
    wait_for_values(real, key, mine, "2.5", "1.5")
    assert reported(real, key, mine) == "1.5"
    assert real.subscribed(key, mine) == [TEMPERATURE]


def test_value_in_registration_is_initial_event_of_later_subscription(real, key, bare, send_notification):
    second, never = real.key(), real.key()
    bare.links = links("2.5")
    mine = registered(real, key, bare)
    until(lambda: real.resource(key, mine)["reported"])
    reported_at = real.now
    real.advance(key, 60)
    real.subscribe(key, mine)
    wait_for_values(real, key, mine, "2.5")
    real.subscribe(second, mine)
    wait_for_values(real, second, mine, "2.5")
    assert (real.observed(key), real.observed(never)) == ([(mine, "2.5")], [])
    # The registration had the value, so no request is needed.
    assert bare.requests == []
    (event,) = (entry for kind, entry in real.log(key) if kind == "notifications")
    assert event["timestamp"] == reported_at, "it has the time of its value"
    send_notification()
    for each in (key, second):
        wait_for_values(real, each, mine, "2.5", "3.5")


def test_restart_reports_auto_observed_value_only_if_it_differs(real, key, bare):
    real.put_rules(key, RULE)
    mine = registered(real, key, bare)
    wait_for_values(real, key, mine, "2.5")
    request_count = len(bare.requests)
    real.restart()
    send_until(bare, bare.update(), lambda: len(bare.requests) > request_count)
    assert real.services.database.settle(60)
    assert real.observed(key) == [(mine, "2.5")]
    bare.values[TEMPERATURE] = "1.5"
    real.restart()
    send_until(bare, bare.update(), lambda: real.observed(key)[1:])
    wait_for_values(real, key, mine, "2.5", "1.5")


def test_unreadable_auto_observed_resource_can_be_subscribed(real, key, bare, send_notification):
    bare.values.clear()
    mine = registered(real, key, bare)
    real.subscribe(key, mine)
    until(lambda: real.subscribed(key, mine) == [TEMPERATURE])
    assert real.observed(key) == []
    send_notification()
    wait_for_values(real, key, mine, "3.5")


def test_value_in_update_with_same_links_is_an_event_if_it_differs(real, key, bare, send_notification):
    real.put_rules(key, RULE)
    bare.links = links("2.5")
    mine = registered(real, key, bare)
    wait_for_values(real, key, mine, "2.5")
    send_notification()
    wait_for_values(real, key, mine, "2.5", "3.5")
    for _ in range(2):
        message_count, update = len(bare.responses), bare.request(2, bare.location, payload=bare.links.encode())
        send_until(bare, update, lambda message_count=message_count: len(bare.responses) > message_count)
        wait_for_values(real, key, mine, "2.5", "3.5", "2.5")
