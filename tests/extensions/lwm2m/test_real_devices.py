"""Real devices through the whole server: from datagrams on a socket to what an application is told."""

from __future__ import annotations

import base64
import time
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import PUT, BareDevice, Devices
from devices_on_loopback import connection, hears, listed, registered, reported, until
from resource_paths import LEVEL, SWITCH, TEMPERATURE

from mirror_server.config import ListenAddress
from mirror_server.extensions.lwm2m.device.device import RegistrationRejected
from mirror_server.extensions.lwm2m.device.resources import DeviceResource
from mirror_server.extensions.lwm2m.real_devices import RealDevices
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.transport_api import Response
from mirror_server.hooks import installed, open_database
from mirror_server.store.session import MANUAL_CLOCK

TLV = 11542


def shown(server: Any, key: str, device_id: str) -> list[str]:
    """The paths of the resources of a device."""
    resources = server.call(key, "GET", f"/v3/devices/{device_id}/echo").json["resources"]
    return sorted(each["resource_path"] for each in resources)


def test_a_device_registers_is_read_written_executed_and_leaves(real, key, device_side, register, ask):
    device, mine = register(endpoint_type="Thermometer")
    assert (listed(real, key)["state"], listed(real, key)["endpoint_type"]) == ("registered", "Thermometer")
    assert reported(real, key, mine) is None
    assert ask(mine, "GET", TEMPERATURE) == (200, None)
    assert float(reported(real, key, mine)) == 21.5
    assert ask(mine, "PUT", LEVEL, value="55") == (200, None)
    assert device.value(LEVEL) == 55
    assert ask(mine, "PUT", LEVEL, value="13") == (400, "BAD_VALUE")
    assert ask(mine, "POST", "/3/0/4") == (200, None)
    assert ask(mine, "PUT", f"{TEMPERATURE}?pmin=1&pmax=60") == (200, None)
    assert ask(mine, "PUT", TEMPERATURE, value="1") == (400, "METHOD_NOT_ALLOWED")
    # A shorter list of links removes resources, and the mirror keeps them.
    device_side.call(device.remove, TEMPERATURE)
    device_side.run(device.update(with_links=True, lifetime_seconds=600, binding="UQ"))
    assert TEMPERATURE not in {each["uri"] for each in real.call(key, "GET", f"/v2/endpoints/{mine}").json}
    assert float(reported(real, key, mine)) == 21.5
    assert (connection(real, key)["lifetime_seconds"], listed(real, key)["queue_mode"]) == (600, True)
    device_side.run(device.deregister())
    assert listed(real, key)["state"] == "deregistered"
    assert "de-registrations" in real.kinds(key)


def test_a_subscription_is_observed_and_cancelled(real, key, device_side, register):
    device, mine = register()
    real.subscribe(key, mine)
    hears(real, key, mine, "21.5")
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    hears(real, key, mine, "21.5", "22.5")
    assert reported(real, key, mine) == "22.5"
    real.subscribe(key, mine, method="DELETE")
    until(lambda: len(device.observations) == 0)
    assert real.subscribed(key, mine) == []


def test_resources_of_instances_are_discovered_and_shown_empty(real, key, device_side, register, ask):
    device, mine = register(links=lambda _resources: "</3/0>,</3303/0>,</3311/0>")
    until(lambda: shown(real, key, mine) == ["/3/0/4", TEMPERATURE, SWITCH, LEVEL])
    assert real.resource(key, mine)["reported"] == {}
    device_side.run(device.update(with_links=True))
    device_side.run(device.register())
    assert ask(mine, "GET", TEMPERATURE) == (200, None)
    discoveries = sorted(request.path for request in device.requests.copy() if request.accept == 40)
    assert discoveries == ["/3/0", "/3303/0", "/3311/0"]
    assert shown(real, key, mine) == ["/3/0/4", TEMPERATURE, SWITCH, LEVEL]


