"""Real devices and the complete server, from datagrams on a socket to the responses for applications."""

from __future__ import annotations

import base64
import time
from contextlib import closing
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import PUT, BareDevice, Devices
from devices_on_loopback import connection, find_device, registered, reported, until, wait_for_values
from resource_paths import LEVEL, SWITCH, TEMPERATURE

from mirror_server.config import ListenAddress
from mirror_server.extensions.lwm2m.backend import LwM2MBackend
from mirror_server.extensions.lwm2m.device.device import RegistrationRejected
from mirror_server.extensions.lwm2m.device.resources import DeviceResource
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.transport_api import Response
from mirror_server.hooks import installed, open_database
from mirror_server.store.session import MANUAL_CLOCK

TLV = 11542


def listed_paths(server: Any, key: str, device_id: str) -> list[str]:
    """Return the paths of the resources of a device."""
    resources = server.call(key, "GET", f"/v3/devices/{device_id}/echo").json["resources"]
    return sorted(each["resource_path"] for each in resources)


def test_device_registers_gets_all_operations_and_deregisters(real, key, device_side, register, command):
    device, device_id = register(endpoint_type="Thermometer")
    assert (find_device(real, key)["state"], find_device(real, key)["endpoint_type"]) == ("registered", "Thermometer")
    assert reported(real, key, device_id) is None
    assert command(device_id, "GET", TEMPERATURE) == (200, None)
    assert float(reported(real, key, device_id)) == 21.5
    assert command(device_id, "PUT", LEVEL, value="55") == (200, None)
    assert device.value(LEVEL) == 55
    assert command(device_id, "PUT", LEVEL, value="13") == (400, "BAD_VALUE")
    assert command(device_id, "POST", "/3/0/4") == (200, None)
    assert command(device_id, "PUT", f"{TEMPERATURE}?pmin=1&pmax=60") == (200, None)
    assert command(device_id, "PUT", TEMPERATURE, value="1") == (400, "METHOD_NOT_ALLOWED")
    # A shorter list of links removes resources from the device, but not from the mirror.
    device_side.call(device.remove, TEMPERATURE)
    device_side.run(device.update(with_links=True, lifetime_seconds=600, binding="UQ"))
    assert TEMPERATURE not in {each["uri"] for each in real.call(key, "GET", f"/v2/endpoints/{device_id}").json}
    assert float(reported(real, key, device_id)) == 21.5
    assert (connection(real, key)["lifetime_seconds"], find_device(real, key)["queue_mode"]) == (600, True)
    device_side.run(device.deregister())
    assert find_device(real, key)["state"] == "deregistered"
    assert "de-registrations" in real.kinds(key)


def test_subscription_starts_and_cancels_observation(real, key, device_side, register):
    device, device_id = register()
    real.subscribe(key, device_id)
    wait_for_values(real, key, device_id, "21.5")
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    wait_for_values(real, key, device_id, "21.5", "22.5")
    assert reported(real, key, device_id) == "22.5"
    real.subscribe(key, device_id, method="DELETE")
    until(lambda: len(device.observations) == 0)
    assert real.subscribed(key, device_id) == []


def test_resources_of_registered_instances_are_discovered_without_values(real, key, device_side, register, command):
    device, device_id = register(links=lambda _resources: "</3/0>,</3303/0>,</3311/0>")
    until(lambda: listed_paths(real, key, device_id) == ["/3/0/4", TEMPERATURE, SWITCH, LEVEL])
    assert real.resource(key, device_id)["reported"] == {}
    device_side.run(device.update(with_links=True))
    device_side.run(device.register())
    assert command(device_id, "GET", TEMPERATURE) == (200, None)
    discoveries = sorted(request.path for request in device.requests.copy() if request.accept == 40)
    assert discoveries == ["/3/0", "/3303/0", "/3311/0"]
    assert listed_paths(real, key, device_id) == ["/3/0/4", TEMPERATURE, SWITCH, LEVEL]


