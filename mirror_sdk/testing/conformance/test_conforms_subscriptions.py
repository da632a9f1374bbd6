"""Tests of presubscription rules (E3), single subscriptions, and the notifications of both.

Source: specification 3.2, 3.3, E3 and 6; wire.md 3.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mirror_sdk.testing.conformance.service import Service, decoded
from mirror_sdk.testing.conformance.simulated_devices import DOOR, SWITCH, TEMPERATURE, SimulatedDevices

RULES = "/v2/subscriptions"


@pytest.fixture(autouse=True)
def no_rules(service: Service) -> Iterator[None]:
    """Ensure that the key has no rules before and after the test."""
    service.call("DELETE", RULES)
    yield
    service.call("DELETE", RULES)


def values(service: Service, device_id: str, path: str) -> list[bytes]:
    """Return the values in the observation events of a resource so far."""
    service.poll_now()
    entries = service.received("notifications")
    return [decoded(entry["payload"]) for entry in entries if (entry["ep"], entry["path"]) == (device_id, path)]


def test_a_put_replaces_all_rules(service: Service) -> None:
    """The status is 202 (specification E3)."""
    first = [{"endpoint-type": "Light", "resource-path": ["/3311/*"]}, {"resource-path": ["/3303/0/5700"]}]
    second = [{"endpoint-name": "conformance-nobody"}]
    assert service.json("GET", RULES) == []
    for rules in [first, second, []]:
        assert service.call("PUT", RULES, json=rules).status_code == 202
        assert service.json("GET", RULES) == rules


def test_rules_are_deleted(service: Service) -> None:
    """The status is 204."""
    service.call("PUT", RULES, json=[{"endpoint-type": "Light"}])
    assert service.call("DELETE", RULES).status_code == 204
    assert service.json("GET", RULES) == []


def test_if_match_on_rules_needs_the_current_etag(service: Service) -> None:
    """The headers ``ETag``, ``If-None-Match`` and ``If-Match`` are an extension."""
    tag = service.call("GET", RULES).headers.get("ETag")
    if tag is None:
        pytest.skip("the server has no ETag on rules")
    same = service.call("GET", RULES, headers={"If-None-Match": tag})
    assert (same.status_code, same.content) == (304, b"")
    first = [{"endpoint-type": "Light"}]
    assert service.call("PUT", RULES, json=first, headers={"If-Match": tag}).status_code == 202
    service.rejected(412, "PUT", RULES, json=[], headers={"If-Match": tag})
    service.rejected(412, "DELETE", RULES, headers={"If-Match": tag})
    assert service.json("GET", RULES) == first


@pytest.mark.parametrize(
    "rules",
    [
        {},
        [1],
        [{"resource-path": "/3303/*"}],
        [{"resource-path": ["/33*/0"]}],
        [{"resource-path": ["3303/*"]}],
        [{"resource-path": ["/" + "3" * 128]}],
        [{"resource-path": ["/3303/*"] * 257}],
        [{"endpoint-type": "x" * 65}],
        [{"endpoint-name": "x" * 65}],
        [{"endpoint-type": "Light"}] * 1025,
    ],
)
def test_invalid_rules_are_rejected_and_change_nothing(service: Service, rules: Any) -> None:
    """``*`` is allowed only at the end, and there are limits (wire.md 3)."""
    rules_before = [{"endpoint-type": "Light"}]
    service.call("PUT", RULES, json=rules_before)
    service.rejected(400, "PUT", RULES, json=rules)
    assert service.json("GET", RULES) == rules_before


def test_a_single_subscription_is_put_listed_and_deleted(
    service: Service, device_id: str, observable_path: str
) -> None:
    """The statuses are 200, then 200 or 404, then 204. The list is ``text/uri-list``."""
    device, single = f"{RULES}/{device_id}", f"{RULES}/{device_id}{observable_path}"
    service.call("DELETE", device)
    service.rejected(404, "GET", single)
    service.rejected(404, "GET", device)
    assert service.call("PUT", single).status_code == 200
    assert service.call("GET", single).status_code == 200
    listed = service.call("GET", device)
    assert listed.headers["Content-Type"].startswith("text/uri-list")
    assert (listed.status_code, listed.text) == (200, observable_path)
    assert service.call("DELETE", single).status_code == 204
    service.rejected(404, "GET", single)


def test_all_subscriptions_of_a_device_are_deleted(service: Service, light: str) -> None:
    """The status is 204, and 404 for the second request."""
    for path in [SWITCH, TEMPERATURE]:
        service.call("PUT", f"{RULES}/{light}{path}")
    assert set(service.call("GET", f"{RULES}/{light}").text.split("\n")) == {SWITCH, TEMPERATURE}
    assert service.call("DELETE", f"{RULES}/{light}").status_code == 204
    service.rejected(404, "GET", f"{RULES}/{light}")
    assert service.resource(light, SWITCH)["subscribed"] is False


def test_a_rule_subscribes_a_device_that_registers(service: Service, simulator: SimulatedDevices) -> None:
    """Source: the subscribe flow of specification 3.3.

    The subscription state is true. The reported value and an observation event have the initial value.
    """
    kind = f"c-{uuid.uuid4().hex[:12]}"
    service.call("PUT", RULES, json=[{"endpoint-type": kind, "resource-path": ["/3303/*"]}])
    device_id = simulator.add(endpoint_type=kind)
    entry = service.wait_for("notifications", lambda entry: entry["ep"] == device_id)
    assert (entry["path"], decoded(entry["payload"])) == (TEMPERATURE, b"21.5")
    assert isinstance(entry["max-age"], int)
    resource = service.resource(device_id, TEMPERATURE)
    assert (resource["subscribed"], decoded(resource["reported"]["value"])) == (True, b"21.5")
    assert service.resource(device_id, SWITCH)["subscribed"] is False


def test_a_rule_is_checked_at_a_registration_update(service: Service, simulator: SimulatedDevices, light: str) -> None:
    """A rule is applied only when a device registers or updates its registration (specification 3.3)."""
    service.call("PUT", RULES, json=[{"endpoint-name": light, "resource-path": [SWITCH]}])
    assert service.resource(light, SWITCH)["subscribed"] is False
    simulator.update_registration(light)
    service.wait_for("notifications", lambda entry: (entry["ep"], entry["path"]) == (light, SWITCH))
    assert service.resource(light, SWITCH)["subscribed"] is True


def test_a_change_of_a_subscribed_resource_is_notified_and_stored(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """The reported value is updated, and the subscriber receives an observation event (specification 3.2)."""
    service.call("PUT", f"{RULES}/{light}{TEMPERATURE}")
    service.wait_for("notifications", lambda entry: entry["ep"] == light)
    simulator.set_value(light, TEMPERATURE, "23")
    assert values(service, light, TEMPERATURE) == [b"21.5", b"23"]
    assert decoded(service.resource(light, TEMPERATURE)["reported"]["value"]) == b"23"


def test_a_change_that_is_not_subscribed_is_neither_notified_nor_stored(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """The mirror does not pull values on its own (specification 1 and 3.3)."""
    simulator.set_value(light, TEMPERATURE, "23")
    assert values(service, light, TEMPERATURE) == []
    assert service.resource(light, TEMPERATURE)["reported"] == {}


def test_an_auto_observation_is_stored_and_notified_to_subscribers_only(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """Source: specification 3.2 and 6."""
    simulator.set_value(light, DOOR, "1")
    resource = service.resource(light, DOOR)
    assert (decoded(resource["reported"]["value"]), resource["subscribed"]) == (b"1", False)
    assert values(service, light, DOOR) == []


def test_single_subscriptions_end_at_a_full_registration(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """Source: wire.md 3."""
    service.call("PUT", f"{RULES}/{light}{TEMPERATURE}")
    simulator.register(light)
    service.rejected(404, "GET", f"{RULES}/{light}{TEMPERATURE}")
