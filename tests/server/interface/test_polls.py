"""Long polls: plain, with a position of the reader, and waiting. Source: wire.md 4 and 5."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from resource_paths import TEMPERATURE

from mirror_server.core.errors import ApiError
from mirror_server.devices.interface import Content, Observation
from mirror_server.store import logs
from mirror_server.store.backend import StorageFailed

PULL = "/v2/notification/pull"
CHANNEL = "/v2/notification/channel"


@pytest.fixture
def submit_reads(server, key, device):
    def submit_all(*async_ids):
        for async_id in async_ids:
            assert server.submit(key, device, async_id, "GET", TEMPERATURE).status_code == 202

    return submit_all


@pytest.fixture
def plain_poll(server, key):
    """Return the async-ids of a plain poll without wait; ``None`` if it was empty."""

    def poll():
        response = server.call(key, "GET", f"{PULL}?hold=0")
        assert "Mirror-Cursor" not in response.headers
        return (
            [entry["id"] for entry in response.json.get("async-responses", [])] if response.status_code == 200 else None
        )

    return poll


@pytest.fixture
def read_after(server, key):
    """Return the async-ids after a position, and the cursor."""

    def read(after):
        response = server.call(key, "GET", PULL, query_string={"after": after, "hold": 0})
        assert "Mirror-Gap" not in response.headers
        entries = response.json.get("async-responses", []) if response.status_code == 200 else []
        return [entry["id"] for entry in entries], int(response.headers["Mirror-Cursor"])

    return read


def test_plain_poll_has_neither_uid_nor_timestamp(server, key, device, submit_reads):
    server.subscribe(key, device)
    submit_reads("a")
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


def test_readers_with_positions_do_not_affect_each_other_or_a_plain_poll(submit_reads, plain_poll, read_after):
    submit_reads("a", "b")
    for _ in range(2):
        assert read_after(0) == read_after(1) == (["a", "b"], 3)
    assert read_after(2) == (["b"], 3)
    assert read_after(3) == read_after("latest") == ([], 3)
    assert plain_poll() == ["a", "b"]
    assert plain_poll() is None
    assert read_after(0) == (["a", "b"], 3)
    submit_reads("c")
    assert read_after("latest")[1] == 4
    assert plain_poll() == ["c"]


@pytest.mark.parametrize("plain", ["", "hold=25", "noWait=false"])
def test_entry_wakes_all_polls_of_its_key_only(server, key, other, submit_reads, plain_poll, open_poll, plain):
    plain_poll()
    theirs = open_poll(other, "after=latest&hold=25")
    responses = {query: open_poll(key, query) for query in (plain, "after=1", "after=latest&hold=25")}
    assert not any(response.done() for response in responses.values())
    submit_reads("a")
    for query, response in responses.items():
        woken = response.result(60)
        assert [entry["id"] for entry in woken.json["async-responses"]] == ["a"]
        assert ("Mirror-Cursor" in woken.headers) is ("after" in query)
    assert not theirs.done()
    server.add_device(key, "sensor-2")
    assert list(theirs.result(60).json) == ["registrations"]


def test_poll_waits_25_seconds_or_as_long_as_requested(server, key, plain_poll, device, hold_seconds):
    plain_poll()
    cases = {"": 25, "?after=1": 25, "?after=latest": 25, "?hold=0": 0, "?hold=55": 55, "?after=1&hold=55": 55}
    assert {query: hold_seconds(key, query) for query in cases} == cases


def test_invalid_poll_is_400_by_name_without_opening_a_channel(server, key, device, check_error):
    cases = [
        *[(f"after={value}", "after", "") for value in ("", "x", "-1", "1.0", "%2B1", "LATEST", "9" * 30)],
        ("after=%D9%A1", "after", ""),
        *[(f"hold={value}", "hold", "55") for value in ("", "x", "-1", "56", "0.5", "25s")],
        ("after=0&hold=56", "hold", "55"),
        *[(query, "noWait", "") for query in ("noWait=1", "noWait=", "noWait=true&noWait=true")],
        ("aftr=1", "aftr", "supported: after, hold, noWait"),
    ]
    for query, field, message in cases:
        assert message in check_error(server.call(key, "GET", f"{PULL}?{query}"), 400, field).message, query
    check_error(server.call(key, "GET", CHANNEL), 404)
    assert len(server.call(key, "GET", f"{PULL}?hold=0").json["registrations"]) == 1


def test_position_beyond_the_log_has_its_own_reason(server, key, device, check_error):
    for beyond in (2, 10**17):
        body = check_error(server.call(key, "GET", f"{PULL}?after={beyond}"), 400, "after")
        assert body.reason == "CURSOR_BEYOND_LOG"
        assert "latest" in body.message


def test_second_plain_poll_is_409_while_one_is_open(
    server, key, submit_reads, plain_poll, read_after, open_poll, other, check_error
):
    plain_poll()
    response = open_poll(key, "hold=25")
    body = check_error(server.call(key, "GET", f"{PULL}?hold=0"), 409)
    assert "after" in body.message
    assert read_after(0)[1] == 1
    assert server.call(other, "GET", f"{PULL}?hold=0").status_code == 204
    assert not response.done()
    submit_reads("a")
    assert response.result(60).status_code == 200
    assert plain_poll() is None


def test_deleting_the_channel_ends_only_the_plain_poll_of_its_key_with_410(
    server, key, submit_reads, plain_poll, other, open_poll, check_error
):
    plain_poll()
    mine, theirs, reader = open_poll(key, "hold=25"), open_poll(other, "hold=25"), open_poll(key, "after=1&hold=25")
    assert server.call(key, "DELETE", PULL).status_code == 204
    check_error(mine.result(60), 410)
    check_error(server.call(key, "GET", CHANNEL), 404)
    assert not reader.done()
    assert not theirs.done()
    submit_reads("a")
    assert reader.result(60).status_code == 200
    assert plain_poll() == ["a"]
    server.add_device(key, "sensor-2")
    assert theirs.result(60).status_code == 200


def test_poll_channel_exists_from_first_plain_poll_to_deletion_without_loss(
    server, key, submit_reads, plain_poll, check_error
):
    for _ in range(2):
        assert server.call(key, "DELETE", PULL).status_code == 204
    submit_reads("a")
    server.call(key, "GET", f"{PULL}?after=0&hold=0")
    check_error(server.call(key, "GET", CHANNEL), 404)
    assert plain_poll() == ["a"]
    assert server.channel(key) == {"delivery_mechanism": "LONG_POLLING"}
    check_error(server.call(server.key(), "GET", CHANNEL), 404)
    assert server.call(key, "DELETE", PULL).status_code == 204
    check_error(server.call(key, "GET", CHANNEL), 404)
    assert plain_poll() is None


def test_async_responses_go_to_their_issuer_and_registrations_to_all(server, key, device, submit_reads, other):
    submit_reads("a")
    assert server.log(other) == []
    server.registration(key, device, "POST")
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    kinds = ["registrations", "reg-updates", "de-registrations"]
    assert server.kinds(other) == kinds
    assert server.kinds(key) == ["registrations", "async-responses", *kinds]


@pytest.mark.parametrize(("value", "count"), [(b"22", 1), (b"22", 3), (b"x" * 65_536, 70)])
def test_open_poll_gets_the_entry_that_a_later_reader_reads(server, key, device, open_poll, value, count):
    server.subscribe(key, device)
    after = server.services.log.last_seq(key.split("_")[1])
    response = open_poll(key, f"after={after}&hold=25")
    observation = Observation(device, TEMPERATURE, Content(value), server.services.clock.now())
    server.services.devices.observed([observation] * count).result(60)
    polled, read = response.result(60), server.call(key, "GET", f"{PULL}?after={after}&hold=0")
    assert polled.headers["Mirror-Cursor"] == read.headers["Mirror-Cursor"]
    assert polled.get_data() == read.get_data()


def test_poll_woken_while_its_channel_is_deleted_does_not_move_the_position(server, key, device, monkeypatch):
    polls = server.services.polls
    advance = polls.advance

    def advance_late(*poll):
        assert server.call(key, "DELETE", PULL).status_code == 204
        return advance(*poll)

    monkeypatch.setattr(polls, "advance", advance_late)
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 410
    monkeypatch.undo()
    assert server.call(key, "GET", CHANNEL).status_code == 404
    assert list(server.call(key, "GET", f"{PULL}?hold=0").json) == ["registrations"]


def test_channel_deleted_while_opening_is_stored_as_deleted(server, key, monkeypatch):
    polls, app_id = server.services.polls, key.split("_")[1]
    submit_durable = server.services.database.submit_durable
    with ThreadPoolExecutor(1) as pool:

        def submit_after_delete(work):
            deleted = pool.submit(polls.delete, app_id)
            wait([deleted], timeout=0.2)
            return submit_durable(work)

        monkeypatch.setattr(server.services.database, "submit_durable", submit_after_delete)
        polls.open(app_id)
        monkeypatch.undo()
    assert server.services.database.settle(60)
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404


def test_channel_404_names_how_to_open_each_type(server, key):
    response = server.call(key, "GET", CHANNEL)
    assert response.status_code == 404
    assert response.json["message"].startswith(
        "this key has no notification channel; a GET of /v2/notification/pull opens one to poll, a PUT to"
        " /v2/notification/callback registers a webhook"
    )


def test_poll_ends_for_a_webhook_stored_a_moment_before(server, key, device):
    polls, app_id = server.services.polls, key.split("_")[1]
    server.services.database.write(
        lambda session: logs.put_webhook(session, app_id, '{"url":"http://127.0.0.1:1/"}', 0)
    )
    more = polls.open(app_id)
    assert server.services.database.settle(60)
    for read in (more.result, lambda: polls.advance(app_id, more, polls.read(app_id, more))):
        with pytest.raises(ApiError, match="one type of channel"):
            read()
    assert server.channel(key)["delivery_mechanism"] == "CALLBACK"
    assert not server.services.database.query(lambda session: polls.exists(session, app_id))


@pytest.mark.parametrize("query", ["hold=25", "after=0&hold=25"])
def test_poll_that_fails_to_read_is_not_left_open(server, key, monkeypatch, query):
    def fail(*_):
        raise StorageFailed("cannot reach its database")

    for name in ("state", "read"):
        monkeypatch.setattr(f"mirror_server.store.logs.{name}", fail)
    assert server.call(key, "GET", f"{PULL}?{query}").status_code == 503
    monkeypatch.undo()
    assert server.services.log.open_polls == 0
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204


def test_large_entries_are_split_over_several_messages(server, key):
    device = server.add_device(key, "camera", {"path": "/3341/0/5527", "value": "x" * 65_536})
    for number in range(60):
        server.submit(key, device, f"r{number}", "GET", "/3341/0/5527")
    after, sizes = 1, []
    while (response := server.call(key, "GET", f"{PULL}?hold=0&after={after}")).status_code == 200:
        after = int(response.headers["Mirror-Cursor"])
        sizes.append(len(response.get_data()))
    assert after == 61
    assert len(sizes) == 2
    assert max(sizes) < 4.5 * 1024 * 1024


def test_poll_with_no_wait_returns_at_once(server, key):
    for query in ("noWait=true", "noWait=True&hold=20", "noWait=true&after=0"):
        assert server.call(key, "GET", f"{PULL}?{query}").status_code == 204
    server.add_device(key, "sensor-1")
    response = server.call(key, "GET", f"{PULL}?noWait=true")
    assert (response.status_code, len(response.json["registrations"])) == (200, 1)
