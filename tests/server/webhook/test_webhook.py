"""Webhooks over real sockets: registration, delivery, failures and retries. Source: wire.md 4."""

import base64
import ipaddress
import socket
import sqlite3
import ssl
import threading
import time
from typing import Any

import pytest
from waits import wait_until

from mirror_sdk.wire.channel import CallbackRegistration, Channel
from mirror_server.core.errors import ApiError
from mirror_server.notifications.webhook_limits import LOOPBACK, is_allowed_address

CALLBACK = "/v2/notification/callback"
PULL = "/v2/notification/pull"
CLOSED = "http://127.0.0.1:1/callback"
OF_THE_CONNECTION = ["Host", "CONNECTION", "Upgrade", "transfer-encoding", "Content-Length", "Transfer_Encoding"]
OF_THE_CONNECTION += [
    "content_length",
    "Keep-Alive",
    "TE",
    "Trailer",
    "Proxy-Connection",
    "Proxy-Authorization",
    "Expect",
]


def register(server: Any, key: str, endpoint: Any, **more: Any) -> Any:
    response = server.call(key, "PUT", CALLBACK, json={"url": endpoint.url, **more})
    assert response.status_code == 204, response.get_data()
    headers, body = endpoint.next()
    assert body == {}
    return headers


def subscribe(server: Any, key: str, endpoint: Any) -> str:
    """A device with changes that are delivered to the endpoint."""
    device_id: str = server.add_device(key, "sensor-1")
    assert list(endpoint.next()[1]) == ["registrations"]
    server.subscribe(key, device_id)
    assert values(endpoint.next()[1]) == ["21.5"]
    return device_id


def values(message: Any) -> list[str]:
    return [base64.b64decode(entry["payload"]).decode() for entry in message["notifications"]]


def wait_for_failures(server: Any, key: str, count: int) -> Any:
    wait_until(lambda: server.channel(key)["failures"] >= count, f"{count} failures")
    return server.channel(key)


def test_system_certificates_are_read_at_the_first_call_only(new_server, endpoint, monkeypatch):
    """Reading them takes longer than most of a server's start."""
    read, load = [], ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda: read.append(load()) or read[-1])
    server = new_server()
    key = server.key()
    assert read == []
    for _ in range(2):
        register(server, key, endpoint)
    assert len(read) == 1


def test_registration_tests_the_url_with_its_headers_and_get_returns_it(server, key, endpoint):
    register(server, key, endpoint, headers={"content-type": "application/json; charset=utf-8"})
    headers = register(server, key, endpoint, headers={"X-Token": "abc"})
    assert headers["X-Token"] == "abc"
    assert endpoint.content_types == [["application/json; charset=utf-8"], ["application/json"]]
    returned = server.call(key, "GET", CALLBACK).json
    assert returned == {"url": endpoint.url, "headers": {"X-Token": "abc"}}


def test_failed_test_call_is_400_without_details_of_the_target(server, key, endpoint, monkeypatch, caplog):
    resolve(monkeypatch, ["10.0.0.1"])
    messages = set()
    for url, status, reason in [
        (CLOSED, 0, "no response: ConnectError"),
        (endpoint.url, 201, "status 201"),
        (endpoint.url, 500, "status 500"),
        (endpoint.url, 302, "status 302"),
        ("http://169.254.169.254/", 0, "is not allowed to call 169.254.169.254"),
        ("http://app.test/", 0, "is not allowed to call 10.0.0.1"),
        ("http://nobody.invalid/", 0, "no response"),
    ]:
        endpoint.statuses = [status]
        caplog.clear()
        response = server.call(key, "PUT", CALLBACK, json={"url": url})
        assert (response.status_code, response.json["fields"][0]["name"]) == (400, "url")
        messages.add(response.json["message"])
        assert any(reason in getattr(record, "reason", "") for record in caplog.records)
    assert len(messages) == 1
    assert server.call(key, "GET", CALLBACK).status_code == 404
    assert endpoint.calls.qsize() == 3, "a redirect must not be followed"


