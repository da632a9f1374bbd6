"""Real devices through the whole server: from datagrams on a socket to what an application is told."""

from __future__ import annotations

import base64
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from devices_on_loopback import DeviceSide, until

TEMPERATURE = "/3303/0/5700"


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