def test_an_auto_observed_value_is_told_to_who_subscribed_and_the_device_is_not_asked(real, key, device_side, register):
    other = real.key()
    device, mine = register("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: reported(real, key, mine) == "22.5")
    assert real.observed(key) == []
    assert real.resource(key, mine)["reported"]["origin"] == "auto_observation"
    real.subscribe(key, mine)
    hears(real, key, mine, "22.5")
    assert real.subscribed(key, mine) == [TEMPERATURE]
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    hears(real, key, mine, "22.5", "23.5")
    assert (real.observed(other), list(device.requests)) == ([], [])
    # What is sent unasked no more is asked for.
    device_side.call(lambda: setattr(device.resource(TEMPERATURE), "auto_observed_token", None))
    device_side.run(device.update(with_links=True))
    until(lambda: len(device.observations) == 1)
    device_side.call(device.set_value, TEMPERATURE, 24.5)
    hears(real, key, mine, "22.5", "23.5", "24.5")


def test_values_sent_by_themselves_are_those_of_known_resources(real, key, device_side, register):
    device, mine = register(version="1.1")
    assert device_side.run(device.send(TEMPERATURE, LEVEL)).code == "2.04"
    until(lambda: reported(real, key, mine, LEVEL) == "40")
    assert float(reported(real, key, mine)) == 21.5
    assert real.resource(key, mine)["reported"]["origin"] == "auto_observation"
    device_side.call(device.add, DeviceResource("/3304/0/5700", 50.0))
    assert device_side.run(device.send("/3304/0/5700")).code == "4.04"
    assert device_side.run(device.send(TEMPERATURE, "/3304/0/5700")).code == "2.04"
    assert "/3304/0/5700" not in shown(real, key, mine)


def test_an_object_instance_is_read_whole_and_fills_its_resources(real, key, register, ask):
    _, mine = register()
    assert ask(mine, "GET", "/3311/0") == (200, None)
    assert (reported(real, key, mine, LEVEL), reported(real, key, mine, SWITCH)) == ("40", "0")
    error_response = real.submit(key, mine, "other", "GET", "/3312/0")
    assert (error_response.status_code, error_response.json["reason"]) == (400, "RESOURCE_NOT_FOUND")
    other = real.add_device(key, "other-1")
    assert real.submit(key, other, "read", "GET", "/3303/0").status_code == 400


def test_long_links_values_and_payloads_go_in_blocks(real, key, device_side, register, ask):
    text, image = "0123456789" * 300, bytes(range(256)) * 20
    links = [DeviceResource(f"/3303/{number}/5700", 1.0) for number in range(150)]
    long = DeviceResource("/3/0/0", text), DeviceResource("/5/0/0", b"", writable=True)
    device, mine = register("sensor-1", *links, *long)
    assert len(shown(real, key, mine)) == 152
    real.subscribe(key, mine, "/3/0/0")
    hears(real, key, mine, text)
    device_side.call(device.set_value, "/3/0/0", text[1:])
    hears(real, key, mine, text, text[1:])
    body = {"payload-b64": base64.b64encode(image).decode(), "content-type": "application/octet-stream"}
    assert ask(mine, "PUT", "/5/0/0", **body) == (200, None)
    assert device.value("/5/0/0") == image
    assert ask(mine, "GET", "/3/0/0") == (200, None)
    assert reported(real, key, mine, "/3/0/0") == text[1:]


def test_a_float_that_a_tlv_holds_as_an_integer_does_not_replace_the_text(real, key, register, ask, monkeypatch):
    device, mine = register()
    assert ask(mine, "GET", TEMPERATURE) == (200, None)
    # As Arm's client library writes the float 21.25 of an instance.
    monkeypatch.setattr(device, "_encode", lambda *_: bytes.fromhex("e41644 00000015"))
    before = real.call(key, "GET", f"/v3/devices/{mine}/echo").json["resources"]
    assert ask(mine, "GET", "/3303/0") == (200, None)
    assert real.call(key, "GET", f"/v3/devices/{mine}/echo").json["resources"] == before
    assert reported(real, key, mine) == "21.5"


def test_a_real_device_does_not_take_the_name_of_another(real, key, device_side, register, ask):
    other = real.add_device(key, "sensor-1")
    with pytest.raises(RegistrationRejected, match=r"4\.03 .*simulated"):
        register()
    assert (listed(real, key)["id"], connection(real, key)["protocol"]) == (other, "memory")
    assert ask(other, "GET", TEMPERATURE) == (200, None)
    _, mine = register("sensor-2")
    assert connection(real, key, "sensor-2")["protocol"] == "coap"
    assert len(real.call(key, "GET", f"/v2/endpoints/{mine}").json) == 4


def test_a_registration_ends_with_its_lifetime_on_the_clock_of_the_mirror(real, key, device_side, register):
    device, mine = register(lifetime_seconds=300)
    real.advance(key, 299)
    device_side.run(device.update())
    real.advance(key, 299)
    assert listed(real, key)["state"] == "registered"
    real.advance(key, 2)
    assert listed(real, key)["state"] == "deregistered"
    real.submit(key, mine, "late", "GET", TEMPERATURE)
    with pytest.raises(RegistrationRejected, match=r"4\.04"):
        device_side.run(device.update())
    assert not [request for request in device.requests.copy() if request.path == TEMPERATURE]
    device_side.run(device.register())
    assert until(lambda: real.responses(key).get("late")) == (200, None)


@pytest.mark.parametrize(
    ("setting", "limit", "reason"),
    [
        ("max_coap_devices", 0, r"5\.03 .*the maximum number of devices is registered"),
        ("max_coap_links", 3, r"4\.13 .*the maximum is 3"),
        ("max_coap_payload_bytes", 50, r"4\.13 .*more than 50 bytes"),
        ("coap_registrations_per_minute", 0, r"4\.29 .*too many registrations"),
    ],
)
def test_settings_limit_what_a_device_may_register(new_server, device_side, setting, limit, reason):
    new_server(coap=ListenAddress("127.0.0.1", device_side.port), **{setting: limit})
    with pytest.raises(RegistrationRejected, match=reason):
        device_side.run(device_side.device().register())


def restart_later(server: Any, seconds: float) -> None:
    """Close the server, and open it again some seconds of domain time later."""
    until_at = server.now + round(seconds * 1000)
    server.services.close()
    with closing(open_database(server.settings.database_url)) as database:
        database.write(lambda session: session.put_setting(MANUAL_CLOCK, str(until_at)))
    server.open()


def seconds_left(server: Any, key: str) -> float:
    ends_at = datetime.fromisoformat(connection(server, key)["registration_expires_at"])
    return ends_at.timestamp() - server.now / 1000


@pytest.mark.parametrize(
    ("lifetime", "age", "down", "left"),
    [
        (60, 30, 44, 120),  # time for all retransmissions of an update that was sent meanwhile
        (300, 200, 1000, 300),  # and for the next update, of a device that updates often
        (86_400, 86_300, 60, 600),
        (86_400, 82_800, 7200, 3600),  # as much as was left before
        (86_400, 82_800, 60, 3540),  # there is time enough
    ],
)
def test_registration_outlives_the_downtime_of_the_service(real, key, device_side, register, lifetime, age, down, left):
    """All in seconds."""
    device, _ = register(lifetime_seconds=lifetime)
    location = device.registration_id
    real.advance(key, age)
    # The last sign that the service was there.
    real.add_device(key, "other")
    restart_later(real, down)
    assert seconds_left(real, key) == left
    real.advance(key, left - 1)
    device_side.run(device.update())
    assert device.registration_id == location
    assert "registrations-expired" not in real.kinds(key)


@pytest.mark.parametrize("what", ["connection", "disk"])
def test_registration_outlives_an_outage_of_the_database(real, key, device_side, register, disk_of, what):
    device, _ = register(lifetime_seconds=60)
    location = device.registration_id
    real.advance(key, 30)
    disk, services = disk_of(real), real.services
    # The connection to a database is lost that several processes serve, or its disk is full.
    disk.break_down() if what == "disk" else services.pause_leading()
    # Each update is answered with 5.03 now.
    services.clock.advance(1000 * 1000)
    disk.mend() if what == "disk" else services.resume_leading()
    assert services.database.settle(60)
    assert seconds_left(real, key) == 120
    real.advance(key, 119)
    device_side.run(device.update())
    assert device.registration_id == location
    real.advance(key, 60)
    assert real.kinds(key).count("registrations-expired") == 1
    with pytest.raises(RegistrationRejected):
        device_side.run(device.update())


def test_a_restart_of_the_service_takes_up_what_a_device_registered(real, key):
    what = (
        "location, peer, version, binding, queue_mode, lifetime_seconds, expires_at, last_seen_at, prefix, structured"
    )

    def kept() -> dict[str, Any]:
        fleet = until(lambda: real.services.part(RealDevices)._fleet)
        device = fleet.registry.by_id(listed(real, key, "bare")["id"])
        return {name: getattr(device, name) for name in (*what.split(", "), "links_hash", "to_discover", "tokens")}

    links = '</lwm2m>;rt="oma.lwm2m";ct=112,</lwm2m/3303/0/5700>;aobs=727,</lwm2m/3/0>'
    with Devices() as devices:
        device = devices.add(BareDevice(real.settings.of(LwM2MSettings).coap.port, "bare", {}, links=links))
        device.silent = True
        registered(real, key, device, b="UQ", lt="300")
        before = kept()
        real.restart()
        assert kept() == before
        assert (before["prefix"], before["structured"], before["to_discover"]) == ("/lwm2m", (11542, 112), ("/3/0",))


def test_a_device_that_came_to_another_port_during_a_restart_is_found_by_its_update(real, key, device_side, register):
    device, mine = register()
    real.services.close()
    device_side.call(device.cut_off)
    real.open()
    real.submit(key, mine, "read", "GET", TEMPERATURE)
    device_side.run(device.wake(from_new_port=True))
    assert until(lambda: real.responses(key).get("read")) == (200, None)
    assert connection(real, key)["address"] == f"127.0.0.1:{device.port}"


def test_in_queue_mode_commands_wait_until_the_device_wakes(real, key, device_side, register):
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    device, mine = register(queue_mode=True)
    assert listed(real, key)["queue_mode"] is True
    hears(real, key, mine, "21.5")
    real.advance(key, 94)
    device_side.call(device.sleep)
    requests = len(device.requests)
    real.submit(key, mine, "waits", "PUT", LEVEL, value="70")
    assert connection(real, key)["reachable"] is False
    assert ("waits" in real.responses(key), len(device.requests)) == (False, requests)
    device_side.run(device.wake(from_new_port=True, registers=True))
    assert until(lambda: real.responses(key).get("waits")) == (200, None)
    assert device.value(LEVEL) == 70
    until(lambda: len(device.observations) == 1)


def test_a_setting_says_how_long_a_device_in_queue_mode_is_reached_after_its_last_message(new_server, device_side):
    server = new_server(coap=ListenAddress("127.0.0.1", device_side.port), coap_awake_seconds=10)
    key = server.key()
    device_side.run(device_side.device(queue_mode=True).register())
    until(lambda: connection(server, key)["reachable"])
    server.advance(key, 10)
    assert not connection(server, key)["reachable"]


def test_command_in_flight_that_expires_makes_way_for_the_next_one(real, key, monkeypatch):
    with Devices() as devices:
        device = devices.add(
            BareDevice(real.settings.of(LwM2MSettings).coap.port, "stubborn", {TEMPERATURE: "20", SWITCH: "0"})
        )
        answer = device.answer
        monkeypatch.setattr(device, "answer", lambda asked: asked.code == PUT or answer(asked))
        mine = registered(real, key, device)
        real.submit(key, mine, "expires", "PUT", SWITCH, value="1", expiry_seconds=12)
        real.submit(key, mine, "next", "GET", TEMPERATURE)
        until(lambda: device.asked)
        began_at = time.monotonic()
        real.advance(key, 12)
        assert until(lambda: real.responses(key).get("next")) == (200, None)
        assert real.responses(key)["expires"] == (504, "TIMEOUT")
        # Without a response the write would be sent again for 30 s at least.
        assert time.monotonic() - began_at < 20


def test_command_that_waits_for_a_request_of_the_service_was_never_sent(real, key):
    """A device leaves the Discover of the service unanswered, and nothing else is sent to it meanwhile."""
    with Devices() as devices:
        values, links = {TEMPERATURE: "20", SWITCH: "0", "/3/0/4": ""}, "</3303/0>,</3/0/4>,</3311/0/5850>"
        device = devices.add(BareDevice(real.settings.of(LwM2MSettings).coap.port, "slow", values, links=links))
        device.silent = True
        mine = registered(real, key, device)
        until(lambda: device.asked)
        real.submit(key, mine, "write", "PUT", SWITCH, value="1", expiry_seconds=4)
        real.submit(key, mine, "execute", "POST", "/3/0/4", expiry_seconds=5)
        real.submit(key, mine, "later", "PUT", SWITCH, value="2", expiry_seconds=1000)
        real.advance(key, 5)
        until(lambda: len(real.responses(key)) == 2)
        assert real.responses(key) == {"write": (429, "REQUEST_EXPIRED"), "execute": (429, "REQUEST_EXPIRED")}
        assert {asked.path for asked in device.asked} == {"/3303/0"}
        # Longer than a device may take to respond.
        real.advance(key, 125)
        device.silent = False
        device.answer(device.asked[-1])
        assert until(lambda: real.responses(key).get("later")) == (200, None)
        assert device.values[SWITCH] == "2"


def test_an_object_instance_is_written_whole_and_each_of_its_resources_is_desired(real, key, register, ask):
    def tlv(payload: str) -> dict[str, str]:
        content = base64.b64encode(bytes.fromhex(payload)).decode()
        return {"payload-b64": content, "content-type": "application/vnd.oma.lwm2m+tlv"}

    def desired() -> Any:
        return real.resource(key, mine, LEVEL)["desired"]

    device, mine = register()
    assert ask(mine, "PUT", "/3311/0", **tlv("e116da01e116db37")) == (200, None)
    assert (device.value(SWITCH), device.value(LEVEL)) == (True, 55)
    assert (base64.b64decode(desired()["value"]), desired()["status"]) == (b"55", 1)
    assert real.submit(key, mine, "text", "PUT", "/3311/0", value="55").status_code == 400
    assert ask(mine, "PUT", "/3311/0", **tlv("e116da00e116db0d")) == (400, "BAD_VALUE")
    assert device.value(SWITCH) is True, "13 is not accepted, so that neither is written"
    assert (desired()["status"], desired()["category"]) == (2, "BAD_VALUE")
    body = {"method": "PUT", "uri": "/3311/0", **tlv("e116db0d")}
    if "requests" not in installed():
        return
    answer = real.call(key, "POST", f"/v2/device-requests/{mine}", {"If-Match": "*"}, json=body)
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, "If-Match")
    assert "each of its resources" in answer.json["message"]


