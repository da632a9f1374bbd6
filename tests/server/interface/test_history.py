"""The history over HTTP: rows in two forms, in pages, with an end, and all that is refused. Source: wire.md 10."""

import base64
import json
from datetime import datetime
from functools import partial

import pyarrow as pa
import pytest
from waits import wait_until

from mirror_sdk.wire.history import (
    AFTER_KEY,
    COLUMNS,
    MAX_DEVICES,
    BeforeHistory,
    HistoryCursor,
    HistoryEnd,
    HistoryRow,
)
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, END_KEY, NDJSON
from mirror_server.arrow import history as arrow_history
from mirror_server.service import snapshots
from mirror_server.service.keys import Scope
from mirror_server.store import history as stored
from mirror_server.store import keys as stored_keys
from mirror_server.store import segments

HISTORY = "/v3/device-echo/history"
TEMPERATURE = "/3303/0/5700"
LEVEL = {"path": "/3311/0/5851", "value": "10", "writable": True, "observable": True}
DAY_SECONDS = 86_400


@pytest.fixture
def server(new_server):
    return new_server(keep_history_seconds=7 * DAY_SECONDS)


@pytest.fixture
def device(server, key):
    """A device of which six things are known: a registration, four values and the end of a write."""
    device_id = server.add_device(key, "a", {"path": TEMPERATURE, "value": "21.5", "observable": True}, LEVEL)
    server.subscribe(key, device_id)
    for value in ("22", "23"):
        server.advance(key, 60)
        server.set_value(key, device_id, value)
    server.place(key, device_id, "read", "GET", LEVEL["path"])
    server.place(key, device_id, "write", "PUT", LEVEL["path"], value="20")
    return device_id


def ask(server, key, query="", accept=NDJSON, *, buffered=True):
    return server.call(key, "GET", f"{HISTORY}?{query}", headers={"Accept": accept}, buffered=buffered)


def lines_of(server, key, query=""):
    """The rows and the end, each checked as strictly as the interface says."""
    answer = ask(server, key, query)
    assert (answer.status_code, answer.mimetype) == (200, NDJSON), answer.get_data()
    assert "Mirror-Total" not in answer.headers
    *lines, end = [json.loads(line) for line in answer.get_data().splitlines()]
    end = HistoryEnd.model_validate(end, extra="forbid")
    cursors = [line for line in lines if line["object"] == "history-cursor"]
    rows = [line for line in lines if line["object"] == "history-row"]
    assert [HistoryRow.model_validate(row, extra="forbid").to_wire() for row in rows] == rows
    assert all(HistoryCursor.model_validate(line, extra="forbid") for line in cursors)
    assert len(cursors) + len(rows) == len(lines)
    assert end.row_count == len(rows)
    return rows, end


def batches_of(content):
    """The batches of an Arrow stream, each with its metadata."""
    with pa.ipc.open_stream(content) as batches:
        while True:
            try:
                yield batches.read_next_batch_with_custom_metadata()
            except StopIteration:
                return


def arrow_of(server, key, query=""):
    """The rows and the end of the Arrow form, rows as JSON has them."""
    answer = ask(server, key, query, ARROW)
    assert (answer.status_code, answer.mimetype) == (200, ARROW), answer.get_data()
    *parts, (last, metadata) = batches_of(answer.get_data())
    assert last.num_rows == 0
    assert last.schema == arrow_history.SCHEMA
    assert tuple(last.schema.names) == COLUMNS
    assert all(part.num_rows and AFTER_KEY in told for part, told in parts)
    rows = [row for part, _ in parts for row in part.to_pylist()]
    end = HistoryEnd.model_validate_json(metadata[END_KEY], extra="forbid")
    assert end.row_count == len(rows)
    return [as_json(row) for row in rows], end


def as_json(row):
    def plain(value):
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, datetime):
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return value

    return {"object": "history-row"} | {name: plain(value) for name, value in row.items() if value is not None}


def told(rows):
    return [
        (row["what"], row.get("path"), ("value" in row and base64.b64decode(row["value"]).decode()) or None)
        for row in rows
    ]


