"""A new webhook starts after the entries that the application has read. Source: wire.md 4."""

import pytest
from waits import wait_until

CALLBACK = "/v2/notification/callback"
POLL = "/v2/notification/pull"


@pytest.fixture
def happen(server, key):
    """Register a device, which every application is notified of."""
    return lambda name: server.add_device(key, name)


def read(server, key, after):
    response = server.call(key, "GET", f"{POLL}?after={after}&hold=0")
    return names(response.json), int(response.headers["Mirror-Cursor"])


def names(message):
    return [entry["original-ep"] for entry in message["registrations"]]


def register(server, key, endpoint):
    assert server.call(key, "PUT", CALLBACK, json={"url": endpoint.url}).status_code == 204
    assert endpoint.next()[1] == {}


def delete(server, key):
    """Delete the webhook after its last delivery is stored."""
    wait_until(lambda: not server.channel(key)["backlog"], "all messages to be taken")
    assert server.call(key, "DELETE", CALLBACK).status_code == 204


def arrived(endpoint, last):
    """Return the names of the devices in its messages, up to this one."""
    found = []
    while last not in found:
        found += names(endpoint.next()[1])
    return found


def test_new_webhook_of_a_key_that_never_read_gets_all_stored_entries(server, key, other, endpoint, happen):
    happen("kept")
    # Reading of another application does not count.
    assert read(server, other, 0)[0] == ["kept"]
    register(server, key, endpoint)
    happen("new")
    assert arrived(endpoint, "new") == ["kept", "new"]


def test_new_webhook_starts_after_the_last_read_entry_even_after_a_restart(server, key, endpoint, happen):
    happen("read")
    cursor = read(server, key, 0)[1]
    happen("missed")
    server.restart()
    register(server, key, endpoint)
    happen("new")
    assert arrived(endpoint, "new") == ["missed", "new"]
    assert read(server, key, cursor)[0] == ["missed", "new"]


def test_reader_with_after_latest_counts_earlier_entries_as_read(server, key, endpoint, happen):
    happen("passed over")
    assert server.call(key, "GET", f"{POLL}?after=latest&hold=0").status_code == 204
    register(server, key, endpoint)
    happen("new")
    assert arrived(endpoint, "new") == ["new"]


def test_open_poll_counts_as_a_reader(server, key, endpoint, happen, open_poll):
    waiting = open_poll(key, "after=0&hold=20")
    happen("by a poll")
    assert names(waiting.result(60).json) == ["by a poll"]
    register(server, key, endpoint)
    happen("new")
    assert arrived(endpoint, "new") == ["new"]


def test_reading_at_position_zero_writes_nothing(server, key, happen):
    happen("old")
    version = server.services.database.version()
    read(server, key, 0)
    assert server.services.database.settle(60)
    assert server.services.database.version() == version


def test_replacing_webhook_continues_at_the_previous_position(server, key, endpoint, happen):
    register(server, key, endpoint)
    endpoint.statuses = [500]
    happen("waits")
    assert names(endpoint.next()[1]) == ["waits"]
    assert read(server, key, 0)[0] == ["waits"]
    register(server, key, endpoint)
    assert arrived(endpoint, "waits") == ["waits"]


def test_switching_between_polls_and_webhook_neither_loses_nor_repeats_entries(server, key, endpoint, happen):
    happen("polled")
    assert names(server.call(key, "GET", f"{POLL}?hold=0").json) == ["polled"]
    happen("left")
    assert server.call(key, "DELETE", POLL).status_code == 204
    register(server, key, endpoint)
    assert arrived(endpoint, "left") == ["left"]
    delete(server, key)
    happen("after")
    assert names(server.call(key, "GET", f"{POLL}?hold=0").json) == ["after"]