def test_a_device_is_asked_to_observe_in_the_order_of_the_rules_at_each_registration(real, key, device_side, register):
    def is_requested(times: int) -> None:
        until(lambda: [request.path for request in device.requests.copy()] == [LEVEL, TEMPERATURE, SWITCH] * times)

    rules = [{"resource-path": [path]} for path in (LEVEL, "/3303/*", "/3311/*")]
    real.put_rules(key, {"endpoint-name": "another", "resource-path": ["/3/*"]}, *rules)
    device, mine = register()
    is_requested(times=1)
    device_side.run(device.restart())
    is_requested(times=2)
    until(lambda: len(real.subscribed(key, mine)) == 3)
    real.restart()
    is_requested(times=3)


def test_an_observation_that_a_device_ends_is_asked_for_after_its_update(real, key, device_side, register, ask):
    def end_observation() -> None:
        (observation,) = device.observations.all()
        device.observations.end(observation.token)
        device._open_socket().notify(observation.token, Response("4.04"), 0, is_confirmable=False)

    def becomes(state: str) -> None:
        url = f"/v2/subscriptions/{mine}{TEMPERATURE}"
        until(lambda: real.call(key, "GET", url).headers.get("Mirror-Subscription") == state)

    device, mine = register()
    real.subscribe(key, mine)
    becomes("active")
    device_side.call(end_observation)
    becomes("refused")
    device_side.run(device.update())
    becomes("active")
    device.behavior.refusals[("GET", TEMPERATURE)] = "4.05"
    real.restart()
    becomes("refused")
    assert real.subscribed(key, mine) == []
    # What is asked next is behind whatever was asked before: the device that refused is asked once.
    assert ask(mine, "GET", LEVEL) == (200, None)
    assert [request.path for request in device.requests.copy()] == [TEMPERATURE] * 3 + [LEVEL]
    del device.behavior.refusals[("GET", TEMPERATURE)]
    device_side.run(device.update())
    becomes("active")


