"""What belongs to one application is neither seen nor touched by another. Source: wire.md 0."""

import pytest

from mirror_server.store import callbacks

RULES = [{"endpoint-type": "mine"}]
PATH = "/3303/0/5700"
POLL = "/v2/notification/pull"
CALLBACK = "/v2/notification/callback"
CHANNEL = "/v2/notification/channel"


@pytest.fixture
def owner(server):
    """An application with everything an application can have, and the device it uses."""
    key = server.key()
    server.device = server.add_device(key, "d")
    assert server.call(key, "PUT", "/v2/subscriptions", json=RULES).status_code == 202
    server.subscribe(key, server.device)
    server.set_value(key, server.device, "22.5")
    assert server.place(key, server.device, "mine", "GET", PATH).status_code == 202
    assert server.call(key, "GET", f"{POLL}?hold=0").status_code == 200
    return key


def belongings(server, owner):
    """All that the owner can see of its own, but for its log."""
    answers = [
        server.call(owner, "GET", path)
        for path in (
            "/v2/subscriptions",
            f"/v2/subscriptions/{server.device}",
            f"/v2/subscriptions/{server.device}{PATH}",
            CHANNEL,
            CALLBACK,
        )
    ]
    return [(answer.status_code, answer.get_data()) for answer in answers if answer.status_code != 404], server.log(
        owner
    )


NOT_SEEN = {
    "rules": ("/v2/subscriptions", 200, b"[]"),
    "subscriptions of a device": ("/v2/subscriptions/{device}", 404, None),
    "a subscription": ("/v2/subscriptions/{device}/3303/0/5700", 404, None),
    "channel": (CHANNEL, 404, None),
    "log by cursor": (f"{POLL}?after=0&hold=0", 204, b""),
    "log by a plain poll": (f"{POLL}?hold=0", 204, b""),
}


@pytest.mark.parametrize(("path", "code", "body"), NOT_SEEN.values(), ids=NOT_SEEN)
def test_another_application_does_not_see_it(server, owner, other, path, code, body):
    answer = server.call(other, "GET", path.format(device=server.device))
    assert answer.status_code == code
    assert body is None or answer.get_data() == body


NOT_TOUCHED = {
    "its own rules": ("PUT", "/v2/subscriptions", {"json": []}, 202),
    "no rules": ("DELETE", "/v2/subscriptions", {}, 204),
    "the same subscription": ("PUT", "/v2/subscriptions/{device}/3303/0/5700", {}, 200),
    "no subscription": ("DELETE", "/v2/subscriptions/{device}/3303/0/5700", {}, 204),
    "no subscriptions of the device": ("DELETE", "/v2/subscriptions/{device}", {}, 204),
    "no poll channel": ("DELETE", POLL, {}, 204),
    "its own position": ("GET", f"{POLL}?hold=0", {}, 204),
    "the same async-id": (
        "POST",
        "/v2/device-requests/{device}?async-id=mine",
        {"json": {"method": "GET", "uri": PATH}},
        202,
    ),
}


@pytest.mark.parametrize(("method", "path", "options", "code"), NOT_TOUCHED.values(), ids=NOT_TOUCHED)
def test_another_application_does_not_change_it(server, owner, other, method, path, options, code):
    before, log_before = belongings(server, owner), server.log(owner)
    answer = server.call(other, method, path.format(device=server.device), **options)
    assert answer.status_code == code, answer.get_data()
    assert belongings(server, owner) == before
    assert server.log(owner) == log_before


def test_an_async_response_goes_to_the_application_that_asked(server, owner, other):
    assert server.place(other, server.device, "mine", "GET", PATH).status_code == 202
    assert server.responses(other) == {"mine": (200, None)}
    assert len(server.responses(owner)) == 1


def test_a_webhook_of_another_application_is_neither_seen_nor_deleted(server, owner, other):
    app_id = owner.split("_")[1]
    server.services.database.write(lambda session: callbacks.put(session, app_id, '{"url":"http://x"}', at=0))
    assert server.call(other, "GET", CALLBACK).status_code == 404
    assert server.call(other, "DELETE", CALLBACK).status_code == 404
    assert server.call(owner, "GET", CALLBACK).json == {"url": "http://x"}
