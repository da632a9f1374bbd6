"""From when, for how long and how much notifications are kept; a loss is told. Source: wire.md 4."""

import pytest

from mirror_server import keys
from mirror_server.keys import Scope

PULL = "/v2/notification/pull"
TEMPERATURE = "/3303/0/5700"
DAY = 24 * 3600


def position(server, key, after=0):
    """Cursor, gap and number of entries of the message behind a position."""
    answer = server.call(key, "GET", PULL, query_string={"after": after, "hold": 0})
    count = sum(map(len, answer.json.values())) if answer.status_code == 200 else 0
    return int(answer.headers["Mirror-Cursor"]), answer.headers.get("Mirror-Gap"), count


@pytest.mark.parametrize("path", ["/v3/devices", "/v2/subscriptions", "/v3/devices/nobody", "/v9/unknown"])
def test_notifications_are_kept_from_the_first_request_of_a_key_on(server, key, path):
    new = keys.create(server.services.database, "new", tuple(Scope), server.now)
    server.add_device(key, "too-early")
    server.call(new, "GET", path)
    device = server.add_device(key, "in-time")
    assert [entry["ep"] for _, entry in server.log(new)] == [device]


def test_the_answer_to_the_very_first_request_is_kept(server, key):
    device = server.add_device(key, "sensor-1")
    new = keys.create(server.services.database, "new", tuple(Scope), server.now)
    server.place(new, device, "first", "GET", TEMPERATURE)
    body = server.call(new, "GET", f"{PULL}?hold=0").json
    assert [entry["id"] for entry in body["async-responses"]] == ["first"]


def test_entries_are_numbered_without_gaps(server, key):
    device = server.add_device(key, "sensor-1")
    for number in range(30):
        server.place(key, device, f"r{number}", "GET", TEMPERATURE)
    after, cursors = 0, []
    while (page := position(server, key, after))[2]:
        cursors.append(page[0])
        assert page[0] == after + page[2]
        assert page[1] is None
        after = page[0]
    assert cursors[-1] == 31


def test_an_entry_is_kept_a_day_and_its_loss_is_told(server, key):
    device = server.add_device(key, "sensor-1", queue_mode=True)
    server.patch(key, device, online=False)
    assert position(server, key) == (1, None, 1)
    server.advance(key, DAY - 1)
    assert position(server, key) == (1, None, 1)
    server.advance(key, 3600 + 1)
    cursor, gap, count = position(server, key)
    assert gap == "1-1"
    assert (cursor, count) == (2, 1)  # the registration that expired meanwhile
    assert position(server, key, after=1) == (2, None, 1)


def test_a_log_that_was_emptied_tells_its_gap_and_where_it_ends(server, key):
    device = server.add_device(key, "sensor-1")
    server.registration(key, device, "DELETE")
    server.advance(key, DAY + 3600)
    answer = server.call(key, "GET", PULL, query_string={"after": 0, "hold": 25})
    assert (answer.status_code, answer.headers["Mirror-Cursor"], answer.headers["Mirror-Gap"]) == (204, "2", "1-2")
    assert position(server, key, after=1) == (2, "2-2", 0)
    assert position(server, key, after=2) == (2, None, 0)
    assert position(server, key, after="latest") == (2, None, 0)
    server.registration(key, device, "POST")
    assert position(server, key) == (3, "1-2", 1)


def test_a_plain_poll_goes_on_behind_what_is_gone(server, key):
    device = server.add_device(key, "sensor-1")
    server.registration(key, device, "DELETE")
    server.advance(key, DAY + 3600)
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204
    server.registration(key, device, "POST")
    assert list(server.call(key, "GET", f"{PULL}?hold=0").json) == ["registrations"]


def test_a_log_keeps_no_more_than_its_bytes_and_the_newest(new_server):
    small = new_server(keep_log_bytes=3000)
    key = small.key()
    device = small.add_device(key, "sensor-1")
    for number in range(60):
        small.place(key, device, f"r{number}", "GET", TEMPERATURE)
        cursor, gap, count = position(small, key)
        assert cursor == number + 2
        assert gap == (None if count == cursor else f"1-{cursor - count}")
    raw = small.call(key, "GET", f"{PULL}?after=0&hold=0")
    assert raw.json["async-responses"][-1]["id"] == "r59"
    assert 2000 < len(raw.get_data()) < 3200
    assert position(small, key, after=int(gap.split("-")[1]))[1] is None


def test_the_log_of_one_key_does_not_shorten_that_of_another(new_server):
    small = new_server(keep_log_bytes=3000)
    key, other = small.key(), small.key()
    device = small.add_device(key, "sensor-1")
    for number in range(60):
        small.place(key, device, f"r{number}", "GET", TEMPERATURE)
    assert position(small, key)[1] is not None
    assert position(small, other) == (1, None, 1)


def test_one_entry_larger_than_the_limit_does_not_stop_the_log(new_server):
    small = new_server(keep_log_bytes=500)
    key = small.key()
    device = small.add_device(key, "sensor-1", {"path": TEMPERATURE, "value": "x" * 2000})
    for number in range(3):
        assert small.place(key, device, f"r{number}", "GET", TEMPERATURE).status_code == 202
    cursor, gap, count = position(small, key)
    assert cursor == 4
    assert gap == f"1-{4 - count}"
