"""Real devices through the whole server: from datagrams on a socket to what an application is told."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import PUT, BareDevice, Devices, Message, send_until
from devices_on_loopback import DeviceSide, until

from mirror_sdk.values import PythonValue
from mirror_server.devices.lwm2m.exchange import Response
from mirror_server.devices.lwm2m_client.device import RegistrationRefused
from mirror_server.devices.lwm2m_client.resources import DeviceResource, LinkStyle
from mirror_server.service.bench import CLOCK_SETTING
from mirror_server.store import settings as stored_settings
from mirror_server.store.database import Database

TEMPERATURE = "/3303/0/5700"
TLV = 11542


def directory(server: Any, key: str) -> dict[str, dict[str, Any]]:
    listed = server.call(key, "GET", "/v3/devices").json["data"]
    return {each["endpoint_name"]: each for each in listed}


def device_id(server: Any, key: str, name: str = "sensor-1") -> str:
    found: str = directory(server, key)[name]["id"]
    return found


def reported(server: Any, key: str, device: str, path: str = TEMPERATURE) -> str | None:
    value = server.resource(key, device, path)["reported"].get("value")
    return None if value is None else base64.b64decode(value).decode()


def answered(server: Any, key: str, device: str, async_id: str, method: str, path: str, **body: Any) -> Any:
    """Place a device request and wait for its answer: status and category."""
    server.place(key, device, async_id, method, path, **body)
    return until(lambda: server.responses(key).get(async_id))


def test_a_device_registers_is_read_written_executed_and_leaves(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(endpoint_type="Thermometer", lifetime_seconds=300)
    device_side.run(device.register())
    shown = directory(real, key)["sensor-1"]
    assert (shown["state"], shown["endpoint_type"]) == ("registered", "Thermometer")
    mine = shown["id"]
    assert reported(real, key, mine) is None
    assert answered(real, key, mine, "read", "GET", TEMPERATURE) == (200, None)
    assert float(reported(real, key, mine) or "") == 21.5
    assert answered(real, key, mine, "write", "PUT", "/3311/0/5851", value="55") == (200, None)
    assert device.value("/3311/0/5851") == 55
    assert answered(real, key, mine, "refused", "PUT", "/3311/0/5851", value="13") == (400, "BAD_VALUE")
    assert answered(real, key, mine, "executed", "POST", "/3/0/4") == (200, None)
    assert answered(real, key, mine, "rules", "PUT", f"{TEMPERATURE}?pmin=1&pmax=60") == (200, None)
    assert answered(real, key, mine, "not", "PUT", TEMPERATURE, value="1") == (400, "METHOD_NOT_ALLOWED")
    device_side.run(device.deregister())
    assert directory(real, key)["sensor-1"]["state"] == "deregistered"
    assert "de-registrations" in real.kinds(key)


def test_a_subscription_is_observed_and_cancelled(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    real.subscribe(key, mine)
    until(lambda: real.observed(key) == [(mine, "21.5")])
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: real.observed(key) == [(mine, "21.5"), (mine, "22.5")])
    assert reported(real, key, mine) == "22.5"
    real.subscribe(key, mine, method="DELETE")
    until(lambda: len(device.observations) == 0)
    assert real.subscribed(key, mine) == []


def test_resources_of_instances_are_discovered_and_shown_empty(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(link_style=LinkStyle(of="instances"))
    device_side.run(device.register())
    mine = device_id(real, key)

    def shown() -> list[str]:
        return [each["resource_path"] for each in real.call(key, "GET", f"/v3/devices/{mine}/echo").json["resources"]]

    until(lambda: sorted(shown()) == ["/3/0/4", TEMPERATURE, "/3311/0/5850", "/3311/0/5851"])
    assert real.resource(key, mine)["reported"] == {}
    discoveries = [request for request in device.requests if request.accept == 40]
    assert sorted(request.path for request in discoveries) == ["/3/0", "/3303/0", "/3311/0"]
    device_side.run(device.update(with_links=True))
    device_side.run(device.register())
    assert answered(real, key, mine, "read", "GET", TEMPERATURE) == (200, None)
    assert len([request for request in device.requests if request.accept == 40]) == 3
    assert sorted(shown()) == ["/3/0/4", TEMPERATURE, "/3311/0/5850", "/3311/0/5851"]


def test_what_cannot_be_read_is_not_observed(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.put_rules(key, {"endpoint-name": "sensor-1"})
    device = device_side.device(link_style=LinkStyle(of="instances"))
    device_side.run(device.register())
    mine = device_id(real, key)
    until(lambda: sorted(real.subscribed(key, mine)) == [TEMPERATURE, "/3311/0/5850", "/3311/0/5851"])
    assert "/3/0/4" not in {request.path for request in device.requests if request.accept != 40}


def test_an_auto_observed_value_is_told_to_who_subscribed_and_the_device_is_not_asked(
    real: Any, device_side: DeviceSide
) -> None:
    key, other = real.key(), real.key()
    device = device_side.device("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    device_side.run(device.register())
    mine = device_id(real, key)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: reported(real, key, mine) == "22.5")
    assert real.observed(key) == []
    assert real.resource(key, mine)["reported"]["origin"] == "auto_observation"
    real.subscribe(key, mine)
    until(lambda: real.observed(key) == [(mine, "22.5")])
    assert real.subscribed(key, mine) == [TEMPERATURE]
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    until(lambda: real.observed(key) == [(mine, "22.5"), (mine, "23.5")])
    assert real.observed(other) == []
    assert list(device.requests) == []


def test_a_value_published_in_a_link_is_reported(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(link_style=LinkStyle(publishes_values=True))
    device_side.run(device.register())
    mine = device_id(real, key)
    until(lambda: float(reported(real, key, mine) or "nan") == 21.5)


def test_values_sent_by_themselves_are_those_of_known_resources(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(version="1.1")
    device_side.run(device.register())
    mine = device_id(real, key)
    assert device_side.run(device.send(TEMPERATURE, "/3311/0/5851")).code == "2.04"
    until(lambda: reported(real, key, mine, "/3311/0/5851") == "40")
    assert float(reported(real, key, mine) or "") == 21.5
    assert real.resource(key, mine)["reported"]["origin"] == "auto_observation"
    device_side.call(device.add, DeviceResource("/3304/0/5700", 50.0))
    assert device_side.run(device.send("/3304/0/5700")).code == "4.04"
    assert device_side.run(device.send(TEMPERATURE, "/3304/0/5700")).code == "2.04"
    assert "/3304/0/5700" not in {
        each["resource_path"] for each in real.call(key, "GET", f"/v3/devices/{mine}/echo").json["resources"]
    }


def test_an_object_instance_is_read_whole_and_fills_its_resources(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    assert answered(real, key, mine, "read", "GET", "/3311/0") == (200, None)
    assert (reported(real, key, mine, "/3311/0/5851"), reported(real, key, mine, "/3311/0/5850")) == ("40", "0")
    refusal = real.place(key, mine, "other", "GET", "/3312/0")
    assert refusal.status_code == 400
    assert refusal.json["reason"] == "RESOURCE_NOT_FOUND"


def test_a_float_that_a_device_writes_as_an_integer_in_a_tlv_does_not_replace_the_value_from_text(
    real: Any, device_side: DeviceSide, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = real.key()
    device = device_side.device()
    in_text = device._encode

    def encode(path: str, values: Mapping[str, PythonValue], content_format: int) -> bytes | None:
        # As Arm's client library writes the float 21.25 of an instance.
        return bytes.fromhex("e41644 00000015") if content_format == TLV else in_text(path, values, content_format)

    monkeypatch.setattr(device, "_encode", encode)
    device_side.run(device.register())
    mine = device_id(real, key)
    assert answered(real, key, mine, "read", "GET", TEMPERATURE) == (200, None)
    before = real.call(key, "GET", f"/v3/devices/{mine}/echo").json["resources"]
    assert answered(real, key, mine, "instance", "GET", "/3303/0") == (200, None)
    assert real.call(key, "GET", f"/v3/devices/{mine}/echo").json["resources"] == before
    assert reported(real, key, mine) == "21.5"


def test_a_simulated_device_has_no_instance_to_read(real: Any) -> None:
    key = real.key()
    mine = real.add_device(key, "simulated-1")
    assert real.place(key, mine, "read", "GET", "/3303/0").status_code == 400


def test_the_name_of_a_simulated_device_is_refused(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    mine = real.add_device(key, "sensor-1")
    device = device_side.device()
    with pytest.raises(RegistrationRefused, match="simulated") as caught:
        device_side.run(device.register())
    assert caught.value.code == "4.03"
    assert device_id(real, key) == mine
    assert real.place(key, mine, "read", "GET", TEMPERATURE).status_code == 202
    assert real.responses(key)["read"] == (200, None)


def test_a_simulated_device_does_not_take_the_name_of_a_real_one(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    refusal = real.call(key, "POST", "/sim/v1/devices", json={"endpoint_name": "sensor-1", "resources": []})
    assert (refusal.status_code, refusal.json["fields"][0]["name"]) == (400, "endpoint_name")
    assert answered(real, key, mine, "read", "GET", TEMPERATURE) == (200, None)
    assert len(real.call(key, "GET", f"/v2/endpoints/{mine}").json) == 4


def test_a_device_that_registers_anew_is_the_same_and_is_observed_again(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    device = device_side.device()
    device_side.run(device.register())
    mine, location = device_id(real, key), device.registration_id
    until(lambda: real.observed(key) == [(mine, "21.5")])
    device_side.run(device.restart())
    assert device.registration_id != location
    assert device_id(real, key) == mine
    until(lambda: len(device.observations) == 1)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: real.observed(key)[-1] == (mine, "22.5"))
    assert [kind for kind in real.kinds(key) if kind != "notifications"] == ["registrations"] * 2


def test_a_shorter_list_of_links_removes_resources_and_the_mirror_keeps_them(
    real: Any, device_side: DeviceSide
) -> None:
    key = real.key()
    device = device_side.device(lifetime_seconds=300)
    device_side.run(device.register())
    mine = device_id(real, key)
    device_side.call(device.remove, TEMPERATURE)
    device_side.run(device.update(with_links=True, lifetime_seconds=600))
    assert TEMPERATURE not in {each["uri"] for each in real.call(key, "GET", f"/v2/endpoints/{mine}").json}
    assert real.resource(key, mine)["reported"] == {}
    connection = real.call(key, "GET", f"/v3/devices/{mine}/connection").json
    assert (connection["lifetime_seconds"], connection["protocol"], connection["lwm2m_version"]) == (600, "coap", "1.0")
    assert connection["address"] == f"127.0.0.1:{device.port}"


def test_a_registration_ends_with_its_lifetime_on_the_clock_of_the_mirror(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(lifetime_seconds=300)
    device_side.run(device.register())
    mine = device_id(real, key)
    real.advance(key, 299)
    device_side.run(device.update())
    real.advance(key, 299)
    assert directory(real, key)["sensor-1"]["state"] == "registered"
    real.advance(key, 2)
    assert directory(real, key)["sensor-1"]["state"] == "deregistered"
    real.place(key, mine, "late", "GET", TEMPERATURE)
    with pytest.raises(RegistrationRefused) as caught:
        device_side.run(device.update())
    assert caught.value.code == "4.04"
    assert not [request for request in device.requests if request.path == TEMPERATURE]
    device_side.run(device.register())
    assert until(lambda: real.responses(key).get("late")) == (200, None)


def test_a_restart_of_the_service_loses_nothing(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    device = device_side.device(
        "sensor-1",
        DeviceResource(TEMPERATURE, 21.5),
        DeviceResource("/3304/0/5700", 50.0, auto_observed_token=728),
        version="1.1",
        queue_mode=False,
    )
    device_side.run(device.register())
    mine, location = device_id(real, key), device.registration_id
    until(lambda: real.observed(key) == [(mine, "21.5")])
    real.restart()
    # At once, at the address it had; the value is the one of before, so nobody is told.
    until(lambda: sum(request.path == TEMPERATURE for request in device.requests) == 2)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: real.observed(key) == [(mine, "21.5"), (mine, "22.5")])
    device_side.call(device.set_value, "/3304/0/5700", 51.0)
    until(lambda: reported(real, key, mine, "/3304/0/5700") == "51.0")
    device_side.run(device.update())
    assert device.registration_id == location
    assert [kind for kind in real.kinds(key) if kind != "notifications"] == ["registrations", "reg-updates"]
    connection = real.call(key, "GET", f"/v3/devices/{mine}/connection").json
    assert connection["lwm2m_version"] == "1.1"
    assert answered(real, key, mine, "read", "GET", TEMPERATURE) == (200, None)


def restart_later(server: Any, seconds: float) -> None:
    """Close the server, and open it again some seconds of domain time later."""
    until_at = server.now + round(seconds * 1000)
    server.services.close()
    database = Database(server.settings.database_url)
    database.write(lambda session: stored_settings.put(session, CLOCK_SETTING, str(until_at)))
    database.close()
    server.open()


@pytest.mark.parametrize(
    ("lifetime_seconds", "age_seconds", "down_seconds", "left_seconds"),
    [
        (60, 30, 44, 120),  # time for all retransmissions of an update that was sent meanwhile
        (300, 200, 1000, 300),  # and for the next update, of a device that updates often
        (86_400, 86_300, 60, 600),
        (86_400, 82_800, 7200, 3600),  # as much as was left before
        (86_400, 82_800, 60, 3540),  # there is time enough
    ],
)
def test_registration_outlives_the_downtime_of_the_service(
    real: Any,
    device_side: DeviceSide,
    lifetime_seconds: int,
    age_seconds: int,
    down_seconds: int,
    left_seconds: int,
) -> None:
    key = real.key()
    device = device_side.device(lifetime_seconds=lifetime_seconds)
    device_side.run(device.register())
    mine, location = device_id(real, key), device.registration_id
    real.advance(key, age_seconds)
    # The last sign that the service was there.
    real.add_device(key, "other")
    restart_later(real, down_seconds)
    ends_at = real.call(key, "GET", f"/v3/devices/{mine}/connection").json["registration_expires_at"]
    assert datetime.fromisoformat(ends_at).timestamp() * 1000 == real.now + left_seconds * 1000
    real.advance(key, left_seconds - 1)
    device_side.run(device.update())
    assert device.registration_id == location
    assert "registrations-expired" not in real.kinds(key)


def test_registration_without_an_update_expires_after_the_grace_period(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(lifetime_seconds=60)
    device_side.run(device.register())
    restart_later(real, 104)
    real.advance(key, 119)
    assert "registrations-expired" not in real.kinds(key)
    real.advance(key, 1)
    assert directory(real, key)["sensor-1"]["state"] == "deregistered"
    with pytest.raises(RegistrationRefused):
        device_side.run(device.update())


class _Connection:
    """The connection to a database that several processes serve."""

    def __init__(self, server: Any) -> None:
        self._services = server.services

    def break_down(self) -> None:
        self._services.pause_leading()

    def mend(self) -> None:
        self._services.go_on_leading()
        assert self._services.database.settle(60)


@pytest.mark.parametrize("what", ["connection", "disk"])
def test_registration_outlives_an_outage_of_the_database(
    real: Any, device_side: DeviceSide, disk_of: Callable[[Any], Any], what: str
) -> None:
    key = real.key()
    device = device_side.device(lifetime_seconds=60)
    device_side.run(device.register())
    mine, location = device_id(real, key), device.registration_id
    real.advance(key, 30)
    database = disk_of(real) if what == "disk" else _Connection(real)
    database.break_down()
    # Each update is answered with 5.03 now.
    real.services.clock.advance(1000 * 1000)
    database.mend()
    ends_at = real.call(key, "GET", f"/v3/devices/{mine}/connection").json["registration_expires_at"]
    assert datetime.fromisoformat(ends_at).timestamp() * 1000 == real.now + 120 * 1000
    real.advance(key, 119)
    device_side.run(device.update())
    assert device.registration_id == location
    real.advance(key, 60)
    assert real.kinds(key).count("registrations-expired") == 1
    with pytest.raises(RegistrationRefused):
        device_side.run(device.update())


def test_a_device_that_came_to_another_port_during_a_restart_is_found_by_its_update(
    real: Any, device_side: DeviceSide
) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    real.services.close()
    device_side.call(device.cut_off)
    real.open()
    real.place(key, mine, "read", "GET", TEMPERATURE)
    device_side.run(device.wake(from_new_port=True))
    assert until(lambda: real.responses(key).get("read")) == (200, None)
    assert real.call(key, "GET", f"/v3/devices/{mine}/connection").json["address"] == f"127.0.0.1:{device.port}"


def test_in_queue_mode_commands_wait_until_the_device_wakes(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    device = device_side.device(queue_mode=True)
    device_side.run(device.register())
    mine = device_id(real, key)
    assert directory(real, key)["sensor-1"]["queue_mode"] is True
    until(lambda: real.observed(key) == [(mine, "21.5")])
    real.advance(key, 94)
    device_side.call(device.sleep)
    requests = len(device.requests)
    real.place(key, mine, "waits", "PUT", "/3311/0/5851", value="70")
    assert real.call(key, "GET", f"/v3/devices/{mine}/connection").json["reachable"] is False
    assert "waits" not in real.responses(key)
    assert len(device.requests) == requests
    device_side.run(device.wake(from_new_port=True, registers=True))
    assert until(lambda: real.responses(key).get("waits")) == (200, None)
    assert device.value("/3311/0/5851") == 70
    until(lambda: len(device.observations) == 1)


def test_write_in_retransmission_is_sent_when_the_device_makes_contact(real: Any) -> None:
    """A device in queue mode that sleeps while it is written to, and wakes between two retransmissions."""
    key = real.key()
    with Devices() as devices:
        device = devices.add(BareDevice(real.settings.coap.port, "sleeper", {TEMPERATURE: "20", "/3311/0/5850": "0"}))
        send_until(device, device.registration(b="UQ"), lambda: device.location)
        mine = device_id(real, key, "sleeper")
        device.silent = True
        real.place(key, mine, "w", "PUT", "/3311/0/5850", value="1")
        until(lambda: len(device.asked) == 2)
        # The timer sends the next one after 4 s at least.
        began_at = time.monotonic()
        device.silent = False
        device.send(device.update())
        assert until(lambda: real.responses(key).get("w")) == (200, None)
        assert time.monotonic() - began_at < 3.9
        assert len({asked.number for asked in device.asked}) == 1


class _IgnoresWrites(BareDevice):
    """A device that responds to everything but writes."""

    def answer(self, asked: Message) -> None:
        if asked.code != PUT:
            super().answer(asked)


def test_command_in_flight_that_expires_makes_way_for_the_next_one(real: Any) -> None:
    key = real.key()
    with Devices() as devices:
        values = {TEMPERATURE: "20", "/3311/0/5850": "0"}
        device = devices.add(_IgnoresWrites(real.settings.coap.port, "stubborn", values))
        send_until(device, device.registration(), lambda: device.location)
        mine = device_id(real, key, "stubborn")
        real.place(key, mine, "expires", "PUT", "/3311/0/5850", value="1", expiry_seconds=12)
        real.place(key, mine, "next", "GET", TEMPERATURE)
        until(lambda: device.asked)
        began_at = time.monotonic()
        real.advance(key, 12)
        assert until(lambda: real.responses(key).get("next")) == (200, None)
        assert real.responses(key)["expires"] == (504, "TIMEOUT")
        # Without a response the write would be sent again for 30 s at least.
        assert time.monotonic() - began_at < 20


def test_command_that_waits_for_a_request_of_the_service_was_never_sent(real: Any) -> None:
    """A device leaves the Discover of the service unanswered, and nothing else is sent to it meanwhile."""
    key = real.key()
    with Devices() as devices:
        links = "</3303/0>,</3/0/4>,</3311/0/5850>"
        values = {TEMPERATURE: "20", "/3311/0/5850": "0", "/3/0/4": ""}
        device = devices.add(BareDevice(real.settings.coap.port, "slow", values, links=links))
        device.silent = True
        send_until(device, device.registration(), lambda: device.location)
        mine = device_id(real, key, "slow")
        until(lambda: device.asked)
        real.place(key, mine, "write", "PUT", "/3311/0/5850", value="1", expiry_seconds=4)
        real.place(key, mine, "execute", "POST", "/3/0/4", expiry_seconds=5)
        real.place(key, mine, "later", "PUT", "/3311/0/5850", value="2", expiry_seconds=1000)
        real.advance(key, 5)
        until(lambda: len(real.responses(key)) == 2)
        assert real.responses(key) == {"write": (429, "REQUEST_EXPIRED"), "execute": (429, "REQUEST_EXPIRED")}
        assert {asked.path for asked in device.asked} == {"/3303/0"}
        # Longer than a device may take to respond.
        real.advance(key, 125)
        device.silent = False
        device.answer(device.asked[-1])
        assert until(lambda: real.responses(key).get("later")) == (200, None)
        assert device.values["/3311/0/5850"] == "2"


def test_a_stranger_cannot_update_what_is_not_registered(real: Any, device_side: DeviceSide) -> None:
    device = device_side.device()
    device_side.run(device.register())
    device.registration_id = "of-another"
    with pytest.raises(RegistrationRefused) as caught:
        device_side.run(device.update())
    assert caught.value.code == "4.04"


def test_an_object_instance_is_written_whole_and_each_of_its_resources_is_desired(
    real: Any, device_side: DeviceSide
) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    tlv = {"payload-b64": base64.b64encode(bytes.fromhex("e116da01e116db37")).decode()}
    kind = {"content-type": "application/vnd.oma.lwm2m+tlv"}
    assert answered(real, key, mine, "write", "PUT", "/3311/0", **tlv, **kind) == (200, None)
    assert (device.value("/3311/0/5850"), device.value("/3311/0/5851")) == (True, 55)
    desired = real.resource(key, mine, "/3311/0/5851")["desired"]
    assert (base64.b64decode(desired["value"]), desired["status"]) == (b"55", 1)
    assert real.place(key, mine, "text", "PUT", "/3311/0", value="55").status_code == 400
    tlv["payload-b64"] = base64.b64encode(bytes.fromhex("e116db0d")).decode()
    assert answered(real, key, mine, "refused", "PUT", "/3311/0", **tlv, **kind) == (400, "BAD_VALUE")
    desired = real.resource(key, mine, "/3311/0/5851")["desired"]
    assert (desired["status"], desired["category"]) == (2, "BAD_VALUE")
    body = {"method": "PUT", "uri": "/3311/0", "content-type": kind["content-type"], **tlv}
    answer = real.call(key, "POST", f"/v2/device-requests/{mine}", {"If-Match": "*"}, json=body)
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, "If-Match")
    assert "each of its resources" in answer.json["message"]


def test_what_is_sent_unasked_no_more_is_asked_for(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    device_side.run(device.register())
    mine = device_id(real, key)
    real.subscribe(key, mine)
    until(lambda: real.subscribed(key, mine) == [TEMPERATURE])
    assert len(device.observations) == 0
    device_side.call(lambda: setattr(device.resource(TEMPERATURE), "auto_observed_token", None))
    device_side.run(device.update(with_links=True))
    until(lambda: len(device.observations) == 1)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: real.observed(key)[-1:] == [(mine, "22.5")])


def test_a_device_is_asked_to_observe_in_the_order_of_the_rules_at_each_registration(
    real: Any, device_side: DeviceSide
) -> None:
    key = real.key()
    real.put_rules(
        key,
        {"resource-path": ["/3311/0/5851"]},
        {"endpoint-name": "another", "resource-path": ["/3/*"]},
        {"resource-path": ["/3303/*"]},
        {"resource-path": ["/3311/*"]},
    )
    device = device_side.device()
    device_side.run(device.register())
    order = ["/3311/0/5851", TEMPERATURE, "/3311/0/5850"]
    until(lambda: len(device.requests) == 3)
    device_side.run(device.restart())
    until(lambda: len(device.requests) == 6)
    assert [request.path for request in device.requests] == order * 2
    mine = device_id(real, key)
    until(lambda: len(real.subscribed(key, mine)) == 3)
    real.restart()
    until(lambda: len(device.requests) == 9)
    assert [request.path for request in device.requests] == order * 3


def end_observation(device: Any) -> None:
    (observation,) = device.observations.all()
    device.observations.end(observation.token)
    device._open_socket().notify(observation.token, Response("4.04"), 0, is_confirmable=False)


def state(server: Any, key: str, device: str, path: str = TEMPERATURE) -> str | None:
    answer = server.call(key, "GET", f"/v2/subscriptions/{device}{path}")
    word: str | None = answer.headers.get("Mirror-Subscription")
    return word


def test_a_device_that_refuses_after_a_restart_what_it_observed_is_asked_once(
    real: Any, device_side: DeviceSide
) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    real.subscribe(key, mine)
    until(lambda: state(real, key, mine) == "active")
    device.behaviour.refusals[("GET", TEMPERATURE)] = "4.05"
    real.restart()
    until(lambda: state(real, key, mine) == "refused")
    assert real.subscribed(key, mine) == []
    # What is asked next is behind whatever was asked before.
    assert answered(real, key, mine, "read", "GET", "/3311/0/5851") == (200, None)
    assert [request.path for request in device.requests] == [TEMPERATURE, TEMPERATURE, "/3311/0/5851"]
    del device.behaviour.refusals[("GET", TEMPERATURE)]
    device_side.run(device.update())
    until(lambda: state(real, key, mine) == "active")


def test_an_observation_that_the_device_ends_is_asked_for_after_its_next_update(
    real: Any, device_side: DeviceSide
) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    real.subscribe(key, mine)
    until(lambda: state(real, key, mine) == "active")
    device_side.call(end_observation, device)
    until(lambda: state(real, key, mine) == "refused")
    device_side.run(device.update())
    until(lambda: state(real, key, mine) == "active")


def test_a_device_that_registers_during_a_command_answers_the_next_one(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device()
    device_side.run(device.register())
    mine = device_id(real, key)
    device_side.call(device.cut_off)
    real.place(key, mine, "lost", "GET", TEMPERATURE)
    device_side.run(device.restart())
    assert until(lambda: real.responses(key).get("lost")) == (200, None)
