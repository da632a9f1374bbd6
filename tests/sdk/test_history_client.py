"""client.history, over both clients, with a real server. Source: wire.md 10."""

import json
import pickle
from datetime import UTC, datetime, timedelta
from itertools import count

import httpx
import pyarrow as pa
import pytest
from changed_responses import LIGHT, RESOURCES, TEMPERATURE, response_with, without_arrow
from pandas.testing import assert_frame_equal

from mirror_sdk import BeforeHistory, NoHistory
from mirror_sdk.errors import CallTimeout, ConnectionFailed, InvalidValue, NotFound, UnexpectedResponse, UnknownDevice
from mirror_sdk.history.batch_checks import COLUMNS
from mirror_sdk.wire.snapshot import END_KEY

URL = "http://mirror.localhost"


@pytest.fixture
def history_seconds():
    return 7 * 86400.0


@pytest.fixture
def begin(simulator):
    """Return the instant before which nothing in this module happens."""
    simulator.advance(60)
    return simulator.get_clock()


@pytest.fixture
def devices(begin, simulator, plain):
    """Two devices: one observed, read and written to, and one that only registered."""
    first, second = (simulator.add_device(name, RESOURCES, endpoint_type="Light") for name in ("a", "b"))
    plain.subscribe(first, TEMPERATURE)
    for value in (22.5, 23.5):
        simulator.advance(10)
        simulator.set_value(first, TEMPERATURE, value)
    plain.read_value(first, "/3/0/0")
    plain.write_value(first, LIGHT, True)
    simulator.advance(10)
    return [first, second]


def is_history(request):
    """Return whether a request is for the history itself, not for that of units."""
    is_of_units = any(path.endswith("/5701") for path in request.url.params.get_list("path"))
    return request.url.path.endswith("/history") and not is_of_units


@pytest.fixture
def client_with_changes(client_over):
    """Create clients whose history is changed in transit."""
    return lambda change: client_over(
        lambda request, answer: change(request, answer) if is_history(request) else answer
    )


def cells(frame, *names):
    return frame[list(names)].astype(object).where(frame[list(names)].notna(), None).to_numpy().tolist()


def test_span_of_time_counts_back_from_the_present_of_the_service(client, plain, devices, tmp_path):
    """The clock of the mirror differs from that of this machine."""
    first, _ = devices
    chosen = {"devices": [first], "paths": [TEMPERATURE]}
    assert client.history(begin="25s", **chosen)["value_num"].tolist() == [22.5, 23.5]
    # Not before the first row: if the first checkpoint is created only now, the history starts there.
    earlier = client.history(begin=timedelta(seconds=30), end="15s", **chosen)
    assert earlier["value_num"].tolist()[-1] == 22.5
    assert client.as_of("15s", **chosen)["reported_num"].tolist() == [22.5]
    then = client.fleet.dataset(tmp_path / "fleet", **chosen, as_of="15s").to_frame()
    assert_frame_equal(then, client.as_of("15s", **chosen))
    with pytest.raises(BeforeHistory):
        client.fleet.dataset(tmp_path / "other", as_of=timedelta(days=400))
    assert [path.name for path in tmp_path.glob("*") if not path.name.startswith("mirror.db")] == ["fleet"]
    assert client.changes("15s", **chosen)["after_num"].tolist() == [23.5]
    assert {event.device_id for event in plain.devices.events(begin="1h")} == set(devices)
    assert plain.devices.events(begin="10s") == []


def test_events_are_sorted_by_device_path_and_time(client, devices, begin):
    frame = client.history(begin=begin)
    assert frame["device_id"].tolist() == sorted(frame["device_id"])
    of_first = frame[frame["device_id"] == devices[0]]
    assert cells(of_first, "path", "event", "origin", "value_num", "value_text", "value_bool", "status") == [
        [None, "registration", None, None, None, None, None],
        ["/3/0/0", "reported", "read", None, "Example", None, None],
        [TEMPERATURE, "reported", "observation", 21.5, None, None, None],
        [TEMPERATURE, "reported", "observation", 22.5, None, None, None],
        [TEMPERATURE, "reported", "observation", 23.5, None, None, None],
        [LIGHT, "write", "write", None, None, True, "success"],
    ]
    assert cells(frame[frame["device_id"] == devices[1]], "event") == [["registration"]]
    assert set(frame["endpoint_name"]) == {"a", "b"}
    metadata = frame.attrs["mirror"]
    assert (metadata["devices"], metadata["complete"], metadata["server"]) == (2, True, URL)
    assert (metadata["begin"], metadata["end"]) == (begin.strftime("%Y-%m-%dT%H:%M:%S.000Z"), None)
    assert metadata["oldest_at"] <= metadata["begin"] < metadata["taken_at"]


