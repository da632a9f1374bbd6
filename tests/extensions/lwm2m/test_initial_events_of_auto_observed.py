"""The initial observation event of auto-observed resources and of values that registrations carry.

Source: specification 3.2; wire.md 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import BareDevice, Devices, send_until
from devices_on_loopback import DeviceSide, hears, registered, reported, until
from resource_paths import TEMPERATURE

from mirror_server.extensions.lwm2m.device.resources import DeviceResource

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


@pytest.fixture
def tell(bare: BareDevice) -> Callable[[], None]:
    """Has the device send 3.5 unasked."""
    return lambda: bare.send(bare.notification(TEMPERATURE, "3.5", token=(727).to_bytes(2, "big")))


def test_auto_observed_resource_is_read_for_the_initial_event(real, key, device_side, register):
    real.put_rules(key, RULE)
    device, mine = register("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    hears(real, key, mine, "21.5")
    assert real.subscribed(key, mine) == [TEMPERATURE]
    assert reported(real, key, mine) == "21.5"
    assert ([request.path for request in device.requests.copy()], len(device.observations)) == ([TEMPERATURE], 0)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    hears(real, key, mine, "21.5", "22.5")


@pytest.mark.parametrize("auto", [True, False])
def test_value_in_a_registration_is_the_initial_event_of_a_rule(real, key, bare, auto):
    real.put_rules(key, RULE)
    bare.links = links("2.5", auto=auto)
    mine = registered(real, key, bare)
    hears(real, key, mine, "2.5")
    bare.values[TEMPERATURE], bare.links = "1.5", links("1.5", auto=auto)
    registered(real, key, bare)
    hears(real, key, mine, "2.5", "1.5")
    assert reported(real, key, mine) == "1.5"
    assert real.subscribed(key, mine) == [TEMPERATURE]


def test_value_in_a_registration_is_the_initial_event_of_a_later_subscription(real, key, bare, tell):
    second, never = real.key(), real.key()
    bare.links = links("2.5")
    mine = registered(real, key, bare)
    until(lambda: real.resource(key, mine)["reported"])
    told_at = real.now
    real.advance(key, 60)
    real.subscribe(key, mine)
    hears(real, key, mine, "2.5")
    real.subscribe(second, mine)
    hears(real, second, mine, "2.5")
    assert (real.observed(key), real.observed(never)) == ([(mine, "2.5")], [])
    # The registration carried the value: a device that answers nothing would be subscribed as well.
    assert bare.requests == []
    (event,) = (entry for kind, entry in real.log(key) if kind == "notifications")
    assert event["timestamp"] == told_at, "it bears the time of its value"
    tell()
    for each in (key, second):
        hears(real, each, mine, "2.5", "3.5")


def test_restart_makes_an_event_of_an_auto_observed_value_only_where_it_differs(real, key, bare):
    real.put_rules(key, RULE)
    mine = registered(real, key, bare)
    hears(real, key, mine, "2.5")
    asked = len(bare.requests)
    real.restart()
    send_until(bare, bare.update(), lambda: len(bare.requests) > asked)
    assert real.services.database.settle(60)
    assert real.observed(key) == [(mine, "2.5")]
    bare.values[TEMPERATURE] = "1.5"
    real.restart()
    send_until(bare, bare.update(), lambda: real.observed(key)[1:])
    hears(real, key, mine, "2.5", "1.5")


def test_auto_observed_resource_that_cannot_be_read_is_subscribed_all_the_same(real, key, bare, tell):
    bare.values.clear()
    mine = registered(real, key, bare)
    real.subscribe(key, mine)
    until(lambda: real.subscribed(key, mine) == [TEMPERATURE])
    assert real.observed(key) == []
    tell()
    hears(real, key, mine, "3.5")


def test_value_in_an_update_with_the_same_links_is_an_event_where_it_differs(real, key, bare, tell):
    real.put_rules(key, RULE)
    bare.links = links("2.5")
    mine = registered(real, key, bare)
    hears(real, key, mine, "2.5")
    tell()
    hears(real, key, mine, "2.5", "3.5")
    for _ in range(2):
        received, update = len(bare.responses), bare.request(2, bare.location, payload=bare.links.encode())
        send_until(bare, update, lambda received=received: len(bare.responses) > received)
        hears(real, key, mine, "2.5", "3.5", "2.5")
