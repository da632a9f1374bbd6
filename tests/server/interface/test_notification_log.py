"""The notification log of an application: its start, retention, size and metadata. Source: wire.md 4.

A reader with a position gets number, time and device of each entry, the instant up to which it has read, and gaps.
"""

import itertools
import threading
import uuid
from functools import partial

import orjson
import pytest
from resource_paths import TEMPERATURE

from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import logs
from mirror_server.views import serialize

PULL = "/v2/notification/pull"
DAY = 24 * 3600


def read(server, key, after=0):
    return server.call(key, "GET", PULL, query_string={"after": after, "hold": 0})


def position(server, key, after=0):
    """Return cursor, gap and number of entries of the message after a position."""
    response = read(server, key, after)
    count = sum(map(len, response.json.values())) if response.status_code == 200 else 0
    return int(response.headers["Mirror-Cursor"]), response.headers.get("Mirror-Gap"), count


def test_log_starts_with_the_first_request_of_a_key(server, key):
    new = keys.create(server.services.database, "new", tuple(Scope), server.now)
    server.add_device(key, "too-early")
    server.call(new, "GET", "/v9/unknown")
    device = server.add_device(key, "in-time")
    assert [entry["ep"] for _, entry in server.log(new)] == [device]
    first = keys.create(server.services.database, "first", tuple(Scope), server.now)
    server.submit(first, device, "mine", "GET", TEMPERATURE)
    assert list(server.responses(first)) == ["mine"]


def test_entry_is_retained_for_a_day_and_its_loss_is_reported_as_gap(server, key, device):
    server.registration(key, device, "DELETE")
    server.advance(key, DAY - 1)
    assert position(server, key) == (2, None, 2)
    server.advance(key, 3600 + 1)
    response = server.call(key, "GET", PULL, query_string={"after": 0, "hold": 25})
    assert (response.status_code, response.headers["Mirror-Cursor"], response.headers["Mirror-Gap"]) == (
        204,
        "2",
        "1-2",
    )
    assert position(server, key, after=1) == (2, "2-2", 0)
    assert position(server, key, after=2) == position(server, key, after="latest") == (2, None, 0)
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204
    server.registration(key, device, "POST")
    assert position(server, key) == (3, "1-2", 1)
    assert list(server.call(key, "GET", f"{PULL}?hold=0").json) == ["registrations"]


def test_log_beyond_its_size_limit_drops_its_own_oldest_entries(new_server):
    small = new_server(keep_log_bytes=3000)
    key, other = small.key(), small.key()
    device = small.add_device(key, "sensor-1")
    for number in range(60):
        small.submit(key, device, f"r{number}", "GET", TEMPERATURE)
        cursor, gap, count = position(small, key)
        assert cursor == number + 2
        assert gap == (None if count == cursor else f"1-{cursor - count}")
    raw = small.call(key, "GET", f"{PULL}?after=0&hold=0")
    assert raw.json["async-responses"][-1]["id"] == "r59"
    assert 2000 < len(raw.get_data()) < 3500
    assert position(small, key, after=int(gap.split("-")[1]))[1] is None
    assert position(small, other) == (1, None, 1)


def test_entry_larger_than_the_limit_does_not_stop_the_log(new_server):
    small = new_server(keep_log_bytes=500)
    key = small.key()
    device = small.add_device(key, "sensor-1", {"path": TEMPERATURE, "value": "x" * 2000})
    for number in range(3):
        assert small.submit(key, device, f"r{number}", "GET", TEMPERATURE).status_code == 202
    cursor, gap, count = position(small, key)
    assert cursor == 4
    assert gap == f"1-{4 - count}"


def fill(session, count):
    """Create a log with entries of ten bytes."""
    logs.create(session, "app")
    entries = [("device", b"0123456789")] * count
    logs.append(session, "app", entries, kind="notifications", at=0, read_seq=0)


def test_deletion_of_thousands_of_entries_stops_at_the_requested_size(server):
    database = server.services.database

    def work(session):
        fill(session, 3000)
        logs.drop_bytes(session, "app", 20_005)
        stored_bytes = session.scalar("SELECT stored_bytes FROM logs WHERE app_id = 'app'")
        return stored_bytes, logs.read(session, "app", 0, 1, 1)

    stored_bytes, (last_seq, [(first_seq, *_)]) = database.write(work)
    assert (stored_bytes, first_seq, last_seq) == (9990, 2002, 3000)


@pytest.mark.sqlite
def test_deletion_from_a_full_log_is_equally_fast_for_a_longer_log(server):
    database = server.services.database
    connection = database.backend._connection
    steps = []

    def work(session, count):
        fill(session, count)
        calls = []
        connection.set_progress_handler(lambda: calls.append(1), 100)
        logs.drop_bytes(session, "app", 500)
        connection.set_progress_handler(None, 0)
        steps.append(len(calls))
        session.run("DELETE FROM logs WHERE app_id = 'app'")
        session.run("DELETE FROM notifications WHERE app_id = 'app'")

    for count in (2000, 10_000):
        database.write(partial(work, count=count))
    shorter, longer = steps
    assert longer < 1.5 * shorter