def test_an_interval_has_its_begin_and_not_its_end(client, devices, begin):
    first, last = client.history(["a"], [TEMPERATURE], begin=begin)["changed_at"].dropna().unique().tolist()[-2:]
    micro = timedelta(microseconds=1)
    for begin_at, end_at, expected in [
        (first, last, [22.5]),
        (first, last + micro, [22.5, 23.5]),
        (first, first, []),
        (first + micro, None, [23.5]),
    ]:
        frame = client.history(["a"], [TEMPERATURE], begin=begin_at, end=end_at)
        assert frame["value_num"].tolist() == expected


def test_devices_are_named_as_anywhere(client, devices, begin):
    expected = client.history([devices[0]], begin=begin)
    assert len(expected) == 6
    for chosen in (
        {"devices": ["a"]},
        {"devices": client.devices.list(endpoint_name="a")},
        {"filters": {"endpoint_name__in": ["a"]}},
        {"devices": devices, "endpoint_name": "a"},
    ):
        assert_frame_equal(client.history(begin=begin, **chosen), expected)
    assert client.history([], begin=begin).empty
    assert client.history(endpoint_type="Fan", begin=begin)["device_id"].isna().all()


def test_paths_choose_rows_but_for_those_without(client, devices, begin):
    frame = client.history(["a"], ["/331*", "/3/*"], begin=begin)
    assert frame["path"].dropna().unique().tolist() == ["/3/0/0", LIGHT]
    assert "registration" in frame["event"].tolist()


def test_many_devices_are_requested_in_batches(client, simulator, begin, monkeypatch):
    ids = [simulator.add_device(f"device-{number}", RESOURCES) for number in range(5)]
    complete = client.history(ids)
    assert (complete["event"] == "gap").sum() == (client.history()["event"] == "gap").sum()
    monkeypatch.setattr("mirror_sdk.history.history_request.MAX_IDS_PER_URL", 2)
    # Gaps of the service appear once.
    assert_frame_equal(client.history(reversed(ids)), complete)
    assert_frame_equal(client.history(ids, begin=begin, limit=3), client.history(begin=begin, limit=3))


def test_missing_device_is_warned_of_and_a_silent_one_is_not(client, simulator, devices):
    for named, error in ((["nobody"], UnknownDevice), ([devices[0], "0" * 32], NotFound)):
        with pytest.raises(error, match=named[-1]):
            client.history(named)
    assert client.history(devices, begin=simulator.get_clock()).empty


def test_invalid_arguments_are_rejected(client, simulator):
    for arguments, words in (
        ({"begin": datetime(2026, 1, 5)}, "begin=.* has no time zone"),
        ({"end": datetime(2026, 1, 5)}, "end=.* has no time zone"),
        ({"begin": datetime(2026, 1, 6, tzinfo=UTC), "end": datetime(2026, 1, 5, tzinfo=UTC)}, "is before begin"),
        ({"limit": -1}, "limit=-1"),
        ({"paths": ["/3*/0"]}, "at the end"),
        ({"tz": "Nowhere"}, "time zone"),
        ({"as_": "excel"}, "as_="),
    ):
        with pytest.raises(InvalidValue, match=words):
            client.history(**arguments)


def test_limit_sets_the_number_of_rows(client, devices, begin, monkeypatch):
    complete = client.history(begin=begin)
    for limit in (0, 4, len(complete)):
        assert cells(client.history(begin=begin, limit=limit), "revision") == cells(complete.head(limit), "revision")
    monkeypatch.setattr("mirror_sdk.history.history_request.MAX_ROWS", 3)
    assert_frame_equal(client.history(begin=begin, limit=1000), complete)


