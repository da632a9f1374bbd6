"""A reader with a position is told the number, the time and the device of each entry, and up to when it has read."""

import threading

import orjson
import pytest

from mirror_server import present
from mirror_server.store import logs

PULL = "/v2/notification/pull"
TEMPERATURE = "/3303/0/5700"


@pytest.fixture
def device(server, key):
    return server.add_device(key, "sensor-1")


def read(server, key, after=0):
    return server.call(key, "GET", PULL, query_string={"after": after, "hold": 0})


def read_until(server, key, after=0):
    """The instant the answer tells, and the number up to which all before it stands in the log."""
    answer = read(server, key, after)
    return answer.headers["Mirror-Time"], int(answer.headers["Mirror-Cursor"])


def test_each_entry_tells_its_number_and_its_time_and_its_device(server, key, device):
    began_at = server.now
    server.call(key, "PUT", f"/v2/subscriptions/{device}{TEMPERATURE}")
    for method in ["DELETE", "POST", "PUT"]:
        server.advance(key, 10)
        server.registration(key, device, method)
    server.patch(key, device, online=False)
    server.advance(key, 24 * 3600)
    listed = [(kind, entry) for kind, entries in read(server, key).json.items() for entry in entries]
    told = sorted((entry["seq"], kind, entry["timestamp"] - began_at) for kind, entry in listed)
    assert [(seq, kind) for seq, kind, _ in told] == [
        (1, "registrations"),
        (2, "notifications"),
        (3, "de-registrations"),
        (4, "registrations"),
        (5, "reg-updates"),
        (6, "registrations-expired"),
    ]
    assert [milliseconds for _, _, milliseconds in told][:5] == [0, 0, 10_000, 20_000, 30_000]
    assert {(entry["ep"], entry["original-ep"]) for _, entry in listed} == {(device, "sensor-1")}
    assert len({entry["uid"] for _, entry in listed}) == 6


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
def test_an_async_response_names_its_device_and_path_to_who_keeps_a_position(server, key, method):
    resource = {"path": "/3311/0/5850", "value": "0", "writable": True, "executable": method == "POST"}
    device = server.add_device(key, "light-1", resource)
    server.place(key, device, "a", method, "/3311/0/5850", **({"value": "1"} if method == "PUT" else {}))
    (entry,) = read(server, key).json["async-responses"]
    assert (entry["ep"], entry["original-ep"], entry["path"]) == (device, "light-1", "/3311/0/5850")
    (plain,) = server.call(key, "GET", f"{PULL}?hold=0").json["async-responses"]
    assert plain.items() < entry.items()
    assert not {"ep", "original-ep", "path", "seq"} & set(plain)


def test_the_event_stream_tells_the_same_of_each_entry(server, key, device):
    server.registration(key, device, "DELETE")
    stream = server.call(key, "GET", "/v2/notification/events?after=0", buffered=False).response
    events = b"".join([next(stream) for _ in range(1)]).decode().split("\n\n")
    data = [orjson.loads(event.split("data: ")[1]) for event in events if "data: " in event]
    message = read(server, key).json
    assert data == [*message["registrations"], *message["de-registrations"]]


def test_what_an_older_version_logged_of_a_device_that_left_is_told_with_the_time_it_was_logged(server, key, device):
    app_id = key.split("_")[1]
    body = orjson.dumps(device)
    server.services.database.write(
        lambda session: logs.append(session, app_id, [(device, body)], kind="de-registrations", at=7, read_seq=0)
    )
    assert read(server, key, 1).json == {"de-registrations": [{"ep": device, "timestamp": 7, "seq": 2}]}
    assert server.call(key, "GET", f"{PULL}?hold=0").json["de-registrations"] == [device]


@pytest.mark.parametrize("query", ["after=0&hold=0", "after=1&hold=0", "after=latest&hold=0", "after=1&hold=1"])
def test_an_answer_tells_before_which_instant_all_is_in_the_log(server, key, device, query):
    server.advance(key, 3600)
    answer = server.call(key, "GET", f"{PULL}?{query}")
    assert answer.headers["Mirror-Time"] == present.timestamp(server.now)
    assert "Mirror-Time" not in server.call(key, "GET", f"{PULL}?hold=0").headers


def test_a_poll_that_is_woken_tells_the_instant_of_what_woke_it(server, key, device, held_poll):
    held = held_poll(key, "after=latest&hold=25")
    server.advance(key, 60)
    woken_at = server.now
    server.registration(key, device, "PUT")
    assert held.result(10).headers["Mirror-Time"] == present.timestamp(woken_at)


def test_what_is_being_written_is_not_said_to_be_there(server, key, device):
    """It has its time already, and is not on disk yet."""
    app_id, clock = key.split("_")[1], server.services.clock
    before, (began, go_on) = present.timestamp(server.now), (threading.Event(), threading.Event())

    def work(session):
        event = {"ep": device, "timestamp": clock.now()}
        began.set()
        assert go_on.wait(10)
        server.services.log.append(session, app_id, "de-registrations", device, event)

    written = server.services.database.submit(work)
    assert began.wait(10)
    clock.advance(60_000)
    assert read_until(server, key, 1) == (before, 1)
    go_on.set()
    written.result(10)
    assert server.services.database.settle(10)
    assert read_until(server, key, 1) == (present.timestamp(server.now), 2)


def test_a_message_that_is_cut_off_tells_the_instant_of_its_last_entry(server, key, device):
    """What follows it may have happened within the same millisecond."""
    server.patch(key, device, online=False)
    first_at = present.timestamp(server.now)
    server.place(key, device, "late", "GET", TEMPERATURE, expiry_seconds=5)
    server.patch(key, device, online=True, answer="silent")
    server.place(key, device, "silent", "GET", TEMPERATURE)
    server.advance(key, 4000)
    statuses, told = [], []
    after = 1
    while (answer := read(server, key, after)).status_code == 200:
        after = int(answer.headers["Mirror-Cursor"])
        last = max((entry for entries in answer.json.values() for entry in entries), key=lambda entry: entry["seq"])
        statuses.append([entry["status"] for entry in answer.json.get("async-responses", [])])
        told.append((answer.headers["Mirror-Time"], present.timestamp(last["timestamp"])))
    assert [504] in statuses
    assert len(told) > 1
    assert all(at == of_last for at, of_last in told[:-1])
    assert told[-1][0] == present.timestamp(server.now) > first_at