def test_a_restart_of_the_service_or_the_device_loses_nothing(real, key, device_side, register, ask):
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    resources = DeviceResource(TEMPERATURE, 21.5), DeviceResource("/3304/0/5700", 50.0, auto_observed_token=728)
    device, mine = register("sensor-1", *resources, version="1.1", queue_mode=False)
    location = device.registration_id
    hears(real, key, mine, "21.5")
    device_side.run(device.update(binding="UT"))
    real.restart()
    # At once, at the address it had; the value is the one of before, so nobody is told.
    until(lambda: sum(request.path == TEMPERATURE for request in device.requests.copy()) == 2)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    hears(real, key, mine, "21.5", "22.5")
    device_side.call(device.set_value, "/3304/0/5700", 51.0)
    until(lambda: reported(real, key, mine, "/3304/0/5700") == "51.0")
    device_side.run(device.update())
    assert device.registration_id == location
    found = connection(real, key)
    assert (found["lwm2m_version"], found["binding"]) == ("1.1", "UT")
    assert ask(mine, "GET", TEMPERATURE) == (200, None)
    # A device that registers anew is the same, and is observed again.
    device_side.run(device.restart())
    assert device.registration_id != location
    assert listed(real, key)["id"] == mine
    until(lambda: len(device.observations) == 1)
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    until(lambda: real.observed(key)[-1] == (mine, "23.5"))
    kinds = [kind for kind in real.kinds(key) if kind not in {"notifications", "async-responses"}]
    assert kinds == ["registrations", "reg-updates", "reg-updates", "registrations"]