def test_failed_delivery_does_not_expose_the_target(server, key, endpoint, monkeypatch, caplog):
    resolve(monkeypatch, ["127.0.0.1"], ["127.0.0.1"], ["169.254.169.254"], ["127.0.0.2"])
    endpoint.keeps_open = False
    assert server.call(key, "PUT", CALLBACK, json={"url": named(endpoint)}).status_code == 204
    endpoint.statuses = [500]
    server.add_device(key, "sensor-1")
    messages = set()
    for failures, reason in enumerate(
        ["status 500", "is not allowed to call 169.254.169.254", "no response: ConnectError"], 1
    ):
        messages.add(wait_for_failures(server, key, failures)["last_error"])
        assert any(reason in getattr(record, "reason", "") for record in caplog.records)
        server.advance(key, 2 ** (failures - 1))
    assert len(messages) == 1


def test_duration_of_a_failure_does_not_expose_the_target(server, key, endpoint, monkeypatch):
    monkeypatch.setattr("mirror_server.notifications.webhooks._FAILED_CALL_SECONDS", 0.1)
    endpoint.statuses = [500]
    for url in (CLOSED, endpoint.url, "http://169.254.169.254/"):
        began = time.monotonic()
        assert server.call(key, "PUT", CALLBACK, json={"url": url}).status_code == 400
        assert time.monotonic() - began >= 0.1


def test_messages_arrive_in_order_with_the_requested_serialization(server, key, endpoint):
    names = ("include_uid", "include_original_ep", "deregistrations_as_object")
    cfg = {"include_timestamp": "true"} | dict.fromkeys(names, True)
    register(server, key, endpoint, serialization={"type": "v2", "max_chunk_size": "1", "cfg": cfg})
    device_id = subscribe(server, key, endpoint)
    endpoint.release.clear()
    for value in ["22", "23", "24"]:
        server.set_value(key, device_id, value)
    endpoint.release.set()
    server.registration(key, device_id, "DELETE")
    *messages, last = [endpoint.next()[1] for _ in range(4)]
    assert [values(message) for message in messages] == [["22"], ["23"], ["24"]]
    entry = messages[0]["notifications"][0]
    assert (entry["timestamp"], entry["original-ep"]) == (server.now, "sensor-1")
    assert entry["uid"]
    assert last["de-registrations"][0]["ep"] == device_id


def test_failed_delivery_is_retried_with_backoff_across_a_restart(server, key, endpoint):
    register(server, key, endpoint)
    # Time without messages does not count as time without success.
    server.advance(key, 72 * 3600)
    device_id = subscribe(server, key, endpoint)
    endpoint.statuses = [500, 500, 500]
    server.set_value(key, device_id, "22")
    for failures, delay_seconds in [(1, 1), (2, 2), (3, 4)]:
        assert values(endpoint.next()[1]) == ["22"]
        channel = wait_for_failures(server, key, failures)
        Channel.model_validate(channel, extra="forbid")
        assert channel["backlog"] == 1
        assert "the URL did not respond with 200 or 204" in channel["last_error"]
        server.restart()
        assert server.channel(key)["failures"] == failures
        server.advance(key, delay_seconds - 0.001)
        assert endpoint.calls.empty()
        server.advance(key, 0.001)
    assert values(endpoint.next()[1]) == ["22"]
    wait_until(lambda: server.channel(key)["failures"] == 0, "no failures after a success")


def test_deleted_webhook_is_not_retried(server, key, endpoint):
    register(server, key, endpoint)
    endpoint.statuses = [500]
    server.add_device(key, "sensor-1")
    assert list(endpoint.next()[1]) == ["registrations"]
    wait_for_failures(server, key, 1)
    assert server.call(key, "DELETE", CALLBACK).status_code == 204
    server.advance(key, 1)
    # The next call is the test call of another webhook.
    register(server, server.key(), endpoint)


def test_delivery_continues_after_a_failed_delete(server, key, endpoint, disk):
    register(server, key, endpoint)
    disk.break_down()
    assert server.call(key, "DELETE", CALLBACK, settled=False).status_code == 503
    disk.mend()
    server.add_device(key, "sensor-1")
    assert list(endpoint.next()[1]) == ["registrations"]