def pages_of(server, key, query, limit, read=lines_of):
    """The rows of each page, asked for one after another."""
    rows, end = read(server, key, f"{query}&limit={limit}")
    yield rows
    while end.after is not None:
        rows, end = read(server, key, f"{query}&limit={limit}&after={end.after}")
        yield rows


def instant(server, seconds=0):
    """So many seconds from now, as a query has it."""
    at = datetime.fromtimestamp(server.now / 1000 + seconds).astimezone()
    return at.isoformat(timespec="milliseconds").replace("+", "%2B")


EXPECTED = [
    ("registration", None, None),
    ("reported", TEMPERATURE, "21.5"),
    ("reported", TEMPERATURE, "22"),
    ("reported", TEMPERATURE, "23"),
    ("reported", LEVEL["path"], "10"),
    ("desired", LEVEL["path"], "20"),
]


def test_a_line_is_a_thing_that_happened_and_the_last_one_counts_them(server, key, device):
    rows, end = lines_of(server, key)
    assert told(rows) == EXPECTED
    assert {(row["device_id"], row["endpoint_name"]) for row in rows} == {(device, "a")}
    assert (rows[-1]["status"], rows[-1]["origin"]) == (1, "write")
    assert rows[-1]["requested_at"] == rows[-1]["changed_at"]
    assert end.after is None
    assert end.revision >= max(row["revision"] for row in rows)
    assert len({row["revision"] for row in rows}) == len(rows)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_an_arrow_stream_tells_the_same(server, key, device, compression):
    assert arrow_of(server, key, f"compression={compression}") == lines_of(server, key)


def test_where_nothing_happened_there_is_an_end_too(server, key):
    assert lines_of(server, key)[0] == []
    assert arrow_of(server, key)[0] == []


def test_a_server_that_keeps_none_says_so(new_server, refused):
    server = new_server()
    body = refused(ask(server, server.key()), 404)
    assert body.reason == "NO_HISTORY"
    assert "--keep-history" in body.message


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("device_id={a}", {"a"}),
        ("device_id={a}&device_id={b}", {"a", "b"}),
        ("device_id=nobody", set()),
        ("id={b}", {"b"}),
        ("endpoint_name__in=a,b", {"a", "b"}),
        ("filter=endpoint_type%3DB", {"b"}),
        ("device_id={a}&endpoint_type=B", set()),
        ("state=registered", {"a", "b"}),
    ],
)
def test_devices_are_selected(server, key, device, query, expected):
    other = server.add_device(key, "b", endpoint_type="B")
    asked = query.format(a=device, b=other)
    for read in (lines_of, arrow_of):
        rows, _ = read(server, key, asked)
        assert {row["endpoint_name"] for row in rows} == expected


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("path=/3303/0/5700", {TEMPERATURE}),
        ("path=/33*", {TEMPERATURE, LEVEL["path"]}),
        ("path=/3303/*&path=/3311/0/5851", {TEMPERATURE, LEVEL["path"]}),
        ("path=/9/*", set()),
    ],
)
def test_resources_are_selected_and_what_is_of_none_comes_in_any_case(server, key, device, query, paths):
    for read in (lines_of, arrow_of):
        rows, _ = read(server, key, query)
        assert {row.get("path") for row in rows} == paths | {None}


def test_the_time_is_from_an_instant_on_and_before_another(server, key, device):
    rows, _ = lines_of(server, key)
    times = sorted({row["changed_at"] for row in rows})
    for begin in times:
        for end in [one for one in times if one >= begin]:
            found, _ = lines_of(server, key, f"from={begin}&to={end}")
            assert found == [row for row in rows if begin <= row["changed_at"] < end]
    assert lines_of(server, key, f"from={times[0]}&to={instant(server, 60)}")[0] == rows
    assert lines_of(server, key, f"from={instant(server, 60)}")[0] == []


def test_the_order_may_be_turned_round(server, key, device):
    rows, _ = lines_of(server, key)
    assert lines_of(server, key, "order=DESC")[0] == rows[::-1]
    assert arrow_of(server, key, "order=DESC")[0] == rows[::-1]
    assert lines_of(server, key, "order=ASC")[0] == rows