def test_auto_observed_value_is_notified_without_observe_request(real, key, device_side, register):
    other = real.key()
    device, device_id = register("sensor-1", DeviceResource(TEMPERATURE, 21.5, auto_observed_token=727))
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: reported(real, key, device_id) == "22.5")
    assert real.observed(key) == []
    assert real.resource(key, device_id)["reported"]["origin"] == "auto_observation"
    real.subscribe(key, device_id)
    wait_for_values(real, key, device_id, "22.5")
    assert real.subscribed(key, device_id) == [TEMPERATURE]
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    wait_for_values(real, key, device_id, "22.5", "23.5")
    assert (real.observed(other), list(device.requests)) == ([], [])
    # A resource that is no longer auto-observed gets an observe request.
    device_side.call(lambda: setattr(device.resource(TEMPERATURE), "auto_observed_token", None))
    device_side.run(device.update(with_links=True))
    until(lambda: len(device.observations) == 1)
    device_side.call(device.set_value, TEMPERATURE, 24.5)
    wait_for_values(real, key, device_id, "22.5", "23.5", "24.5")


def test_send_stores_values_of_registered_resources_only(real, key, device_side, register):
    device, device_id = register(version="1.1")
    assert device_side.run(device.send(TEMPERATURE, LEVEL)).code == "2.04"
    until(lambda: reported(real, key, device_id, LEVEL) == "40")
    assert float(reported(real, key, device_id)) == 21.5
    assert real.resource(key, device_id)["reported"]["origin"] == "auto_observation"
    device_side.call(device.add, DeviceResource("/3304/0/5700", 50.0))
    assert device_side.run(device.send("/3304/0/5700")).code == "4.04"
    assert device_side.run(device.send(TEMPERATURE, "/3304/0/5700")).code == "2.04"
    assert "/3304/0/5700" not in listed_paths(real, key, device_id)


def test_read_of_object_instance_updates_its_resources(real, key, register, command):
    _, device_id = register()
    assert command(device_id, "GET", "/3311/0") == (200, None)
    assert (reported(real, key, device_id, LEVEL), reported(real, key, device_id, SWITCH)) == ("40", "0")
    error_response = real.submit(key, device_id, "other", "GET", "/3312/0")
    assert (error_response.status_code, error_response.json["reason"]) == (400, "RESOURCE_NOT_FOUND")
    other = real.add_device(key, "other-1")
    assert real.submit(key, other, "read", "GET", "/3303/0").status_code == 400


def test_long_links_values_and_payloads_use_block_wise_transfer(real, key, device_side, register, command):
    text, image = "0123456789" * 300, bytes(range(256)) * 20
    links = [DeviceResource(f"/3303/{number}/5700", 1.0) for number in range(150)]
    long = DeviceResource("/3/0/0", text), DeviceResource("/5/0/0", b"", writable=True)
    device, device_id = register("sensor-1", *links, *long)
    assert len(listed_paths(real, key, device_id)) == 152
    real.subscribe(key, device_id, "/3/0/0")
    wait_for_values(real, key, device_id, text)
    device_side.call(device.set_value, "/3/0/0", text[1:])
    wait_for_values(real, key, device_id, text, text[1:])
    body = {"payload-b64": base64.b64encode(image).decode(), "content-type": "application/octet-stream"}
    assert command(device_id, "PUT", "/5/0/0", **body) == (200, None)
    assert device.value("/5/0/0") == image
    assert command(device_id, "GET", "/3/0/0") == (200, None)
    assert reported(real, key, device_id, "/3/0/0") == text[1:]


def test_integer_in_tlv_of_float_resource_does_not_replace_stored_text(real, key, register, command, monkeypatch):
    device, device_id = register()
    assert command(device_id, "GET", TEMPERATURE) == (200, None)
    # Arm's client library encodes the float 21.25 of an instance like this.
    monkeypatch.setattr(device, "_encode", lambda *_: bytes.fromhex("e41644 00000015"))
    before = real.call(key, "GET", f"/v3/devices/{device_id}/echo").json["resources"]
    assert command(device_id, "GET", "/3303/0") == (200, None)
    assert real.call(key, "GET", f"/v3/devices/{device_id}/echo").json["resources"] == before
    assert reported(real, key, device_id) == "21.5"


def test_real_device_cannot_register_name_of_simulated_device(real, key, device_side, register, command):
    other = real.add_device(key, "sensor-1")
    with pytest.raises(RegistrationRejected, match=r"4\.03 .*simulated"):
        register()
    assert (find_device(real, key)["id"], connection(real, key)["protocol"]) == (other, "memory")
    assert command(other, "GET", TEMPERATURE) == (200, None)
    _, device_id = register("sensor-2")
    assert connection(real, key, "sensor-2")["protocol"] == "coap"
    assert len(real.call(key, "GET", f"/v2/endpoints/{device_id}").json) == 4


