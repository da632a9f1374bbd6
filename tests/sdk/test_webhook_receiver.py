"""A webhook instead of long polling: readers see no difference, no duplicates, and no calls of strangers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from resource_paths import SWITCH, TEMPERATURE
from thread_waits import until as wait_until

from mirror_sdk import (
    BadRequest,
    CallbackInbox,
    ChannelGone,
    ConfigError,
    EventKind,
    UnexpectedResponse,
    WebhookReceiver,
)
from mirror_sdk.errors import ConnectionFailed
from mirror_sdk.webhook import parse_callback
from mirror_sdk.webhook.callback_reader import CallbackReader
from mirror_sdk.webhook.inbox import TOKEN_HEADER
from mirror_sdk.webhook.registration import RegisteredWebhook
from mirror_sdk.wire.log_entries import Unreadable


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    with WebhookReceiver() as running:
        yield running


@pytest.fixture
def pushed(client, receiver):
    """A client with notifications by webhook."""
    client.notifications.use_webhook(receiver)
    return client


def message(*uids: str, key: str = "notifications") -> bytes:
    return json.dumps({key: [{"ep": "d", "path": TEMPERATURE, "payload": "", "uid": uid} for uid in uids]}).encode()


def reader_of(inbox: CallbackInbox) -> CallbackReader:
    """A reader for a service that has no log and cannot be reached."""

    def send(operation):
        raise ConnectionFailed("nobody responds")

    return CallbackReader(inbox, RegisteredWebhook("http://127.0.0.1:9", inbox.headers[TOKEN_HEADER], None), send)


# Instead of long polling


@pytest.mark.both_clients
def test_requests_get_their_responses_through_the_webhook(pushed, device_id, receiver):
    # A single waiter may get the response earlier, with its request.
    assert pushed.requests.begin_read(device_id, TEMPERATURE).result(60).python == 21.5
    assert pushed.requests.begin_write(device_id, SWITCH, True).exception(60) is None
    assert pushed.get_device(device_id)[SWITCH].desired.status.name == "SUCCESS"
    assert receiver.last >= 2
    assert receiver.rejected == 0
    with pytest.raises(ValueError, match="after="):
        list(pushed.events(after=0))
    pushed.notifications.use_long_polling()
    before = receiver.last
    assert pushed.read_value(device_id, TEMPERATURE) == 21.5
    assert receiver.last == before


def until(events, value):
    """Return the observations up to a value. A webhook may deliver earlier ones first."""
    for event in events:
        if event.kind is EventKind.OBSERVATION:
            yield event.device_id, event.path, event.value.python, event.changed_at
            if event.value.python == value:
                return


@pytest.mark.both_clients
def test_events_are_those_of_long_polling(pushed, new_client, simulator, device_id):
    polling = new_client()
    streams = [client.events(timeout=60) for client in (pushed, polling)]
    for client in (pushed, polling):
        client.subscribe(device_id, TEMPERATURE)
    for value in ("30", "31", "32"):
        simulator.set_value(device_id, TEMPERATURE, value)
    by_webhook, by_poll = (list(until(stream, 32.0)) for stream in streams)
    assert by_webhook == by_poll
    assert [value for _, _, value, _ in by_webhook] == [21.5, 30.0, 31.0, 32.0]


def test_an_address_is_required_and_must_respond(client):
    with pytest.raises(ValueError, match="url="):
        client.notifications.use_webhook(CallbackInbox())
    with pytest.raises(BadRequest, match="the test call of the URL failed"):
        client.notifications.use_webhook(CallbackInbox(), url="http://127.0.0.1:9/callback")


def test_a_custom_application_passes_on_received_messages(client, device_id):
    inbox = CallbackInbox()
    # Any HTTP server works: this one passes its calls on to the inbox.
    with WebhookReceiver() as own:
        own.receive = inbox.receive
        client.notifications.use_webhook(inbox, url=own.url)
        assert client.read_value(device_id, TEMPERATURE) == 21.5


# The receiver


def test_a_call_without_the_token_is_rejected_and_changes_nothing(receiver):
    for headers in ({}, {TOKEN_HEADER: "guessed"}, {TOKEN_HEADER: "é".encode()}):
        assert httpx.put(receiver.url, content=message("u"), headers=headers, trust_env=False).status_code == 403
    assert (receiver.last, receiver.rejected) == (0, 3)
    token = receiver.headers[TOKEN_HEADER]
    assert httpx.put(receiver.url, content=message("u"), headers={"X-MIRROR-TOKEN": token}, trust_env=False).is_success
    assert receiver.last == 1
    assert token not in repr(receiver)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_an_invalid_body_is_rejected(receiver, body):
    with pytest.raises(UnexpectedResponse):
        parse_callback(body)
    assert receiver.receive(body, receiver.headers) == 400
    assert receiver.last == 0


def test_other_methods_endless_bodies_and_a_port_in_use_are_rejected(receiver):
    assert httpx.get(receiver.url, trust_env=False).status_code == 501
    chunks = iter([b"{}"])
    assert httpx.put(receiver.url, headers=receiver.headers, content=chunks, trust_env=False).status_code == 411
    url = httpx.URL(receiver.url)
    with pytest.raises(ConfigError, match=str(url.port)):
        WebhookReceiver(port=url.port)
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        connection.sendall(b"PUT /callback HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")
        assert b" 413 " in connection.recv(1000)


def test_an_invalid_entry_does_not_affect_others():
    entries = parse_callback(b'{"notifications":[{"ep":1},{"ep":"d","path":"/1/0/0"}],"news":[1]}')
    assert [isinstance(entry.body, Unreadable) for entry in entries] == [True, False, True]
    assert parse_callback(b"{}") == ()


def test_each_reader_has_its_own_position_and_a_slow_one_gets_a_gap(monkeypatch):
    monkeypatch.setattr("mirror_sdk.webhook.inbox.MAX_ENTRIES", 3)
    inbox = CallbackInbox()
    slow, quick = reader_of(inbox), reader_of(inbox)
    inbox.receive(message("a", "b"), inbox.headers)
    assert len(quick.read(0).entries) == 2
    inbox.receive(message("c", "d", "e"), inbox.headers)
    assert [entry.body.uid for entry in quick.read(0).entries] == ["c", "d", "e"]
    batch = slow.read(0)
    assert [entry.body.uid for entry in batch.entries] == ["c", "d", "e"]
    assert (batch.gap.first_seq, batch.gap.last_seq, batch.seq) == (1, 2, 5)
    assert slow.read(0).entries == ()


def numbered(*numbers, **more):
    return json.dumps({"de-registrations": [{"ep": "d", "seq": seq, **more} for seq in numbers]}).encode()


def receive(inbox, *messages):
    for message in messages:
        inbox.receive(message, inbox.headers)


def read_all(reader):
    """Read all entries; a loss is a tuple of its first and last number."""
    found = []
    while (batch := reader.read(0)).seq is not None:
        found += [(batch.gap.first_seq, batch.gap.last_seq)] if batch.gap else []
        found += [entry.seq for entry in batch.entries]
    assert reader.position == found[-1]
    return found


def test_entries_dropped_from_the_log_before_delivery_are_a_loss():
    inbox = CallbackInbox()
    reader = reader_of(inbox)
    receive(inbox, b"{}", numbered(5, 6), numbered(9), numbered(10, 12))
    assert read_all(reader) == [5, 6, (7, 8), 9, 10, (11, 11), 12]
    assert read_all(reader.at(9)) == [10, (11, 11), 12]


def test_entries_read_by_others_before_a_new_registration_are_a_loss_for_earlier_readers_only():
    inbox = CallbackInbox()
    earlier = reader_of(inbox)
    receive(inbox, b"{}", numbered(5), b"{}")
    later = reader_of(inbox)
    receive(inbox, numbered(20, 22))
    assert read_all(earlier) == [5, (6, 19), 20, (21, 21), 22]
    assert read_all(later) == [20, (21, 21), 22]


# When the webhook changes hands


@pytest.fixture
def impatient(monkeypatch):
    """Let clients read the log after a short silence of their webhook."""
    monkeypatch.setattr("mirror_sdk.webhook.registration.SILENCE_SECONDS", 0.05)


def values_of(events, last):
    return [value for _, _, value, _ in until(events, last)]


@pytest.fixture
def subscribed_events(impatient, rivals, receiver, device_id):
    """The events of the first of two clients with one key, which received a value by its webhook."""
    rivals[0].notifications.use_webhook(receiver)
    events = rivals[0].events(timeout=60)
    rivals[0].subscribe(device_id, TEMPERATURE)
    assert values_of(events, 21.5) == [21.5]
    return events


def test_values_sent_to_another_webhook_are_there_once_a_client_is_back(
    rivals, subscribed_events, receiver, simulator, device_id
):
    with WebhookReceiver() as other:
        rivals[1].notifications.use_webhook(other)
        for value in ("30", "31"):
            simulator.set_value(device_id, TEMPERATURE, value)
        wait_until(lambda: other.last == receiver.last + 2)
        rivals[0].notifications.use_webhook(receiver)
    simulator.set_value(device_id, TEMPERATURE, "32")
    assert values_of(subscribed_events, 32.0) == [30.0, 31.0, 32.0]


@pytest.mark.both_clients
@pytest.mark.parametrize("by", ["webhook", "long polling"])
def test_a_client_whose_webhook_was_replaced_reads_the_log_and_reports_it(
    rivals, subscribed_events, simulator, device_id, by
):
    one, two = rivals
    assert not one.notifications.status().is_channel_replaced
    with WebhookReceiver() as other:
        if by == "webhook":
            two.notifications.use_webhook(other)
        else:
            two.notifications.use_long_polling()
        simulator.set_value(device_id, TEMPERATURE, "30")
        assert values_of(subscribed_events, 30.0) == [30.0]
        assert one.requests.begin_read(device_id, SWITCH).result(60).python is False
        assert one.notifications.status().is_channel_replaced
        assert "another program replaced the webhook" in repr(one.notifications.status())


def test_a_webhook_that_was_replaced_is_an_error_if_the_service_has_no_log(client_of, impatient):
    def respond(request):
        if request.method == "GET":
            return httpx.Response(404, json={"code": 404, "type": "not_found", "message": "no webhook"})
        if b"include_seq" in request.content:
            return httpx.Response(400, json={"code": 400, "type": "x", "message": "unknown include_seq"})
        return httpx.Response(204)

    client = client_of(transport=httpx.MockTransport(respond))
    client.notifications.use_webhook(CallbackInbox(), url="https://app.example.com/callback")
    with pytest.raises(ChannelGone, match="replaced by another program"):
        list(client.events(timeout=0))


def test_an_entry_that_comes_again_is_dropped_by_its_identity_or_else_by_its_number():
    """An entry has no identity if an earlier version of the service logged it, or if it cannot be read."""
    inbox = CallbackInbox()
    receive(inbox, numbered(5), numbered(5), numbered(6, uid="u"), numbered(6, uid="u"))
    assert read_all(reader_of(inbox).at(0)) == [5, 6]
    assert inbox.duplicates == 2