def test_history_is_available_in_other_table_formats(client, devices, begin):
    frame = client.history(begin=begin, raw=True)
    table = client.history(begin=begin, raw=True, as_="arrow")
    assert table["revision"].to_pylist() == frame["revision"].tolist()
    assert table["value_raw"].to_pylist() == [row[0] for row in cells(frame, "value_raw")]
    assert client.history(begin=begin, as_="polars").height == len(frame)
    assert str(client.history(begin=begin, tz="Europe/Berlin")["changed_at"].dt.tz) == "Europe/Berlin"
    for compression in ("none", "lz4", "zstd"):
        assert_frame_equal(client.history(begin=begin, raw=True, compression=compression), frame)


# Interruptions


@pytest.mark.parametrize(("is_arrow", "cuts"), [(True, 2), (False, 1)])
def test_history_requests_pages_until_the_instant_of_the_call(
    client_with_changes, simulator, plain, devices, is_arrow, cuts, monkeypatch
):
    monkeypatch.setattr("mirror_server.extensions.history.arrow._MOST_ROWS", 2)
    complete = plain.history()
    cursors: list[str | None] = []

    def cut(request, answer):
        sent = answer if is_arrow else without_arrow(request, answer)
        if not sent.is_success:
            return sent
        cursors.append(request.url.params.get("after"))
        # Changes between two responses are not included.
        simulator.advance(10)
        simulator.set_value(devices[0], TEMPERATURE, 99)
        return sent if len(cursors) > cuts else response_with(sent, sent.content[: len(sent.content) * 7 // 10])

    # No row is duplicated, and none is missing.
    assert cells(client_with_changes(cut).history(), "revision") == cells(complete, "revision")
    assert cursors[0] is None
    assert len(set(cursors)) == len(cursors) == cuts + 1
    assert 99 in plain.history()["value_num"].dropna().tolist()


def test_history_ends_at_an_empty_page(client_with_changes, devices):
    request_numbers = count()

    def cut(_, answer):
        return response_with(answer, answer.content[:100]) if next(request_numbers) < 9 else answer

    with pytest.raises(ConnectionFailed, match="was cut off after 0 rows"):
        client_with_changes(cut).history()
    assert next(request_numbers) == 1


def test_the_time_of_a_call_is_not_exceeded_by_going_on(client, monkeypatch, devices):
    def out_of_time(_, __, ___=None):
        raise CallTimeout("took longer than timeout=3")

    monkeypatch.setattr("mirror_sdk.history.history_reader.HistoryReader.read", out_of_time)
    with pytest.raises(CallTimeout):
        client.history()


# Malformed responses


def history_of(rows, **end):
    """Return a history with these rows, as a service sends it."""
    moments = {"taken_at": "2026-01-05T08:00:00Z", "oldest_at": "2026-01-05T08:00:00Z"}
    end = {"object": "history-end", **moments, "row_count": len(rows), "revision": 10**6, **end}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, COLUMNS) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=COLUMNS))
        writer.write_batch(pa.RecordBatch.from_pylist([], schema=COLUMNS), custom_metadata={END_KEY: json.dumps(end)})
    return sink.getvalue().to_pybytes()


def with_rows(change_rows, **changed_end):
    """Change the rows or the end of the first response."""

    def change(_, answer):
        rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
        return response_with(answer, history_of(change_rows(rows), **changed_end))

    return change


def of_first(**members):
    return lambda rows: [{**rows[0], **members}, *rows[1:]]


def with_an_odd_line(request, answer):
    sent = without_arrow(request, answer)
    return response_with(answer, answer.content.replace(b'"what"', b'"when"', 1)) if sent.is_success else sent


