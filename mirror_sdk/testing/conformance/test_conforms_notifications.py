"""Tests of the notification channel and its messages (E4, E5).

Source: specification 2.3, E4, E5, 6; wire.md 4 and 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirror_sdk.testing.conformance.service import Service, decoded
from mirror_sdk.testing.conformance.simulated_devices import TEMPERATURE, SimulatedDevices
from mirror_sdk.webhook import WebhookReceiver
from mirror_sdk.wire.notifications import NotificationMessage
from mirror_sdk.wire.routes import CALLBACK, CHANNEL, CURSOR_HEADER, PULL

UNREACHABLE_URL = "http://127.0.0.1:9/callback"


@pytest.fixture
def no_channel(service: Service) -> Iterator[None]:
    """Remove the channel of the key, and restore its poll channel after the test."""
    service.poll_now()
    service.call("DELETE", PULL)
    yield
    service.call("DELETE", CALLBACK)
    service.poll_now()


def test_the_channel_has_its_delivery_mechanism(service: Service) -> None:
    """In this test, the mechanism is long polling."""
    service.poll_now()
    assert service.json("GET", CHANNEL)["delivery_mechanism"] == "LONG_POLLING"


@pytest.mark.usefixtures("no_channel")
def test_a_missing_channel_is_not_found(service: Service) -> None:
    """The status is 404. Deleting a poll channel that does not exist succeeds."""
    service.rejected(404, "GET", CHANNEL)
    service.rejected(404, "GET", CALLBACK)
    service.rejected(404, "DELETE", CALLBACK)
    assert service.call("DELETE", PULL).is_success


def test_registrations_are_reported_to_every_application(
    service: Service, simulator: SimulatedDevices, light: str
) -> None:
    """Source: wire.md 5."""
    entry = service.wait_for("registrations", lambda entry: entry["ep"] == light)
    assert (entry["ept"], entry["q"]) == ("Conformance", False)
    by_path = {resource["path"]: resource for resource in entry["resources"]}
    assert by_path[TEMPERATURE]["obs"] is True
    simulator.update_registration(light)
    service.wait_for("reg-updates", lambda entry: entry["ep"] == light)
    simulator.deregister(light)
    service.wait_for("de-registrations", lambda entry: entry == light)


def test_a_plain_poll_returns_each_entry_once(service: Service, light: str) -> None:
    """The server stores the position of this key."""
    async_id = service.perform(light, "GET", TEMPERATURE)["id"]
    service.poll_now()
    assert [entry["id"] for entry in service.received("async-responses")].count(async_id) == 1


# The log, an extension


def test_a_reader_with_a_position_removes_nothing(log: Service, light: str) -> None:
    """Readers with separate positions do not affect each other (wire.md 4)."""
    before = log.log_end()
    log.perform(light, "GET", TEMPERATURE)
    first, again = log.read_log(before), log.read_log(before)
    assert (first.status_code, first.json()) == (200, again.json())
    assert first.headers[CURSOR_HEADER] == again.headers[CURSOR_HEADER]


def test_the_entries_are_numbered_without_a_gap(log: Service, light: str) -> None:
    """The cursor is the number of the last entry in the response."""
    before = log.log_end()
    async_ids = [log.perform(light, "GET", TEMPERATURE)["id"] for _ in range(3)]
    entries = list(log.log_entries(before))
    assert [entry["id"] for kind, entry in entries if kind == "async-responses"] == async_ids
    assert log.log_end() == before + len(entries)


def test_entries_have_an_identity_and_a_time(log: Service, simulator: SimulatedDevices, light: str) -> None:
    """A poll with ``after`` returns ``uid`` and ``timestamp`` in integer milliseconds."""
    before = log.log_end()
    log.call("PUT", f"/v2/subscriptions/{light}{TEMPERATURE}")
    log.wait_for("notifications", lambda entry: entry["ep"] == light)
    simulator.set_value(light, TEMPERATURE, "25")
    log.poll_now()
    entries = list(log.log_entries(before))
    for kind, entry in entries:
        NotificationMessage.model_validate({kind: [entry]})
        assert type(entry["timestamp"]) is int
    assert len({entry["uid"] for _, entry in entries}) == len(entries)
    assert [decoded(entry["payload"]) for kind, entry in entries if kind == "notifications"] == [b"21.5", b"25"]


def test_a_poll_at_the_end_of_the_log_is_empty(log: Service) -> None:
    """The status is 204, and the response has the current position."""
    end = log.log_end()
    response = log.read_log(end)
    assert (response.status_code, response.content, response.headers[CURSOR_HEADER]) == (204, b"", str(end))


@pytest.mark.parametrize("query", ["after=x", "after=-1", "after=", "hold=56", "hold=-1", "hold=1.5", "after=0&hold=x"])
def test_an_invalid_position_or_hold_is_rejected(log: Service, query: str) -> None:
    """The status is 400."""
    log.rejected(400, "GET", f"{PULL}?{query}")


# The webhook


@pytest.mark.usefixtures("no_channel")
@pytest.mark.parametrize(
    "registration",
    [
        {},
        {"url": "ftp://127.0.0.1/callback"},
        {"url": "callback"},
        {"url": f"http://127.0.0.1/{'x' * 400}"},
        {"url": UNREACHABLE_URL},
        {"url": UNREACHABLE_URL, "serialization": {"type": "v1"}},
        {"url": UNREACHABLE_URL, "serialization": {"type": "v2", "max_chunk_size": 0}},
        {"url": UNREACHABLE_URL, "color": "red"},
    ],
)
def test_an_invalid_webhook_is_rejected(service: Service, registration: Any) -> None:
    """The status is 400, also if the URL does not respond. No webhook is registered."""
    service.rejected(400, "PUT", CALLBACK, json=registration)
    service.rejected(404, "GET", CALLBACK)


def test_a_webhook_and_a_poll_channel_exclude_each_other(loopback: Service) -> None:
    """The status is 400, because a channel of another type exists."""
    loopback.poll_now()
    with WebhookReceiver() as receiver:
        body = {"url": receiver.url, "headers": dict(receiver.headers)}
        loopback.rejected(400, "PUT", CALLBACK, json=body)


@pytest.mark.usefixtures("no_channel")
def test_a_webhook_receives_notifications(loopback: Service, simulator: SimulatedDevices, light: str) -> None:
    """The notifications have the requested serialization and the time of the change (E5)."""
    with WebhookReceiver() as receiver:
        registration = {
            "url": receiver.url,
            "headers": dict(receiver.headers),
            "serialization": {"type": "v2", "cfg": {"include_timestamp": True, "include_uid": True}},
        }
        assert loopback.call("PUT", CALLBACK, json=registration).is_success
        registered = loopback.json("GET", CALLBACK)
        assert (registered["url"], registered["serialization"]["type"]) == (receiver.url, "v2")
        assert loopback.json("GET", CHANNEL)["delivery_mechanism"] == "CALLBACK"
        loopback.rejected(400, "GET", PULL)
        after = receiver.last
        loopback.call("PUT", f"/v2/subscriptions/{light}{TEMPERATURE}")
        simulator.set_value(light, TEMPERATURE, "26")
        observed = _observations(receiver, after, light, b"26")
        assert observed[-1].timestamp
        assert loopback.call("DELETE", CALLBACK).status_code == 204


def _observations(receiver: WebhookReceiver, after: int, device_id: str, last: bytes) -> list[Any]:
    """Return the delivered observations of a device, up to the observation with the value ``last``."""
    found: list[Any] = []
    while not found or found[-1].payload != last:
        batch = receiver.wait(after, 20)
        assert batch.entries, f"the webhook was not called; before, it received {found}"
        after = batch.seq or after
        found += [entry.body for entry in batch.entries if getattr(entry.body, "ep", None) == device_id]
        found = [body for body in found if hasattr(body, "payload")]
    return found