def test_failure_of_a_replaced_webhook_does_not_count_for_the_new_one(server, key, endpoint):
    register(server, key, endpoint)
    app_id, webhooks = key.split("_")[1], server.services.webhooks
    replaced = webhooks.registration(app_id)
    register(server, key, endpoint, headers={"X-Token": "new"})
    # The call failed before the webhook was replaced, and its failure is stored afterwards.
    server.services.database.write(lambda session: webhooks._record_failure(session, app_id, replaced))
    assert server.channel(key)["failures"] == 0


def test_after_24_hours_of_failures_the_channel_is_removed(server, key, endpoint):
    register(server, key, endpoint)
    endpoint.statuses = [500] * 10_000
    server.add_device(key, "sensor-1")
    endpoint.next()
    wait_for_failures(server, key, 1)
    server.advance(key, 24 * 3600 - 1)
    assert server.call(key, "GET", CALLBACK).status_code == 200
    wait_until(lambda: server.advance(key, 120) or not server.channel(key).get("failures"), "the channel to be removed")
    assert server.call(key, "GET", CALLBACK).status_code == 404


def test_delivery_continues_after_an_internal_error(server, key, endpoint, monkeypatch, caplog):
    monkeypatch.setattr("mirror_server.notifications.webhooks._PAUSE_SECONDS", 0)
    register(server, key, endpoint)
    failures = [sqlite3.OperationalError("disk I/O error")]
    read = server.services.log.read

    def fail_once(*position, **most):
        if failures:
            raise failures.pop()
        return read(*position, **most)

    monkeypatch.setattr(server.services.log, "read", fail_once)
    server.add_device(key, "sensor-1")
    assert list(endpoint.next()[1]) == ["registrations"]
    assert "delivery to a webhook failed" in caplog.text


def test_endless_response_is_not_read_completely(server, key, endpoint):
    endpoint.endless = True
    register(server, key, endpoint)
    assert server.channel(key)["failures"] == 0


def test_slow_webhook_does_not_delay_others(server, key, endpoint):
    register(server, key, endpoint)
    other_key = server.key()
    fast = type(endpoint)()
    try:
        register(server, other_key, fast)
        endpoint.release.clear()
        server.add_device(key, "sensor-1")
        assert list(fast.next()[1]) == ["registrations"]
        assert endpoint.calls.empty()
    finally:
        endpoint.release.set()
        fast.close()


def check_one_type_of_channel(server, key, endpoint, channels):
    """A key with one of these channels, by path and mechanism, cannot open another type."""

    def use(path):
        if path == PULL:
            return server.call(key, "GET", f"{PULL}?hold=0")
        return server.call(key, "PUT", path, json={"url": endpoint.url} if path == CALLBACK else {})

    for path, mechanism in channels.items():
        assert use(path).status_code in {201, 204}
        assert server.services.database.settle(60)
        assert server.channel(key)["delivery_mechanism"] == mechanism
        for other in set(channels) - {path}:
            error = use(other)
            assert (error.status_code, error.json["reason"]) == (400, "OTHER_CHANNEL"), (path, other)
            assert f"DELETE {path}" in error.json["message"]
        # A reader with its own position has no channel.
        assert server.call(key, "GET", f"{PULL}?after=latest&hold=0").status_code == 204
        assert server.call(key, "DELETE", path).status_code == 204


def test_key_has_one_type_of_channel(server, key, endpoint):
    check_one_type_of_channel(server, key, endpoint, {PULL: "LONG_POLLING", CALLBACK: "CALLBACK"})


def check_no_webhook_next_to(server, key, endpoint, path):
    """Check that a webhook is rejected if the channel of this path was opened during its test call."""
    stored = server.services.webhooks.register(key.split("_")[1], CallbackRegistration(url=endpoint.url))
    with pytest.raises(ApiError, match=f"DELETE {path}"):
        stored.result(60)


def test_webhook_is_rejected_if_a_poll_started_during_its_test_call(server, key, endpoint):
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204
    check_no_webhook_next_to(server, key, endpoint, PULL)