@pytest.mark.parametrize("read", [lines_of, arrow_of])
@pytest.mark.parametrize("query", ["order=ASC", "order=DESC", f"path={TEMPERATURE}"])
def test_pages_together_are_the_whole(server, key, device, query, read):
    whole, _ = read(server, key, query)
    for limit in (1, 2, 4, 6, 100):
        pages = list(pages_of(server, key, query, limit, read))
        assert [row for page in pages for row in page] == whole
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert 0 < len(pages[-1]) <= limit


def test_a_page_that_ends_with_the_last_row_has_no_other_behind_it(server, key, device):
    assert lines_of(server, key, f"limit={len(EXPECTED)}")[1].after is None
    assert lines_of(server, key, f"limit={len(EXPECTED) - 1}")[1].after is not None


def test_pages_show_what_was_known_when_the_first_one_was_begun(server, key, device):
    whole, first = lines_of(server, key)
    rows, end = lines_of(server, key, "limit=2")
    server.advance(key, 60)
    server.set_value(key, device, "99")
    server.add_device(key, "0")
    # What came late stands at its own time, and in no page that is part of an earlier read.
    for _ in range(len(whole)):
        if end.after is None:
            break
        more, end = lines_of(server, key, f"limit=2&after={end.after}")
        assert (end.taken_at, end.revision) == (first.taken_at, first.revision)
        rows += more
    assert rows == whole
    assert len(lines_of(server, key)[0]) == len(whole) + 2


@pytest.mark.parametrize("form", [NDJSON, ARROW])
def test_a_cut_answer_goes_on_behind_the_last_cursor_it_told(server, key, device, monkeypatch, form):
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 2)
    whole, _ = lines_of(server, key)
    content = ask(server, key, accept=form).get_data()
    if form == NDJSON:
        cursors = [json.loads(line)["after"] for line in content.splitlines() if b"history-cursor" in line]
    else:
        cursors = [told[AFTER_KEY].decode() for _, told in batches_of(content) if AFTER_KEY in told]
    assert len(cursors) >= 3
    rests = [lines_of(server, key, f"after={cursor}")[0] for cursor in cursors]
    assert all(rest == whole[len(whole) - len(rest) :] for rest in rests)
    assert [len(rest) for rest in rests] == sorted({len(rest) for rest in rests}, reverse=True)
    assert rests[-1] == []


def test_a_cursor_outlives_a_restart_and_another_key_may_use_it(server, key, device):
    whole, _ = lines_of(server, key)
    rows, end = lines_of(server, key, "limit=3")
    server.restart()
    for reader in (key, server.key(Scope.READ)):
        later, end_later = lines_of(server, reader, f"after={end.after}")
        assert rows + later == whole
        assert end_later.taken_at == end.taken_at


def test_what_cannot_be_is_refused_by_name(server, key, device, refused):
    cases = [
        ("nonsense=1", "nonsense", "unknown"),
        ("changed_after=1", "changed_after", "unknown"),
        ("as_of=2026-01-05T08:00:00Z", "as_of", "unknown"),
        ("path=/3*/0", "path", "'*'"),
        ("&".join(f"path=/{number}/0/0" for number in range(257)), "path", "256"),
        ("&".join(f"device_id={number}" for number in range(MAX_DEVICES + 1)), "device_id", str(MAX_DEVICES)),
        ("compression=gzip", "compression", "zstd"),
        ("order=down", "order", "DESC"),
        ("limit=0", "limit", "10000000"),
        ("limit=10000001", "limit", "10000000"),
        ("limit=2&limit=3", "limit", "once"),
        ("from=2026-01-05T08:00:00", "from", "has no zone"),
        ("to=2026-01-05T08:00:00", "to", "has no zone"),
        ("from=yesterday", "from", "is no time"),
        ("from=1767600000000", "from", "is no time"),
        ("from=2026-01-05T08:00:00Z&from=2026-01-05T08:00:00Z", "from", "once"),
        ("from=2026-01-05T09:00:00Z&to=2026-01-05T08:59:59.999Z", "to", "before 'from'"),
        ("after=", "after", "no cursor"),
        ("after=7", "after", "no cursor"),
        ("after=%C3%A9", "after", "no cursor"),
        ("after=W10", "after", "no cursor"),
        ("after=" + "x" * 4000, "after", "no cursor"),
    ]
    for query, field, word in cases:
        for accept in (NDJSON, ARROW):
            body = refused(ask(server, key, query, accept), 400, field)
            assert word in body.fields[0].message
    # None of them has kept a place.
    assert ask(server, key).status_code == 200


