"""Long polls: plain ones, those with a position of their own, and held ones. Source: wire.md 4 and 5."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from mirror_server.core.errors import Refusal
from mirror_server.devices.link import Content, Observation
from mirror_server.store import callbacks
from mirror_server.store.failures import StorageFailed

PULL = "/v2/notification/pull"
CHANNEL = "/v2/notification/channel"
TEMPERATURE = "/3303/0/5700"


@pytest.fixture
def place(server, key, device):
    def reads(*async_ids):
        for async_id in async_ids:
            assert server.place(key, device, async_id, "GET", TEMPERATURE).status_code == 202

    return reads


@pytest.fixture
def plain_poll(server, key):
    """The async-ids of a plain poll that is not held, ``None`` when it was empty."""

    def poll(by=key):
        answer = server.call(by, "GET", f"{PULL}?hold=0")
        if answer.status_code == 204:
            assert (answer.get_data(), answer.headers.get("Mirror-Cursor")) == (b"", None)
            return None
        assert answer.status_code == 200
        return [entry["id"] for entry in answer.json.get("async-responses", [])]

    return poll


@pytest.fixture
def read_after(server, key):
    """The async-ids behind a position, the cursor and the gap."""

    def read(after):
        answer = server.call(key, "GET", PULL, query_string={"after": after, "hold": 0})
        assert answer.status_code in {200, 204}
        entries = answer.json.get("async-responses", []) if answer.status_code == 200 else []
        return (
            [entry["id"] for entry in entries],
            int(answer.headers["Mirror-Cursor"]),
            answer.headers.get("Mirror-Gap"),
        )

    return read


def test_a_plain_poll_gives_everything_once_and_moves_its_position(place, plain_poll):
    place("a", "b")
    assert plain_poll() == ["a", "b"]
    assert plain_poll() is None
    place("c")
    assert plain_poll() == ["c"]


def test_a_plain_poll_has_neither_uid_nor_timestamp(server, key, device, place):
    server.subscribe(key, device)
    place("a")
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    body = server.call(key, "GET", f"{PULL}?hold=0").json
    assert set(body) == {"registrations", "notifications", "async-responses", "reg-updates", "de-registrations"}
    assert body["notifications"] == [
        {"ep": device, "path": TEMPERATURE, "ct": "text/plain", "payload": "MjEuNQ==", "max-age": 0}
    ]
    assert body["async-responses"] == [
        {"id": "a", "status": 200, "payload": "MjEuNQ==", "ct": "text/plain", "max-age": 0}
    ]
    assert body["de-registrations"] == [device]
    for kind in ["registrations", "reg-updates"]:
        assert "uid" not in body[kind][0]


def test_a_plain_poll_names_devices_that_left_by_their_id_alone(server, key, device):
    """A reader with a position is told when, and the name; who knows nothing of that sees no difference."""
    server.registration(key, device, "DELETE")
    server.registration(key, device, "POST")
    server.patch(key, device, online=False)
    server.advance(key, 24 * 3600)
    body = server.call(key, "GET", f"{PULL}?hold=0").json
    assert (body["de-registrations"], body["registrations-expired"]) == ([device], [device])


def test_a_reader_with_a_position_gets_uid_timestamp_and_cursor(server, key, device, place):
    server.subscribe(key, device)
    place("a")
    answer = server.call(key, "GET", f"{PULL}?after=0&hold=0")
    entries = [entry for kind in answer.json.values() for entry in kind]
    assert {entry["timestamp"] for entry in entries} == {server.now}
    assert len({entry["uid"] for entry in entries}) == len(entries) == int(answer.headers["Mirror-Cursor"]) == 3
    assert "Mirror-Gap" not in answer.headers


def test_any_number_of_readers_take_nothing_from_each_other(place, plain_poll, read_after):
    place("a", "b")
    for _ in range(3):
        assert read_after(0) == (["a", "b"], 3, None)
    assert read_after(1) == (["a", "b"], 3, None)
    assert read_after(2) == (["b"], 3, None)
    assert read_after(3) == ([], 3, None)
    assert read_after("latest") == ([], 3, None)
    assert plain_poll() == ["a", "b"]
    assert read_after(0) == (["a", "b"], 3, None)


def test_a_plain_poll_moves_no_other_reader_and_no_reader_moves_the_plain_poll(place, plain_poll, read_after):
    place("a")
    assert plain_poll() == ["a"]
    assert read_after(0)[0] == ["a"]
    place("b")
    assert read_after("latest")[1] == 3
    assert plain_poll() == ["b"]


@pytest.mark.parametrize("query", ["hold=25", "after=1&hold=25", "after=latest&hold=25", "", "after=1"])
def test_a_held_poll_wakes_at_once(server, key, plain_poll, place, held_poll, query):
    plain_poll()
    answer = held_poll(key, query)
    assert not answer.done()
    place("a")
    woken = answer.result(60)
    assert [entry["id"] for entry in woken.json["async-responses"]] == ["a"]
    assert ("Mirror-Cursor" in woken.headers) is ("after" in query)


def test_all_readers_that_wait_are_woken(server, key, place, plain_poll, held_poll):
    plain_poll()
    answers = [held_poll(key, "after=latest"), held_poll(key, "after=latest"), held_poll(key, "")]
    place("a")
    for answer in answers:
        assert [entry["id"] for entry in answer.result(60).json["async-responses"]] == ["a"]


def test_what_goes_to_another_key_wakes_nobody(server, key, place, other, held_poll):
    answer = held_poll(other, "after=latest&hold=25")
    place("a")
    assert not answer.done()
    server.add_device(key, "sensor-2")
    assert list(answer.result(60).json) == ["registrations"]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [("", 25), ("?after=1", 25), ("?after=latest", 25), ("?hold=0", 0), ("?hold=55", 55), ("?after=1&hold=55", 55)],
)
def test_a_poll_is_held_25_s_or_as_long_as_asked(server, key, plain_poll, device, hold_seconds, query, seconds):
    plain_poll()
    assert hold_seconds(key, query) == seconds


def test_a_poll_whose_time_is_over_is_204_with_the_cursor(server, key, device):
    answer = server.call(key, "GET", f"{PULL}?after=1&hold=1")
    assert (answer.status_code, answer.get_data(), answer.headers["Mirror-Cursor"]) == (204, b"", "1")


def test_a_bad_position_or_wait_is_named(server, key, refused):
    cases = [
        *[
            (f"after={value}", "after")
            for value in ("", "x", "-1", "1.0", "%2B1", "%201", "LATEST", "1e3", "9" * 20, "9" * 30)
        ],
        *[(f"hold={value}", "hold") for value in ("", "x", "-1", "56", "0.5", "1.5", "%2B1", "25s")],
        *[(f"after=0&hold={value}", "hold") for value in ("", "56")],
        ("after=%D9%A1", "after"),
        ("after=latest&hold=x", "hold"),
        *[(query, "noWait") for query in ("noWait=1", "noWait=", "noWait=true&noWait=true")],
    ]
    for query, field in cases:
        refused(server.call(key, "GET", f"{PULL}?{query}"), 400, field)


@pytest.mark.parametrize(
    ("query", "field", "told"),
    [("hold=x", "hold", "55"), ("aftr=1", "aftr", "known are after, hold, noWait"), ("noWait=1", "noWait", "true")],
)
def test_a_bad_poll_opens_no_channel_and_takes_nothing(server, key, device, refused, query, field, told):
    assert told in refused(server.call(key, "GET", f"{PULL}?{query}"), 400, field).message
    refused(server.call(key, "GET", CHANNEL), 404)
    assert len(server.call(key, "GET", f"{PULL}?hold=0").json["registrations"]) == 1


def test_a_poll_without_its_body_is_refused_and_loses_nothing(server, key, device):
    answer = server.call(key, "HEAD", f"{PULL}?hold=0")
    assert answer.status_code == 405
    assert {method.strip() for method in answer.headers["Allow"].split(",")} >= {"GET", "DELETE"}
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 200


@pytest.mark.parametrize("beyond", [2, 10**17])
def test_a_position_beyond_the_log_has_a_word_of_its_own(server, key, device, refused, beyond):
    body = refused(server.call(key, "GET", f"{PULL}?after={beyond}&hold=0"), 400, "after")
    assert body.reason == "CURSOR_BEYOND_LOG"
    assert "latest" in body.message


def test_a_second_plain_poll_is_409_while_one_is_open_and_readers_are_not(
    server, key, place, plain_poll, read_after, held_poll, other, refused
):
    plain_poll()
    answer = held_poll(key, "hold=25")
    body = refused(server.call(key, "GET", f"{PULL}?hold=0"), 409)
    assert "after" in body.message
    assert read_after(0)[1] == 1
    assert server.call(other, "GET", f"{PULL}?hold=0").status_code == 204
    assert not answer.done()
    place("a")
    assert answer.result(60).status_code == 200
    assert plain_poll() is None


def test_deleting_the_channel_ends_the_open_plain_poll_at_once_with_410(
    server, key, place, plain_poll, held_poll, refused
):
    plain_poll()
    answer = held_poll(key, "hold=25")
    assert server.call(key, "DELETE", PULL).status_code == 204
    refused(answer.result(60), 410)
    refused(server.call(key, "GET", CHANNEL), 404)
    place("a")
    assert plain_poll() == ["a"]


def test_deleting_the_channel_leaves_readers_and_the_channels_of_others_alone(
    server, key, device, place, other, held_poll
):
    theirs = held_poll(other, "hold=25")
    reader = held_poll(key, "after=1&hold=25")
    assert server.call(key, "DELETE", PULL).status_code == 204
    assert not reader.done()
    assert not theirs.done()
    place("a")
    assert reader.result(60).status_code == 200
    server.add_device(key, "sensor-2")
    assert theirs.result(60).status_code == 200


def test_deleting_is_2xx_without_a_channel_too_and_loses_nothing(server, key, place, plain_poll):
    for _ in range(2):
        assert server.call(key, "DELETE", PULL).status_code == 204
    place("a")
    assert server.call(key, "DELETE", PULL).status_code == 204
    assert plain_poll() == ["a"]
    assert server.call(key, "DELETE", PULL).status_code == 204
    assert plain_poll() is None


def test_the_channel_is_there_from_the_first_plain_poll_until_its_deletion(server, key, refused):
    refused(server.call(key, "GET", CHANNEL), 404)
    server.call(key, "GET", f"{PULL}?after=0&hold=0")
    refused(server.call(key, "GET", CHANNEL), 404)
    server.call(key, "GET", f"{PULL}?hold=0")
    assert server.channel(key) == {"delivery_mechanism": "LONG_POLLING"}
    refused(server.call(server.key(), "GET", CHANNEL), 404)
    server.call(key, "DELETE", PULL)
    refused(server.call(key, "GET", CHANNEL), 404)


@pytest.mark.parametrize("reader", ["plain", "cursor"])
def test_a_response_of_a_server_error_is_alone_in_its_message(
    server, key, device, place, plain_poll, read_after, reader
):
    place("a", "b")
    server.patch(key, device, answer="silent")
    place("late")
    server.advance(key, 120)
    server.patch(key, device, latency_seconds=5)
    place("lost")
    server.patch(key, device, online=False)
    server.patch(key, device, online=True, answer="normal", latency_seconds=0)
    place("c")
    after, messages = 0, []
    while True:
        ids, after, _ = (plain_poll(), 0, None) if reader == "plain" else read_after(after)
        if not ids:
            break
        messages.append(ids)
    assert messages == [["a", "b"], ["late"], ["lost"], ["c"]]
    assert {async_id: status for async_id, (status, _) in server.responses(key).items()} == {
        "a": 200, "b": 200, "late": 504, "lost": 503, "c": 200,
    }  # fmt: skip


def test_async_responses_go_to_the_key_that_asked_and_registrations_to_all(server, key, device, place, other):
    place("a")
    assert server.log(other) == []
    server.registration(key, device, "POST")
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    kinds = ["registrations", "reg-updates", "de-registrations"]
    assert server.kinds(other) == kinds
    assert server.kinds(key) == ["registrations", "async-responses", *kinds]


def test_observation_events_go_to_the_subscriber_alone(server, key, other, device):
    server.subscribe(other, device)
    server.set_value(key, device, "22")
    assert server.observed(other) == [(device, "21.5"), (device, "22")]
    assert server.observed(key) == []


def test_a_registration_event_tells_what_the_device_is_and_has(server, key):
    server.advance(key, 30)
    device = server.add_device(
        key, "light-1", {"path": "/3311/0/5850", "observable": True}, {"path": "/3/0/0"},
        endpoint_type="Light", queue_mode=True,
    )  # fmt: skip
    ((kind, event),) = server.log(key)
    assert kind == "registrations"
    assert event.pop("uid")
    assert sorted(event.pop("resources"), key=lambda resource: resource["path"]) == [
        {"path": "/3/0/0", "rt": "", "ct": "text/plain", "obs": False},
        {"path": "/3311/0/5850", "rt": "", "ct": "text/plain", "obs": True},
    ]
    assert event == {
        "ep": device, "original-ep": "light-1", "ept": "Light", "q": True, "timestamp": server.now, "seq": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("value", "count"), [("21.5", 1), ("21.5", 3), ("x" * 65_536, 100)])
def test_a_held_poll_is_given_what_a_later_reader_reads(server, key, device, held_poll, value, count):
    server.subscribe(key, device)
    after = server.services.log.last_seq(key.split("_")[1])
    answer = held_poll(key, f"after={after}&hold=25")
    observation = Observation(device, TEMPERATURE, Content(value.encode()), server.services.clock.now())
    server.services.devices.observed([observation] * count).result(60)
    told, read = answer.result(60), server.call(key, "GET", f"{PULL}?after={after}&hold=0")
    assert told.headers["Mirror-Cursor"] == read.headers["Mirror-Cursor"]
    assert told.get_data() == read.get_data()
    assert len(told.get_data()) < 4.5 * 1024 * 1024


def test_a_poll_that_is_woken_while_its_channel_is_deleted_takes_nothing(server, key, device, monkeypatch):
    polls = server.services.polls
    take = polls.take

    def take_late(*poll):
        assert server.call(key, "DELETE", PULL).status_code == 204
        return take(*poll)

    monkeypatch.setattr(polls, "take", take_late)
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 410
    monkeypatch.undo()
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404
    assert list(server.call(key, "GET", f"{PULL}?hold=0").json) == ["registrations"]


def test_a_channel_that_is_deleted_while_it_is_opened_is_stored_as_deleted(server, key, monkeypatch):
    polls, app_id = server.services.polls, key.split("_")[1]
    insist = server.services.database.insist
    with ThreadPoolExecutor(1) as pool:

        def insist_later(work):
            deleted = pool.submit(polls.delete, app_id)
            wait([deleted], timeout=0.2)
            return insist(work)

        monkeypatch.setattr(server.services.database, "insist", insist_later)
        polls.open(app_id)
        monkeypatch.undo()
    assert server.services.database.settle(60)
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404


def test_a_poll_gives_way_to_a_webhook_that_was_stored_a_moment_before(server, key, device):
    polls, app_id = server.services.polls, key.split("_")[1]
    server.services.database.write(lambda session: callbacks.put(session, app_id, '{"url":"http://127.0.0.1:1/"}', 0))
    more = polls.open(app_id)
    assert server.services.database.settle(60)
    for way in (more.result, lambda: polls.take(app_id, more, polls.read(app_id, more))):
        with pytest.raises(Refusal, match="one type of channel"):
            way()
    assert server.channel(key)["delivery_mechanism"] == "CALLBACK"
    assert not polls.exists(app_id)


@pytest.mark.parametrize("query", ["hold=25", "after=0&hold=25"])
def test_a_poll_that_cannot_be_looked_up_is_not_left_open(server, key, monkeypatch, query):
    def fail(*_):
        raise StorageFailed("cannot reach its database")

    for name in ("state", "last_seq_and_entries"):
        monkeypatch.setattr(f"mirror_server.store.logs.{name}", fail)
    assert server.call(key, "GET", f"{PULL}?{query}").status_code == 503
    monkeypatch.undo()
    assert server.services.log.open_polls == 0
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204


def test_a_message_of_large_entries_carries_a_part_and_the_next_the_rest(server, key):
    device = server.add_device(key, "camera", {"path": "/3341/0/5527", "value": "x" * 65_536})
    for number in range(100):
        server.place(key, device, f"r{number}", "GET", "/3341/0/5527")
    after, sizes = 1, []
    while (answer := server.call(key, "GET", f"{PULL}?hold=0&after={after}")).status_code == 200:
        after = int(answer.headers["Mirror-Cursor"])
        sizes.append(len(answer.get_data()))
    assert after == 101
    assert len(sizes) == 3
    assert max(sizes) < 4.5 * 1024 * 1024
    assert len(server.responses(key)) == 100


@pytest.mark.parametrize("query", ["noWait=true", "noWait=True", "noWait=true&hold=20", "noWait=true&after=0"])
def test_a_poll_that_does_not_wait_is_answered_at_once(server, key, query):
    assert server.call(key, "GET", f"{PULL}?{query}").status_code == 204
    server.add_device(key, "sensor-1")
    answer = server.call(key, "GET", f"{PULL}?{query}")
    assert (answer.status_code, len(answer.json["registrations"])) == (200, 1)


def test_a_poll_that_may_wait_is_held(server, key, held_poll):
    held = held_poll(key, "noWait=false")
    server.add_device(key, "sensor-1")
    assert len(held.result(60).json["registrations"]) == 1
