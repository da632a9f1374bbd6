"""Long polling over the notification log. Source: wire.md 4 and 5."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from mirror_server.core.errors import Refusal
from mirror_server.devices.link import Content, Observation
from mirror_server.store import callbacks
from mirror_server.store.failures import StorageFailed

PULL = "/v2/notification/pull"
TEMPERATURE = "/3303/0/5700"


@pytest.fixture
def device(server, key):
    return server.add_device(key, "sensor-1")


def seqs(server, key, **query):
    """A poll's cursor, gap and number of entries."""
    answer = server.call(key, "GET", PULL, query_string={"hold": 0, **query})
    count = 0 if answer.status_code == 204 else sum(map(len, answer.json.values()))
    return int(answer.headers["Mirror-Cursor"]), answer.headers.get("Mirror-Gap"), count


def test_any_number_of_readers_have_positions_of_their_own(server, key, device):
    for number in range(3):
        server.place(key, device, f"r{number}", "GET", TEMPERATURE)
    assert seqs(server, key, after=0) == (4, None, 4)
    assert seqs(server, key, after=0) == (4, None, 4)
    assert seqs(server, key, after=3) == (4, None, 1)
    assert seqs(server, key, after=4) == (4, None, 0)
    assert seqs(server, key, after="latest") == (4, None, 0)


def test_a_reader_with_a_cursor_gets_uid_and_timestamp_and_a_plain_poll_neither(server, key, device):
    server.call(key, "PUT", f"/v2/subscriptions/{device}{TEMPERATURE}")
    server.place(key, device, "r", "GET", TEMPERATURE)
    for kind, entry in server.log(key):
        assert entry["uid"]
        assert entry["timestamp"] == server.now, kind
    plain = server.call(key, "GET", f"{PULL}?hold=0").json
    assert set(plain) == {"registrations", "notifications", "async-responses"}
    assert set(plain["notifications"][0]) == {"ep", "path", "ct", "payload", "max-age"}
    assert set(plain["async-responses"][0]) == {"id", "status", "payload", "ct", "max-age"}


def test_a_plain_poll_gives_each_entry_once_also_after_a_restart(server, key, device):
    server.place(key, device, "r1", "GET", TEMPERATURE)
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 200
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204
    server.restart()
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204
    server.place(key, device, "r2", "GET", TEMPERATURE)
    assert [entry["id"] for entry in server.call(key, "GET", PULL).json["async-responses"]] == ["r2"]


def test_an_answer_that_may_not_have_arrived_is_given_again_after_a_restart(server, key, device):
    first = server.call(key, "GET", f"{PULL}?hold=0").json
    server.restart()
    assert server.call(key, "GET", f"{PULL}?hold=0").json == first


@pytest.mark.parametrize("query", ["hold=25", "after=1&hold=25"])
def test_a_held_poll_is_answered_as_soon_as_something_arrives(server, key, device, held_poll, query):
    server.call(key, "GET", f"{PULL}?hold=0")
    answer = held_poll(key, query)
    server.place(key, device, "r", "GET", TEMPERATURE)
    assert answer.result(10).json["async-responses"][0]["id"] == "r"


@pytest.mark.parametrize(("value", "count"), [("21.5", 1), ("21.5", 3), ("x" * 65_536, 100)])
def test_a_held_poll_is_given_what_a_later_reader_reads(server, key, device, held_poll, value, count):
    server.call(key, "PUT", f"/v2/subscriptions/{device}{TEMPERATURE}")
    after = seqs(server, key, after=0)[2]
    answer = held_poll(key, f"after={after}&hold=25")
    observation = Observation(device, TEMPERATURE, Content(value.encode()), server.services.clock.now())
    server.services.devices.observed([observation] * count).result(10)
    told, read = answer.result(10), server.call(key, "GET", f"{PULL}?after={after}&hold=0")
    assert told.headers["Mirror-Cursor"] == read.headers["Mirror-Cursor"]
    assert told.get_data() == read.get_data()
    assert len(told.get_data()) < 4.5 * 1024 * 1024


def test_a_second_plain_poll_is_a_conflict_and_a_reader_with_a_cursor_is_not(server, key, device, held_poll):
    server.call(key, "GET", f"{PULL}?hold=0")
    answer = held_poll(key, "hold=25")
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 409
    assert seqs(server, key, after=0)[2] == 1
    server.place(key, device, "r", "GET", TEMPERATURE)
    assert answer.result(10).status_code == 200
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204


def test_deleting_the_channel_ends_the_open_poll_at_once(server, key, device, held_poll):
    assert server.call(key, "DELETE", PULL).status_code == 204
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404
    server.call(key, "GET", f"{PULL}?hold=0")
    answer = held_poll(key, "hold=25")
    assert server.channel(key) == {"delivery_mechanism": "LONG_POLLING"}
    assert server.call(key, "DELETE", PULL).status_code == 204
    assert answer.result(10).status_code == 410
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404


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
    assert server.services.database.settle(10)
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404