def test_registration_expires_after_lifetime_on_domain_clock(real, key, device_side, register):
    device, device_id = register(lifetime_seconds=300)
    real.advance(key, 299)
    device_side.run(device.update())
    real.advance(key, 299)
    assert find_device(real, key)["state"] == "registered"
    real.advance(key, 2)
    assert find_device(real, key)["state"] == "deregistered"
    real.submit(key, device_id, "late", "GET", TEMPERATURE)
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
def test_settings_limit_registrations(new_server, device_side, setting, limit, reason):
    new_server(coap=ListenAddress("127.0.0.1", device_side.port), **{setting: limit})
    with pytest.raises(RegistrationRejected, match=reason):
        device_side.run(device_side.device().register())


def restart_later(server: Any, seconds: float) -> None:
    """Close the server, and open it again after some seconds of domain time."""
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
        (60, 30, 44, 120),  # time for all retransmissions of an update sent during the downtime
        (300, 200, 1000, 300),  # time for the next update of a device with a short lifetime
        (86_400, 86_300, 60, 600),
        (86_400, 82_800, 7200, 3600),  # the time that was left before
        (86_400, 82_800, 60, 3540),  # enough time is left
    ],
)
def test_registration_survives_service_downtime(real, key, device_side, register, lifetime, age, down, left):
    """All values are in seconds."""
    device, _ = register(lifetime_seconds=lifetime)
    location = device.registration_id
    real.advance(key, age)
    # The last write before the downtime.
    real.add_device(key, "other")
    restart_later(real, down)
    assert seconds_left(real, key) == left
    real.advance(key, left - 1)
    device_side.run(device.update())
    assert device.registration_id == location
    assert "registrations-expired" not in real.kinds(key)


@pytest.mark.parametrize("failing", ["connection", "disk"])
def test_registration_survives_database_outage(real, key, device_side, register, disk_of, failing):
    device, _ = register(lifetime_seconds=60)
    location = device.registration_id
    real.advance(key, 30)
    disk, services = disk_of(real), real.services
    # Either the connection to a shared database is lost, or the disk is full.
    disk.break_down() if failing == "disk" else services.pause_leading()
    # Each update now gets 5.03.
    services.clock.advance(1000 * 1000)
    disk.mend() if failing == "disk" else services.resume_leading()
    assert services.database.settle(60)
    assert seconds_left(real, key) == 120
    real.advance(key, 119)
    device_side.run(device.update())
    assert device.registration_id == location
    real.advance(key, 60)
    assert real.kinds(key).count("registrations-expired") == 1
    with pytest.raises(RegistrationRejected):
        device_side.run(device.update())


def test_registration_parameters_survive_restart(real, key):
    failing = (
        "location, peer, version, binding, queue_mode, lifetime_seconds, expires_at, last_seen_at, prefix, structured"
    )

    def stored_parameters() -> dict[str, Any]:
        fleet = until(lambda: real.services.part(LwM2MBackend)._lwm2m_server)
        device = fleet.registry.by_id(find_device(real, key, "bare")["id"])
        return {name: getattr(device, name) for name in (*failing.split(", "), "links_hash", "to_discover", "tokens")}

    links = '</lwm2m>;rt="oma.lwm2m";ct=112,</lwm2m/3303/0/5700>;aobs=727,</lwm2m/3/0>'
    with Devices() as devices:
        device = devices.add(BareDevice(real.settings.of(LwM2MSettings).coap.port, "bare", {}, links=links))
        device.silent = True
        registered(real, key, device, b="UQ", lt="300")
        before = stored_parameters()
        real.restart()
        assert stored_parameters() == before
        assert (before["prefix"], before["structured"], before["to_discover"]) == ("/lwm2m", (11542, 112), ("/3/0",))


def test_update_from_new_port_after_restart_moves_device(real, key, device_side, register):
    device, device_id = register()
    real.services.close()
    device_side.call(device.cut_off)
    real.open()
    real.submit(key, device_id, "read", "GET", TEMPERATURE)
    device_side.run(device.wake(from_new_port=True))
    assert until(lambda: real.responses(key).get("read")) == (200, None)
    assert connection(real, key)["address"] == f"127.0.0.1:{device.port}"