def test_invalid_registration_is_400_by_field(server, key):
    cases = [
        ({"url": "http://a:0/"}, "url"),
        ({"url": f"http://{'a' * 64}.example.com/"}, "url"),
        ({"url": "http://a/", "headers": {"a b": "c"}}, "headers"),
        ({"url": "http://a/", "headers": {"a": "c\r\nd: e"}}, "headers"),
        ({"url": "http://a/", "headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        *[({"url": "http://a/", "headers": {name: "x"}}, "headers") for name in OF_THE_CONNECTION],
        ({"url": "http://a/" + "x" * 380, "headers": {"a": "x" * 20}}, "body"),
    ]
    for body, field in cases:
        response = server.call(key, "PUT", CALLBACK, json=body)
        assert response.status_code == 400
        assert [entry["name"] for entry in response.json["fields"]] == [field]


def test_loopback_is_called_only_if_the_operator_allows_it(new_server, endpoint):
    careful = new_server(callback_networks=())
    url = endpoint.url.replace("127.0.0.1", "localhost")
    assert careful.call(careful.key(), "PUT", CALLBACK, json={"url": url}).status_code == 400
    assert endpoint.calls.empty()


def resolve(monkeypatch, *addresses):
    """Resolve the name app.test to these addresses; several lists are used one after the other."""
    getaddrinfo = socket.getaddrinfo
    responses = list(addresses)

    def find(host, port, *more, **options):
        if host not in {"app.test", b"app.test"}:
            return getaddrinfo(host, port, *more, **options)
        found = responses.pop(0) if len(responses) > 1 else responses[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", find)


def named(endpoint):
    return endpoint.url.replace("127.0.0.1", "app.test")


def test_all_addresses_of_a_name_are_tried_unless_one_is_forbidden(server, key, endpoint, monkeypatch):
    resolve(monkeypatch, ["127.0.0.1", "10.0.0.1"], ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    assert server.call(key, "PUT", CALLBACK, json={"url": named(endpoint)}).status_code == 400
    assert endpoint.calls.empty()
    assert server.call(key, "PUT", CALLBACK, json={"url": named(endpoint)}).status_code == 204


def test_slow_name_resolution_does_not_delay_others(server, key, endpoint, monkeypatch):
    getaddrinfo, go_on = socket.getaddrinfo, threading.Event()

    def find(host, *more, **options):
        if str(host).startswith("slow"):
            go_on.wait(60)
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return getaddrinfo(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    registrations = [CallbackRegistration(url=f"http://slow-{number}.test/") for number in range(50)]
    slow = [server.services.webhooks.register("nobody", registration) for registration in registrations]
    url = endpoint.url.replace("127.0.0.1", "localhost")
    assert server.call(key, "PUT", CALLBACK, json={"url": url}).status_code == 204
    assert not any(future.done() for future in slow)
    go_on.set()
    assert all(future.exception(60) for future in slow)


PUBLIC = ["93.184.216.34", "2606:2800:220:1::1", "3000::1", "2002:5db8:d822::1", "64:ff9b::5db8:d822"]
OF_THE_OPERATOR = ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"]
OF_THIS_MACHINE = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]
PRIVATE = ["192.168.1.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "100.64.0.1", "192.0.2.1", "255.255.255.255"]
# With an embedded address, or in an unused range.
PRIVATE += ["::7f00:1", "64:ff9b::7f00:1", "64:ff9b::c0a8:101", "64:ff9b:1::5db8:d822", "2002:7f00:1::", "::"]
PRIVATE += ["2002:c0a8:101::1", "::ffff:0:7f00:1", "::ffff:0:0:7f00:1", "2001::7f00:1", "2001:db8::1", "100::1"]
PRIVATE += ["1::1", "5f00::1", "3fff::1", "3fff:fff:ffff::1", "4000::1", "fd00::1", "ff0e::1", "fe80::1"]
PRIVATE += ["fe80::1%2", "fec0::1"]


def test_public_addresses_and_the_operators_networks_are_allowed():
    networks = [ipaddress.ip_network("10.0.0.0/8")]
    allowed = [*PUBLIC, *OF_THE_OPERATOR]
    assert [
        address for address in (*allowed, *PRIVATE, *OF_THIS_MACHINE) if is_allowed_address(address, networks)
    ] == allowed
    assert all(is_allowed_address(address, LOOPBACK) for address in OF_THIS_MACHINE)
    assert not is_allowed_address("10.0.0.1", LOOPBACK)