def test_impossible_rows_and_ends_are_rejected(client_with_changes, simulator, devices, begin):
    end = simulator.get_clock()
    for change, words in (
        (with_rows(lambda rows: [rows[0], *rows]), "twice or out of order"),
        (with_rows(lambda rows: [*rows[1:], rows[0]]), "twice or out of order"),
        (with_rows(of_first(device_id="0" * 31 + "1")), "asked for|id"),
        (with_rows(of_first(path="/9/9/9")), "requested /3303/"),
        (with_rows(of_first(path="here")), "not a resource path"),
        (with_rows(of_first(changed_at=datetime(2020, 1, 1, tzinfo=UTC))), "changed_at ranges from"),
        (with_rows(of_first(changed_at=end)), "changed_at ranges from"),
        (with_rows(of_first(status=9)), "status ranges from"),
        (with_rows(of_first(revision=None)), "revision are missing"),
        (with_rows(of_first(path=None, value=b"1")), "path are missing"),
        (with_rows(of_first(revision=-1)), "revision ranges from"),
        (with_rows(of_first(), row_count=1), "announces 1"),
        (with_rows(of_first(), row_count="many"), "does not follow the mirror API"),
        (with_rows(of_first(), taken_at=None), "does not follow the mirror API"),
        (with_rows(lambda _: [], after="more"), "without rows"),
        (
            lambda *_: httpx.Response(200, headers={"Content-Type": "text/csv"}, content=b"a"),
            r"not a history .*text",
        ),
        (with_an_odd_line, "what: missing"),
    ):
        with pytest.raises(UnexpectedResponse, match=words):
            client_with_changes(change).history([devices[0]], [TEMPERATURE], begin=begin, end=end)


def test_history_larger_than_the_limit_is_rejected(mirror, client_of, devices):
    client = client_of(URL, mirror.new_key(), transport=mirror.either_transport, max_snapshot_bytes=500)
    with pytest.raises(UnexpectedResponse, match=r"history has more than max_snapshot_bytes=500 .* begin="):
        client.history()


# Missing values


def test_instant_before_the_history_raises_with_the_oldest_instant(client, simulator, devices):
    begin = simulator.get_clock() - timedelta(days=20)
    with pytest.raises(
        BeforeHistory,
        match=r"stored history, 2\S+; request this time or a later one; error\.oldest_at has the start",
    ) as caught:
        client.history(begin=begin)
    oldest = caught.value.oldest_at
    assert begin < oldest <= simulator.get_clock()
    assert client.history(begin=oldest).attrs["mirror"]["oldest_at"] == oldest.strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.mark.parametrize("history_seconds", [None])
def test_a_service_that_keeps_none_says_how_to_have_one(client):
    with pytest.raises(NoHistory, match="--keep-history"):
        client.history()


def error_response(status, **more):
    body = {"object": "error", "code": status, "type": "x", "message": "no", **more}
    return lambda *_: httpx.Response(status, json=body)


def test_service_without_a_history_raises_no_history(client_with_changes):
    with pytest.raises(NoHistory, match="version of the service has no history"):
        client_with_changes(error_response(404)).history()


def test_an_unreadable_oldest_instant_becomes_none(client_with_changes):
    with pytest.raises(BeforeHistory) as caught:
        client_with_changes(error_response(400, reason="BEFORE_HISTORY", oldest_at="?")).history()
    assert caught.value.oldest_at is None


# Of a device object


def test_device_object_uses_the_client_that_returned_it(client, plain, devices, begin):
    expected = client.history(["a"], [TEMPERATURE], begin=begin)
    assert_frame_equal(plain.get_device("a").history(TEMPERATURE, begin=begin), expected)
    assert_frame_equal(client.get_device("a").history(TEMPERATURE, client=client, begin=begin), expected)


def test_of_an_asynchronous_client_it_is_awaited(run, plain, devices, begin):
    async def of_own(client):
        return await (await client.get_device("a")).history(TEMPERATURE, begin=begin)

    assert_frame_equal(run(of_own), plain.history(["a"], [TEMPERATURE], begin=begin))


def test_device_object_without_a_client_raises_with_the_cure(plain, devices, begin):
    device = plain.get_device("a")
    pickled = pickle.loads(pickle.dumps(device))
    assert pickled == device
    with pytest.raises(InvalidValue, match="pass client="):
        pickled.history(TEMPERATURE)
    assert_frame_equal(pickled.history(client=plain, begin=begin), device.history(begin=begin))