def test_commands_wait_for_sleeping_queue_mode_device(real, key, device_side, register):
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    device, device_id = register(queue_mode=True)
    assert find_device(real, key)["queue_mode"] is True
    wait_for_values(real, key, device_id, "21.5")
    real.advance(key, 94)
    device_side.call(device.sleep)
    requests = len(device.requests)
    real.submit(key, device_id, "waits", "PUT", LEVEL, value="70")
    assert connection(real, key)["reachable"] is False
    assert ("waits" in real.responses(key), len(device.requests)) == (False, requests)
    device_side.run(device.wake(from_new_port=True, registers=True))
    assert until(lambda: real.responses(key).get("waits")) == (200, None)
    assert device.value(LEVEL) == 70
    until(lambda: len(device.observations) == 1)


def test_awake_seconds_setting_limits_reachability_in_queue_mode(new_server, device_side):
    server = new_server(coap=ListenAddress("127.0.0.1", device_side.port), coap_awake_seconds=10)
    key = server.key()
    device_side.run(device_side.device(queue_mode=True).register())
    until(lambda: connection(server, key)["reachable"])
    server.advance(key, 10)
    assert not connection(server, key)["reachable"]


def test_expired_command_in_flight_does_not_block_the_next_one(real, key, monkeypatch):
    with Devices() as devices:
        device = devices.add(
            BareDevice(real.settings.of(LwM2MSettings).coap.port, "stubborn", {TEMPERATURE: "20", SWITCH: "0"})
        )
        respond = device.respond
        monkeypatch.setattr(device, "respond", lambda request: request.code == PUT or respond(request))
        device_id = registered(real, key, device)
        real.submit(key, device_id, "expires", "PUT", SWITCH, value="1", expiry_seconds=12)
        real.submit(key, device_id, "next", "GET", TEMPERATURE)
        until(lambda: device.requests)
        started_at = time.monotonic()
        real.advance(key, 12)
        assert until(lambda: real.responses(key).get("next")) == (200, None)
        assert real.responses(key)["expires"] == (504, "TIMEOUT")
        # Otherwise the write would be retransmitted for at least 30 s.
        assert time.monotonic() - started_at < 20


def test_command_waiting_for_discovery_expires_unsent(real, key):
    """A device does not respond to a Discover request, so nothing else is sent to it."""
    with Devices() as devices:
        values, links = {TEMPERATURE: "20", SWITCH: "0", "/3/0/4": ""}, "</3303/0>,</3/0/4>,</3311/0/5850>"
        device = devices.add(BareDevice(real.settings.of(LwM2MSettings).coap.port, "slow", values, links=links))
        device.silent = True
        device_id = registered(real, key, device)
        until(lambda: device.requests)
        real.submit(key, device_id, "write", "PUT", SWITCH, value="1", expiry_seconds=4)
        real.submit(key, device_id, "execute", "POST", "/3/0/4", expiry_seconds=5)
        real.submit(key, device_id, "later", "PUT", SWITCH, value="2", expiry_seconds=1000)
        real.advance(key, 5)
        until(lambda: len(real.responses(key)) == 2)
        assert real.responses(key) == {"write": (429, "REQUEST_EXPIRED"), "execute": (429, "REQUEST_EXPIRED")}
        assert {request.path for request in device.requests} == {"/3303/0"}
        # More than the time limit for a response.
        real.advance(key, 125)
        device.silent = False
        device.respond(device.requests[-1])
        assert until(lambda: real.responses(key).get("later")) == (200, None)
        assert device.values[SWITCH] == "2"