def test_each_entry_has_number_time_and_device(server, key, device):
    began_at = server.now
    server.subscribe(key, device)
    server.submit(key, device, "a", "GET", TEMPERATURE)
    for method in ["DELETE", "POST", "PUT"]:
        server.advance(key, 10)
        server.registration(key, device, method)
    server.patch(key, device, online=False)
    server.advance(key, 24 * 3600)
    log = server.log(key)
    assert [entry["seq"] for _, entry in log] == list(range(1, 8))
    assert [kind for kind, _ in log] == [
        *("registrations", "notifications", "async-responses", "de-registrations", "registrations", "reg-updates"),
        "registrations-expired",
    ]
    assert [entry["timestamp"] - began_at for _, entry in log][:6] == [0, 0, 0, 10_000, 20_000, 30_000]
    assert {(entry["ep"], entry["original-ep"]) for _, entry in log} == {(device, "sensor-1")}
    assert len({entry["uid"] for _, entry in log}) == 7
    assert log[2][1]["path"] == TEMPERATURE


def test_poll_reports_the_instant_up_to_which_the_log_is_complete(server, key, device):
    server.advance(key, 3600)
    for query in ("after=0&hold=0", "after=latest&hold=0", "after=1&hold=1"):
        response = server.call(key, "GET", f"{PULL}?{query}")
        assert response.headers["Mirror-Time"] == serialize.timestamp(server.now)
    assert "Mirror-Time" not in server.call(key, "GET", f"{PULL}?hold=0").headers


def test_woken_poll_reports_the_instant_of_its_entry(server, key, device, open_poll):
    waiting = open_poll(key, "after=latest&hold=25")
    server.advance(key, 60)
    woken_at = server.now
    server.registration(key, device, "PUT")
    assert waiting.result(60).headers["Mirror-Time"] == serialize.timestamp(woken_at)


def test_each_entry_has_a_unique_uuid(server, key, device):
    app_id, log, body = key.split("_")[1], server.services.log, {"ep": device, "timestamp": 1}
    entries = [(app_id, device, body)] * 1000
    server.services.database.write(lambda session: log.append(session, "de-registrations", entries))
    uids = [entry["uid"] for _, entry in server.log(key) if entry["timestamp"] == 1]
    assert len(set(uids)) == len(uids) == 1000
    assert all(str(uuid.UUID(uid, version=4)) == uid for uid in uids)
    # The caller's dict is unchanged.
    assert body == {"ep": device, "timestamp": 1}


def test_settled_instant_excludes_entries_being_written(server, key, device):
    """The entry has its time already, and is not on disk yet."""
    app_id, clock = key.split("_")[1], server.services.clock
    before, (began, go_on) = serialize.timestamp(server.now), (threading.Event(), threading.Event())

    def work(session):
        event = {"ep": device, "timestamp": clock.now()}
        began.set()
        assert go_on.wait(60)
        server.services.log.append(session, "de-registrations", [(app_id, device, event)])

    written = server.services.database.submit(work)
    assert began.wait(60)
    clock.advance(60_000)
    assert read(server, key, 1).headers["Mirror-Time"] == before
    go_on.set()
    written.result(60)
    assert server.services.database.settle(60)
    after = read(server, key, 1).headers
    assert (after["Mirror-Time"], after["Mirror-Cursor"]) == (serialize.timestamp(server.now), "2")


def test_truncated_message_reports_the_instant_of_its_last_entry(server, key, device):
    """The next entry may be from the same millisecond."""
    server.patch(key, device, answer="silent")
    for name in ("one", "two"):
        server.submit(key, device, name, "GET", TEMPERATURE)
    server.advance(key, 4000)
    cut_off, last = read(server, key, 1), read(server, key, 2)
    (entry,) = cut_off.json["async-responses"]
    assert cut_off.headers["Mirror-Time"] == serialize.timestamp(entry["timestamp"])
    assert last.headers["Mirror-Time"] == serialize.timestamp(server.now)


def test_read_ends_at_the_limit_or_with_the_entry_that_reaches_the_bytes(server):
    size = 10

    def fill(session):
        for app_id in ("reader", "other", "empty"):
            logs.create(session, app_id)
        for app_id in ("reader", "other"):
            entries = [("d", orjson.dumps("x" * (size - 2)))] * 120
            logs.append(session, app_id, entries, kind="notifications", at=7, read_seq=0)

    server.services.database.write(fill)
    with server.services.database.read() as session:
        for after, limit, most_bytes in itertools.product((0, 70, 119, 120, 121), (1, 50, 10_000), (0, 1, 41, 10**6)):
            most = min(limit, -(-most_bytes // size))
            last_seq, entries = logs.read(session, "reader", after, limit, most_bytes)
            assert (last_seq, [seq for seq, *_ in entries]) == (120, [*range(after + 1, 121)][:most])
        assert [logs.read(session, app_id, 0, 10, 100) for app_id in ("empty", "unknown")] == [(0, []), (0, [])]