CURSOR = ["0" * 16, 0, 10, "d", TEMPERATURE, 0, 5]


@pytest.mark.parametrize(
    ("resource", "own"),
    [
        (HISTORY, "from, to, path, device_id, order, limit, after, compression"),
        ("/v3/device-echo", "path, as_of, changed_after, compression"),
        ("/v3/device-echo/ranges", "devices_per_range"),
        ("/v3/devices", "limit, after, order, include"),
    ],
)
def test_a_misspelt_parameter_is_refused_with_all_there_are(server, key, device, refused, resource, own):
    answer = server.call(key, "GET", f"{resource}?begin=2026-01-05T08:00:00Z")
    (field,) = refused(answer, 400, "begin").fields
    assert field.message.startswith("unknown filter; known are id, ")
    assert field.message.endswith(f"; what is no filter is {own}")


def test_a_cursor_that_somebody_made_up_is_refused(server, key, device, refused):
    _, end = lines_of(server, key, "limit=1")
    content = json.loads(base64.urlsafe_b64decode(end.after + "=" * (-len(end.after) % 4)))
    cases = [
        {1: 2**60},
        {1: "0"},
        {2: -1},
        {2: 2**63},
        {2: 1.5},
        {2: True},
        {3: "\0"},
        {3: 7},
        {4: "no path"},
        {5: -(2**60)},
        {6: None},
        {6: 2**64},
        {6: float("nan")},
    ]
    for changed in cases:
        flat = [content[0][0], *content[0][1:], *content[1]]
        for place, value in changed.items():
            flat[place] = value
        text = json.dumps([flat[:3], flat[3:]]).encode()
        forged = base64.urlsafe_b64encode(text).decode().rstrip("=")
        refused(ask(server, key, f"after={forged}"), 400, "after")


@pytest.mark.parametrize(
    "other",
    ["order=DESC", "path=/3303/*", "device_id=x", "state=registered", "from={now}", "to={now}"],
)
def test_the_cursor_of_another_request_is_refused(server, key, device, refused, other):
    _, end = lines_of(server, key, "limit=2")
    query = other.format(now=instant(server))
    body = refused(ask(server, key, f"{query}&after={end.after}"), 400, "after")
    assert "other parameters" in body.message
    # How many rows a page has, and how it is sent, are no other request.
    assert (
        lines_of(server, key, f"limit=1&after={end.after}")[0]
        == arrow_of(server, key, f"compression=zstd&limit=1&after={end.after}")[0]
    )


def test_before_what_is_kept_the_oldest_instant_is_named(server, key, device):
    _, end = lines_of(server, key)
    for field, query in {"from": "from=2020-01-01T00:00:00Z", "to": "to=2020-01-01T00:00:00Z"}.items():
        answer = ask(server, key, query)
        body = BeforeHistory.model_validate(answer.json, extra="forbid")
        assert (answer.status_code, body.reason) == (400, "BEFORE_HISTORY")
        assert [one.name for one in body.fields] == [field]
        assert body.oldest_at == end.oldest_at
        assert end.to_wire()["oldest_at"] in body.message
    oldest_at = end.to_wire()["oldest_at"]
    assert lines_of(server, key, f"from={oldest_at}")[0] == lines_of(server, key)[0]


@pytest.mark.parametrize(
    ("accept", "form"), [("", NDJSON), ("*/*", NDJSON), (ARROW, ARROW), (f"{NDJSON};q=0.5, {ARROW}", ARROW)]
)
def test_the_form_is_the_one_asked_for(server, key, accept, form):
    assert ask(server, key, accept=accept).mimetype == form


def test_another_form_is_refused_and_a_head_too(server, key, refused):
    body = refused(ask(server, key, accept="text/html"), 406)
    assert ARROW in body.message
    assert server.call(key, "HEAD", HISTORY).status_code == 405