def test_a_poll_gives_way_to_a_webhook_that_was_stored_a_moment_before(server, key, device):
    polls, app_id = server.services.polls, key.split("_")[1]
    server.services.database.write(lambda session: callbacks.put(session, app_id, '{"url":"http://127.0.0.1:1/"}', 0))
    more = polls.open(app_id)
    assert server.services.database.settle(10)
    with pytest.raises(Refusal, match="one type of channel"):
        more.result(0)
    with pytest.raises(Refusal, match="one type of channel"):
        polls.take(app_id, more)
    assert server.channel(key)["delivery_mechanism"] == "CALLBACK"
    assert not polls.exists(app_id)


@pytest.mark.parametrize("query", ["hold=25", "after=0&hold=25"])
def test_a_poll_that_cannot_be_looked_up_is_not_left_open(server, key, monkeypatch, query):
    def fail(*_):
        raise StorageFailed("cannot reach its database")

    monkeypatch.setattr("mirror_server.store.logs.state", fail)
    assert server.call(key, "GET", f"{PULL}?{query}").status_code == 503
    monkeypatch.undo()
    assert server.services.log.open_polls == 0
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204


def test_a_poll_without_its_body_is_refused_and_loses_nothing(server, key, device):
    assert server.call(key, "HEAD", f"{PULL}?hold=0").status_code == 405
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=x", "after"),
        ("after=-1", "after"),
        ("after=", "after"),
        ("after=99999999999999999999", "after"),
        ("hold=56", "hold"),
        ("hold=-1", "hold"),
        ("hold=1.5", "hold"),
        ("after=0&hold=x", "hold"),
    ],
)
def test_a_bad_position_or_wait_is_refused(server, key, query, field):
    answer = server.call(key, "GET", f"{PULL}?{query}")
    assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, field)


def test_a_position_beyond_the_log_is_refused_by_its_own_word(server, key):
    answer = server.call(key, "GET", f"{PULL}?after=1")
    assert (answer.status_code, answer.json["reason"]) == (400, "CURSOR_BEYOND_LOG")


def test_entries_are_kept_a_day_and_a_reader_is_told_what_it_missed(server, key, device):
    server.place(key, device, "old", "GET", TEMPERATURE)
    server.advance(key, 12 * 3600)
    server.place(key, device, "new", "GET", TEMPERATURE)
    before = seqs(server, key, after=0)
    assert before[1] is None
    server.advance(key, 12 * 3600 + 3600)
    cursor, gap, _ = seqs(server, key, after=0)
    assert gap == "1-2"
    assert cursor >= before[0]
    assert "new" in server.responses(key)
    assert seqs(server, key, after=2)[1] is None


def test_a_log_keeps_no_more_than_its_bytes(server, key, tmp_path):
    (tmp_path / "small").mkdir()
    small = type(server)(tmp_path / "small", keep_log_bytes=4000)
    try:
        small_key = small.key()
        device = small.add_device(small_key, "sensor-1")
        for number in range(100):
            small.place(small_key, device, f"r{number}", "GET", TEMPERATURE)
        cursor, gap, count = seqs(small, small_key, after=0)
        assert cursor == 101
        assert gap == f"1-{101 - count}"
        assert 15 < count < 40
    finally:
        small.services.close()


def test_a_response_of_a_server_error_is_alone_in_its_message(server, key, device):
    server.place(key, device, "a", "GET", TEMPERATURE)
    server.patch(key, device, latency_seconds=5)
    server.place(key, device, "b", "GET", TEMPERATURE)
    server.patch(key, device, online=False)
    server.patch(key, device, online=True, latency_seconds=0)
    server.place(key, device, "c", "GET", TEMPERATURE)
    messages = []
    while (answer := server.call(key, "GET", f"{PULL}?hold=0")).status_code == 200:
        messages.append([entry["id"] for entry in answer.json.get("async-responses", [])])
    assert messages == [["a"], ["b"], ["c"]]


def test_notifications_are_kept_from_the_first_request_on(server, key):
    late = server.key()
    server.add_device(key, "sensor-1")
    assert [kind for kind, _ in server.log(late)] == ["registrations"]
    assert server.log(server.key()) == []


def test_registration_events_go_to_every_application(server, key):
    other = server.key()
    device = server.add_device(key, "sensor-1", endpoint_type="Sensor", queue_mode=True)
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    for reader in [key, other]:
        kinds = [kind for kind, _ in server.log(reader)]
        assert kinds == ["registrations", "reg-updates", "de-registrations"]
    registration = server.log(key)[0][1]
    assert registration["ep"] == device
    assert (registration["original-ep"], registration["ept"], registration["q"]) == ("sensor-1", "Sensor", True)
    resource = {"path": TEMPERATURE, "rt": "", "ct": "text/plain", "obs": True}
    assert registration["resources"] == [resource]
    assert server.log(key)[2][1]["ep"] == device


def test_a_registration_that_is_not_updated_in_time_expires(server, key, device):
    server.patch(key, device, online=False)
    server.advance(key, 24 * 3600)
    assert [entry["ep"] for kind, entry in server.log(key) if kind == "registrations-expired"] == [device]
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"


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