def test_write_of_object_instance_sets_desired_value_of_each_resource(real, key, register, command):
    def tlv(payload: str) -> dict[str, str]:
        content = base64.b64encode(bytes.fromhex(payload)).decode()
        return {"payload-b64": content, "content-type": "application/vnd.oma.lwm2m+tlv"}

    def desired() -> Any:
        return real.resource(key, device_id, LEVEL)["desired"]

    device, device_id = register()
    assert command(device_id, "PUT", "/3311/0", **tlv("e116da01e116db37")) == (200, None)
    assert (device.value(SWITCH), device.value(LEVEL)) == (True, 55)
    assert (base64.b64decode(desired()["value"]), desired()["status"]) == (b"55", 1)
    assert real.submit(key, device_id, "text", "PUT", "/3311/0", value="55").status_code == 400
    assert command(device_id, "PUT", "/3311/0", **tlv("e116da00e116db0d")) == (400, "BAD_VALUE")
    assert device.value(SWITCH) is True, "13 is not accepted, so that neither is written"
    assert (desired()["status"], desired()["category"]) == (2, "BAD_VALUE")
    body = {"method": "PUT", "uri": "/3311/0", **tlv("e116db0d")}
    if "requests" not in installed():
        return
    response = real.call(key, "POST", f"/v2/device-requests/{device_id}", {"If-Match": "*"}, json=body)
    assert (response.status_code, response.json["fields"][0]["name"]) == (400, "If-Match")
    assert "each of its resources" in response.json["message"]


def test_observe_requests_follow_order_of_rules_at_each_registration(real, key, device_side, register):
    def is_requested(times: int) -> None:
        until(lambda: [request.path for request in device.requests.copy()] == [LEVEL, TEMPERATURE, SWITCH] * times)

    rules = [{"resource-path": [path]} for path in (LEVEL, "/3303/*", "/3311/*")]
    real.put_rules(key, {"endpoint-name": "another", "resource-path": ["/3/*"]}, *rules)
    device, device_id = register()
    is_requested(times=1)
    device_side.run(device.restart())
    is_requested(times=2)
    until(lambda: len(real.subscribed(key, device_id)) == 3)
    real.restart()
    is_requested(times=3)


def test_observation_ended_by_device_is_requested_again_after_update(real, key, device_side, register, command):
    def end_observation() -> None:
        (observation,) = device.observations.all()
        device.observations.end(observation.token)
        device._open_socket().notify(observation.token, Response("4.04"), 0, is_confirmable=False)

    def becomes(state: str) -> None:
        url = f"/v2/subscriptions/{device_id}{TEMPERATURE}"
        until(lambda: real.call(key, "GET", url).headers.get("Mirror-Subscription") == state)

    device, device_id = register()
    real.subscribe(key, device_id)
    becomes("active")
    device_side.call(end_observation)
    becomes("refused")
    device_side.run(device.update())
    becomes("active")
    device.behavior.error_codes[("GET", TEMPERATURE)] = "4.05"
    real.restart()
    becomes("refused")
    assert real.subscribed(key, device_id) == []
    # Requests are sent in order, so there is only one observe request before this one.
    assert command(device_id, "GET", LEVEL) == (200, None)
    assert [request.path for request in device.requests.copy()] == [TEMPERATURE] * 3 + [LEVEL]
    del device.behavior.error_codes[("GET", TEMPERATURE)]
    device_side.run(device.update())
    becomes("active")


def test_restart_of_service_or_device_loses_no_values(real, key, device_side, register, command):
    real.put_rules(key, {"resource-path": ["/3303/*"]})
    resources = DeviceResource(TEMPERATURE, 21.5), DeviceResource("/3304/0/5700", 50.0, auto_observed_token=728)
    device, device_id = register("sensor-1", *resources, version="1.1", queue_mode=False)
    location = device.registration_id
    wait_for_values(real, key, device_id, "21.5")
    device_side.run(device.update(binding="UT"))
    real.restart()
    # At once, at its address. The value is unchanged, so there is no notification.
    until(lambda: sum(request.path == TEMPERATURE for request in device.requests.copy()) == 2)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    wait_for_values(real, key, device_id, "21.5", "22.5")
    device_side.call(device.set_value, "/3304/0/5700", 51.0)
    until(lambda: reported(real, key, device_id, "/3304/0/5700") == "51.0")
    device_side.run(device.update())
    assert device.registration_id == location
    found = connection(real, key)
    assert (found["lwm2m_version"], found["binding"]) == ("1.1", "UT")
    assert command(device_id, "GET", TEMPERATURE) == (200, None)
    # A device that registers again keeps its id, and is observed again.
    device_side.run(device.restart())
    assert device.registration_id != location
    assert find_device(real, key)["id"] == device_id
    until(lambda: len(device.observations) == 1)
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    until(lambda: real.observed(key)[-1] == (device_id, "23.5"))
    kinds = [kind for kind in real.kinds(key) if kind not in {"notifications", "async-responses"}]
    assert kinds == ["registrations", "reg-updates", "reg-updates", "registrations"]