def test_only_the_issuer_is_told_why_a_write_failed(server, key, other, device):
    server.patch(key, device, answer="reject")
    server.place(key, device, "mine", "PUT", LEVEL["path"], value="30")
    server.place(other, device, "theirs", "PUT", LEVEL["path"], value="40")
    reader = server.key(Scope.READ)
    for read in (lines_of, arrow_of):
        for asking, expected in ((key, {"30"}), (other, {"40"}), (reader, set()), (key, {"30"})):
            rows, _ = read(server, asking)
            failed = [row for row in rows if row.get("status") == 2]
            assert [base64.b64decode(row["value"]).decode() for row in failed] == ["30", "40"]
            assert {base64.b64decode(row["value"]).decode() for row in failed if "category" in row} == expected
    content = ask(server, reader, accept=ARROW).get_data()
    assert b"REJECTED" not in b"".join(part.serialize().to_pybytes() for part, _ in batches_of(content))
    assert not any(b"REJECTED" in piece for piece in [ask(server, reader).get_data()])


def test_nobody_is_told_which_application_placed_a_write(server, key, device):
    application = key.split("_")[1].encode()
    for accept in (NDJSON, ARROW):
        assert application not in ask(server, server.key(Scope.READ), accept=accept).get_data()


def test_what_is_no_text_comes_as_it_is(server, key, device):
    payload = base64.b64encode(b"\xff\x00\xfe").decode()
    body = {"content-type": "application/octet-stream", "payload-b64": payload}
    server.place(key, device, "bytes", "PUT", LEVEL["path"], **body)
    for read in (lines_of, arrow_of):
        row = read(server, key)[0][-1]
        assert (row["value"], row["content_type"]) == (payload, "application/octet-stream")


def test_a_stretch_in_which_nothing_was_heard_is_a_row(server, key, device, restart_later):
    down_at = server.now
    restart_later(3600)
    for query in ("", f"path={TEMPERATURE}", "device_id=nobody", f"from={instant(server, -60)}"):
        for read in (lines_of, arrow_of):
            rows, _ = read(server, key, query)
            gap = next(row for row in rows if row["what"] == "gap")
            assert "device_id" not in gap
            assert datetime.fromisoformat(gap["changed_at"]).timestamp() * 1000 == down_at
            assert datetime.fromisoformat(gap["until"]).timestamp() * 1000 == down_at + 3_600_000
    assert lines_of(server, key)[0][0]["what"] == lines_of(server, key, "order=DESC")[0][-1]["what"] == "gap"
    for limit in (1, 3):
        for order in ("ASC", "DESC"):
            pages = list(pages_of(server, key, f"order={order}", limit))
            assert [row for page in pages for row in page] == lines_of(server, key, f"order={order}")[0]


@pytest.mark.parametrize("form", [ARROW, NDJSON])
def test_it_shows_one_moment_whatever_happens_while_it_is_sent(server, key, device, monkeypatch, form):
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 1)
    whole = ask(server, key, accept=form).get_data()
    answer = ask(server, key, accept=form, buffered=False)
    chunks = iter(answer.response)
    begin = next(chunks)
    server.set_value(key, device, "99")
    server.registration(key, device, "DELETE")
    server.services.database.write(lambda session: stored.erase(session, [device]))
    assert begin + b"".join(chunks) == whole
    answer.close()
    assert lines_of(server, key)[0] == []


@pytest.mark.parametrize("form", [ARROW, NDJSON])
def test_it_breaks_off_without_its_end_when_the_key_is_revoked(server, key, device, monkeypatch, form):
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 1)
    reader = server.key(Scope.READ)
    answer = ask(server, reader, accept=form, buffered=False)
    chunks = iter(answer.response)
    content = next(chunks) + next(chunks)
    key_id = reader.split("_")[1]
    assert server.services.database.write(lambda session: stored_keys.revoke(session, key_id, server.now))
    content += b"".join(chunks)
    answer.close()
    whole = ask(server, key, accept=form).get_data()
    assert len(content) < len(whole)
    assert b"history-end" not in content
    assert ask(server, reader).status_code == 401


