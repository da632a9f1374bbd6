"""An application can neither read nor change the data of another one. Source: wire.md 0."""

import pytest

from mirror_server.store import logs

RULES = [{"endpoint-type": "mine"}]
PATH = "/3303/0/5700"
POLL = "/v2/notification/pull"
CALLBACK = "/v2/notification/callback"
CHANNEL = "/v2/notification/channel"


@pytest.fixture
def owner(server):
    """An application with all kinds of data, and its device."""
    key = server.key()
    server.device = server.add_device(key, "d")
    assert server.call(key, "PUT", "/v2/subscriptions", json=RULES).status_code == 202
    server.subscribe(key, server.device)
    server.set_value(key, server.device, "22.5")
    assert server.submit(key, server.device, "mine", "GET", PATH).status_code == 202
    assert server.call(key, "GET", f"{POLL}?hold=0").status_code == 200
    return key


def belongings(server, owner):
    """Return all data of the owner."""
    subscriptions = "/v2/subscriptions"
    paths = [subscriptions, f"{subscriptions}/{server.device}", f"{subscriptions}/{server.device}{PATH}", CHANNEL]
    responses = [server.call(owner, "GET", path) for path in paths]
    return [(response.status_code, response.get_data()) for response in responses], server.log(owner)


READS = [
    ("/v2/subscriptions", 200, b"[]"),
    ("/v2/subscriptions/{device}", 404, None),
    ("/v2/subscriptions/{device}/3303/0/5700", 404, None),
    (CHANNEL, 404, None),
    (CALLBACK, 404, None),
    (f"{POLL}?after=0&hold=0", 204, b""),
    (f"{POLL}?hold=0", 204, b""),
]


def test_data_of_another_application_cannot_be_read(server, owner, other):
    app_id = owner.split("_")[1]
    server.services.database.write(lambda session: logs.put_webhook(session, app_id, '{"url":"http://x"}', at=0))
    for path, code, body in READS:
        response = server.call(other, "GET", path.format(device=server.device))
        assert response.status_code == code, path
        assert body is None or response.get_data() == body
    assert server.call(other, "DELETE", CALLBACK).status_code == 404
    assert server.call(owner, "GET", CALLBACK).json == {"url": "http://x"}


CHANGES = [
    ("GET", f"{POLL}?hold=0", {}, 204),
    ("PUT", "/v2/subscriptions", {"json": []}, 202),
    ("DELETE", "/v2/subscriptions", {}, 204),
    ("PUT", "/v2/subscriptions/{device}/3303/0/5700", {}, 200),
    ("DELETE", "/v2/subscriptions/{device}/3303/0/5700", {}, 204),
    ("DELETE", "/v2/subscriptions/{device}", {}, 204),
    ("DELETE", POLL, {}, 204),
    ("POST", "/v2/device-requests/{device}?async-id=mine", {"json": {"method": "GET", "uri": PATH}}, 202),
]


def test_data_of_another_application_cannot_be_changed(server, owner, other):
    before = belongings(server, owner)
    for method, path, options, code in CHANGES:
        response = server.call(other, method, path.format(device=server.device), **options)
        assert response.status_code == code, response.get_data()
        assert belongings(server, owner) == before, (method, path)
    assert server.responses(other) == {"mine": (200, None)}
    assert len(server.responses(owner)) == 1