def test_only_some_are_sent_at_once_and_an_ended_one_makes_room(server, key, device):
    most = snapshots._MOST_AT_ONCE
    open_ones = [ask(server, key, buffered=False) for _ in range(most // 2)]
    for path in (HISTORY, "/v3/device-echo"):
        answer = server.call(key, "GET", path)
        assert (answer.status_code, answer.json["reason"]) == (429, "TOO_MANY_SNAPSHOTS")
        assert answer.headers["Retry-After"] == "2"
    assert ask(server, server.key()).status_code == 200
    next(iter(open_ones[0].response))
    for one in open_ones:
        one.close()
    for _ in range(2 * most):
        assert len(lines_of(server, key)[0]) == len(EXPECTED)
    for _ in range(2 * most):
        assert ask(server, key, "from=2020-01-01T00:00:00Z").status_code == 400
    assert ask(server, key).status_code == 200


@pytest.mark.parametrize(("rows", "size"), [(1, 10**9), (10**9, 3), (2, 10**9)])
def test_batches_are_bounded(server, key, device, monkeypatch, rows, size):
    whole = arrow_of(server, key)
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", rows)
    monkeypatch.setattr(arrow_history, "_MOST_BYTES", size)
    monkeypatch.setattr("mirror_server.views.history._CHUNK_BYTES", size)
    assert arrow_of(server, key) == whole == lines_of(server, key)
    parts = [part.num_rows for part, _ in batches_of(ask(server, key, accept=ARROW).get_data())]
    assert max(parts) == (2 if rows == 2 else 1)


def test_a_broken_off_stream_is_known_by_its_missing_end(server, key, device, monkeypatch):
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 1)
    for form in (NDJSON, ARROW):
        answer = ask(server, key, accept=form, buffered=False)
        chunks = list(answer.response)
        answer.close()
        assert len(chunks) > len(EXPECTED)
        for count in range(len(chunks)):
            assert b"history-end" not in b"".join(chunks[:count])
        assert chunks[-1].count(b"history-end") == 1


def test_a_device_that_is_erased_is_told_no_more(server, key, device):
    other = server.add_device(key, "b")
    _, end = lines_of(server, key, "limit=1")
    server.services.database.write(partial(stored.erase, device_ids=[device]))
    for read in (lines_of, arrow_of):
        assert {row["device_id"] for row in read(server, key)[0]} == {other}
        # An earlier read goes on with what there is.
        assert {row["device_id"] for row in read(server, key, f"after={end.after}")[0]} <= {other}


def test_rows_that_went_on_to_the_archive_between_two_pages_are_told_as_before(new_server, tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 2)
    server = new_server(keep_history_seconds=7 * DAY_SECONDS, history_archive=str(tmp_path / "archive"))
    key, other = server.key(), server.key()
    device = server.add_device(key, "a", {"path": TEMPERATURE, "value": "21.5", "observable": True}, LEVEL)
    server.subscribe(key, device)
    for value in ("22", "23"):
        server.advance(key, 60)
        server.set_value(key, device, value)
    server.patch(key, device, answer="reject")
    server.place(key, device, "mine", "PUT", LEVEL["path"], value="30")
    at = instant(server)
    before = {reader: lines_of(server, reader)[0] for reader in (key, other)}
    first = {reader: lines_of(server, reader, "limit=2") for reader in (key, other)}
    states = {reader: ask_as_of(server, reader, at) for reader in (key, other)}
    server.advance(key, 2 * DAY_SECONDS)
    await_archive(server)
    for reader in (key, other):
        rows, end = first[reader]
        for read in (lines_of, arrow_of):
            assert rows + read(server, reader, f"after={end.after}")[0] == before[reader]
        assert ask_as_of(server, reader, at) == states[reader]
    assert "category" in before[key][-1]
    assert "category" not in before[other][-1]


def ask_as_of(server, key, at):
    """The lines as of an instant."""
    answer = server.call(key, "GET", f"/v3/device-echo?as_of={at}", buffered=True)
    assert answer.status_code == 200
    return answer.get_data()


def await_archive(server):
    """Wait until rows have gone on to files."""

    def has_files() -> bool:
        with server.services.database.read() as session:
            return bool(list(segments.files(session)))

    wait_until(has_files, "files")
