"""Damaged or malformed snapshots raise an error of the package, with both clients. Source: wire.md 7."""

import functools
import io
import json
import operator
import random
import zlib

import httpx
import pandas as pd
import pyarrow as pa
import pytest
import snapshot_streams as streams
from changed_responses import Arriving, traced_peak, zipped
from snapshot_streams import arrow_stream, device, ndjson_stream

from mirror_sdk import MirrorClient
from mirror_sdk.errors import ConfigError, ConnectionFailed, InvalidValue, MirrorError, UnexpectedResponse
from mirror_sdk.frames import read_parquet
from mirror_sdk.snapshot import arrow_streams
from mirror_sdk.snapshot.batch_checks import COLUMNS
from mirror_sdk.snapshot.dataset import SnapshotDataset
from mirror_sdk.wire.snapshot import ARROW, NDJSON
from mirror_server.extensions.snapshots.arrow import SCHEMA

GZIP = {"Content-Encoding": "gzip"}
YEAR_MS = 31_556_952_000
FULL = 5
"""Number of a device with all resources and a desired value."""


def test_damaged_snapshot_never_crashes_or_returns_a_wrong_table():
    rng = random.Random(20)
    complete = [arrow_stream(streams.batches(), compression) for compression in (None, "lz4", "zstd")]
    damaged = [(ARROW, streams.mutated(complete[number % 3], rng)) for number in range(120)]
    damaged += [(NDJSON, streams.mutated(ndjson_stream(), rng)) for _ in range(30)]
    check_rejected = 0
    for form, content in damaged:
        with MirrorClient("http://localhost", "key", transport=response_with(form, content)) as client:
            try:
                frame = client.fleet.snapshot(raw=True)
            except (ConnectionFailed, UnexpectedResponse):
                check_rejected += 1
                continue
        # The result is usable, although Arrow decoded it from damaged bytes.
        frame.groupby("path", observed=True)["reported_num"].mean()
        frame.to_parquet(io.BytesIO())
        rows = frame.astype({"device_id": object, "path": object})[["device_id", "path"]]
        assert not rows.duplicated().any()
        assert not rows.isna().any().any()
    assert check_rejected > len(damaged) / 2


def test_the_columns_are_those_the_server_sends():
    assert COLUMNS.equals(SCHEMA)


def response_with(form, content, headers=None):
    """Return the response to a snapshot request with this content."""

    def answer(request):
        if request.headers["Accept"] != form:
            return httpx.Response(406, json={"object": "error", "code": 406, "type": "not_acceptable", "message": ""})
        return httpx.Response(200, headers={"Content-Type": form, **(headers or {})}, stream=Arriving(content, 4_096))

    return httpx.MockTransport(answer)


@pytest.fixture
def answering(client_of):
    """Create clients of such a service."""

    def make(form, content, headers=None, max_snapshot_bytes=1_000_000):
        return client_of(transport=response_with(form, content, headers), max_snapshot_bytes=max_snapshot_bytes)

    return make


@pytest.fixture
def check_rejected(answering):
    """Check that such a response is rejected with this message."""

    def check_rejected(message, *answer, error=UnexpectedResponse, **limits):
        with pytest.raises(error, match=message):
            answering(*answer, **limits).fleet.snapshot()

    return check_rejected


def changed(**members):
    return {**device(FULL), **members}


def resources(index, **members):
    """Replace the resource of the device at this position."""
    listed = device(FULL)["resources"]
    listed[index] = {**listed[index], **members}
    return changed(resources=listed)


def desired(**members):
    return changed(desired=[{**device(FULL)["desired"][0], **members}])


DAMAGED = {
    "a device twice in a batch": ([[device(1), device(1)]], "twice or out of order"),
    "a device twice in two batches": ([[device(1)], [device(1)]], "twice or out of order"),
    "a device twice at the end of a batch": ([[device(1), device(2), device(2)]], "twice or out of order"),
    "devices out of order": ([[device(2), device(1)]], "twice or out of order"),
    "devices out of order between batches": ([[device(1), device(3)], [device(2), device(4)]], "twice or out of order"),
    "a device without an id": ([[changed(device_id=None)]], "1 of device_id"),
    "a resource twice, with others between": ([[resources(3, path="/3/0/0")]], "resource of a device"),
    "a resource without a path": ([[resources(0, path=None)]], "1 of path"),
    "a path with bytes after it": (
        [[resources(0, path="/3303/0/57\x07\x00")]],
        r"'/3303/0/57.x07.x00' is not a resource",
    ),
    "a path of too large a number": ([[resources(0, path="/3303/0/65536")]], "go from 0 to 65535"),
    "an invalid resource": ([[changed(resources=[None, *device(FULL)["resources"]])]], "1 of resources"),
    "a resource that may be subscribed": ([[resources(0, subscribed=None)]], "1 of subscribed"),
    "an unchanged device": ([[changed(resources=None, desired=[])]], "has unchanged devices"),
    "a desired value of the next device": ([[desired(resource=5), device(11)]], "a resource that is missing"),
    "a desired value of no resource": ([[desired(resource=-1)]], "a resource that is missing"),
    "two desired values": ([[changed(desired=device(FULL)["desired"] * 2)]], "the desired value"),
    "an invalid status": ([[desired(desired_status=3)]], "desired_status"),
    "a time before the calendar": ([[resources(0, reported_at=-1970 * YEAR_MS)]], "reported_at"),
    "an end before the calendar": ([[resources(0, reported_expires_at=-1970 * YEAR_MS)]], "reported_expires_at"),
    "a write beyond it": ([[desired(desired_at=(10_000 - 1970) * YEAR_MS)]], "desired_at"),
    "a time beyond it": ([[desired(requested_at=(10_000 - 1970) * YEAR_MS)]], "requested_at"),
    "an invalid revision": ([[resources(0, reported_revision=-1)]], "reported_revision"),
    "an invalid revision of a write": ([[desired(desired_revision=-1)]], "desired_revision"),
}


def test_a_contradictory_response_is_rejected(answering, check_rejected, tmp_path):
    for damage, (rows, message) in DAMAGED.items():
        check_rejected(message, ARROW, arrow_stream(rows))
        with pytest.raises(UnexpectedResponse, match=message):
            answering(ARROW, arrow_stream(rows)).fleet.dataset(tmp_path / "fleet")
        assert list(tmp_path.glob("*fleet*")) == [], damage


def test_a_complete_snapshot_is_read(answering, tmp_path):
    client = answering(ARROW, arrow_stream(streams.batches()), {"Mirror-Total": "12"})
    assert len(client.fleet.snapshot()) == len(client.fleet.dataset(tmp_path / "fleet").to_frame()) == 30
    assert len(answering(NDJSON, ndjson_stream()).fleet.snapshot()) == 30


def test_nothing_may_follow_the_end(check_rejected):
    rows = streams.batches()
    for content in (
        arrow_stream(rows, ends_after=1),
        arrow_stream(rows, ends_after=0, device_count=4),
        arrow_stream(rows) + b"more",
        arrow_stream(rows) + arrow_stream(rows),
    ):
        check_rejected("continues after its end", ARROW, content)
    lines = ndjson_stream()
    for content in (lines + lines.splitlines(keepends=True)[0], lines + lines, lines + b'{"obj', lines + b"\n"):
        check_rejected(None, NDJSON, content)


def test_lines_are_validated_like_an_arrow_stream(check_rejected):
    *devices, end = ndjson_stream().splitlines(keepends=True)
    twice = json.loads(devices[1])
    twice["resources"] *= 2
    other = json.loads(devices[1])
    other["resources"][0]["resource_path"] = "/3303/0/57\x07\x00"
    unchanged = {"object": "device-echo-unchanged", "device_id": "f" * 32}
    for lines, message in (
        ([devices[0], *devices, end], "twice or out of order"),
        ([*reversed(devices), end], "twice or out of order"),
        ([devices[0], json.dumps(twice).encode() + b"\n", *devices[2:], end], "was sent twice"),
        ([devices[0], json.dumps(other).encode() + b"\n", *devices[2:], end], "is not a resource path"),
        ([*devices, json.dumps(unchanged).encode() + b"\n", end], "has unchanged devices"),
    ):
        check_rejected(message, NDJSON, b"".join(lines))


@pytest.mark.parametrize("form", [ARROW, NDJSON])
def test_device_count_equals_the_announced_count(answering, check_rejected, form):
    content = ndjson_stream() if form == NDJSON else arrow_stream(streams.batches())
    check_rejected("12 devices but announces 13", form, content, {"Mirror-Total": "13"})
    # A header that is not a number is ignored.
    assert len(answering(form, content, {"Mirror-Total": "9" * 5000}).fleet.snapshot()) == 30


def test_columns_of_other_types_are_rejected_and_unknown_ones_ignored(answering, check_rejected):
    for field in SCHEMA:
        index = SCHEMA.get_field_index(field.name)
        null = SCHEMA.set(index, pa.field(field.name, pa.null()))
        for other in (SCHEMA.remove(index), null, SCHEMA.append(field)):
            check_rejected(field.name, ARROW, arrow_stream([[]], schema=other))
    further = SCHEMA.append(pa.field("color", pa.list_(pa.large_string())))
    assert len(answering(ARROW, arrow_stream(streams.batches(), schema=further)).fleet.snapshot()) == 30


def test_an_instant_out_of_range_in_utc_is_rejected(check_rejected):
    lines = ndjson_stream().replace(b'"taken_at": "2026-01-31T00:00:00+00', b'"taken_at": "0001-01-01T00:00:00+14')
    assert b"+14:00" in lines
    check_rejected(None, NDJSON, lines)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_the_decompressed_size_of_arrow_buffers_is_limited(answering, compression, tmp_path):
    large = arrow_stream([[resources(0, reported_value=bytes(2_000_000))]], compression)
    assert compression is None or len(large) < 50_000
    client = answering(ARROW, large)
    for read in (client.fleet.snapshot, lambda: client.fleet.dataset(tmp_path / "fleet")):
        with pytest.raises(UnexpectedResponse, match="max_snapshot_bytes=1000000"):
            read()
    assert len(answering(ARROW, large, max_snapshot_bytes=3_000_000).fleet.snapshot()) == FULL


def test_many_small_parts_are_counted_together(answering, check_rejected):
    rows = [[device(number)] for number in range(1, 60)]
    for form, content in ((ARROW, arrow_stream(rows, "lz4")), (NDJSON, ndjson_stream())):
        check_rejected("max_snapshot_bytes", form, content, max_snapshot_bytes=3_000)
        answering(form, content).fleet.snapshot()


def test_one_part_is_bounded_however_much_all_may_have(check_rejected, monkeypatch):
    monkeypatch.setattr(arrow_streams, "MAX_MESSAGE_BYTES", 100_000)
    for compression in (None, "zstd"):
        large = arrow_stream([[resources(0, reported_value=bytes(200_000))]], compression)
        check_rejected("the limit is 100000", ARROW, large)
    monkeypatch.setattr(arrow_streams, "MAX_LINE_BYTES", 100_000)
    check_rejected("the limit is 100000", NDJSON, b" " * 200_000)


BOMBS = {
    "Arrow": (ARROW, lambda: zipped(arrow_stream([])[:-8], 100_000_000)),
    "NDJSON": (NDJSON, lambda: zipped(b"", 100_000_000)),
    "a long line": (NDJSON, lambda: zipped(b"{", 100_000_000)),
    "many long lines": (NDJSON, lambda: zlib.compress((b" " * 8_000_000 + b"\n") * 15, 1, wbits=31)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_decompression_bomb_needs_little_memory(check_rejected, bomb):
    form, pack = BOMBS[bomb]
    answer = (form, pack(), GZIP, 2_000_000_000 if "long" in bomb else 1_000_000)
    peak = traced_peak(lambda: check_rejected(None, *answer, error=MirrorError))
    assert peak < (64_000_000 if "long" in bomb else 30_000_000)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1 GB", None])
def test_an_invalid_limit_is_rejected(limit):
    with pytest.raises(ConfigError, match="max_snapshot_bytes"):
        MirrorClient("http://localhost", "key", max_snapshot_bytes=limit)


def test_refresh_validates_its_response_and_metadata(answering, plain, ids):
    frame = plain.fleet.snapshot()
    with pytest.raises(UnexpectedResponse, match="twice or out of order"):
        frame.mirror.refresh(answering(ARROW, arrow_stream([[device(1), device(1)]])))
    frame.attrs["mirror"]["selection"] = ["damaged"]
    with pytest.raises(InvalidValue, match="damaged"):
        frame.mirror.refresh(plain)


def test_a_full_disk_raises_its_own_error(answering, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mirror_sdk.snapshot.dataset.DatasetWriter.add", full)
    with pytest.raises(OSError, match="No space left"):
        answering(ARROW, arrow_stream(streams.batches())).fleet.dataset(tmp_path / "fleet")


def test_a_truncated_response_is_detected(check_rejected):
    content = arrow_stream(streams.batches())
    for length in (3, 100, len(content) // 2, len(content) - 9):
        check_rejected("was cut off", ARROW, content[:length], error=ConnectionFailed)
    # An empty body is truncated if a size was announced, and otherwise not a snapshot.
    check_rejected("was cut off after 0 of 4 devices", ARROW, b"", {"Mirror-Total": "4"}, error=ConnectionFailed)
    check_rejected("empty", ARROW, b"")


@pytest.fixture
def written(tmp_path, plain, ids):
    plain.fleet.dataset(tmp_path / "fleet")
    return tmp_path / "fleet"


def test_a_damaged_dataset_is_rejected(written):
    part = written / "part-00001.parquet"
    complete, expected = part.read_bytes(), SnapshotDataset(written).to_frame()
    pages = len(complete) - 8 - int.from_bytes(complete[-8:-4], "little")
    check_rejected = 0
    for at in range(4, pages, max(1, pages // 30)):
        part.write_bytes(complete[:at] + bytes([complete[at] ^ 0x01]) + complete[at + 1 :])
        try:
            pd.testing.assert_frame_equal(SnapshotDataset(written).to_frame(), expected)
        except InvalidValue:
            check_rejected += 1
    assert check_rejected > 15
    part.write_bytes(complete[: len(complete) // 2])
    with pytest.raises(InvalidValue, match="damaged"):
        read_parquet(part)
    with pytest.raises(InvalidValue, match="cut off"):
        SnapshotDataset(written)


def test_a_list_of_files_is_checked(written):
    listed = written / "_snapshot.json"
    complete = listed.read_bytes()
    listed.write_text(json.dumps(json.loads(complete) | {"version": 2}))
    with pytest.raises(InvalidValue, match=r"format version 2, .* reads format version 1\); write it again"):
        SnapshotDataset(written)
    listed.write_text(json.dumps({name: value for name, value in json.loads(complete).items() if name != "version"}))
    with pytest.raises(InvalidValue, match="the file has no format version"):
        SnapshotDataset(written)
    for member, value in (
        (("files", 0, "name"), "../../elsewhere.parquet"),
        (("files", 0, "rows"), -1),
        (("about", "devices"), "many"),
    ):
        content = json.loads(complete)
        parent = functools.reduce(operator.getitem, member[:-1], content)
        parent[member[-1]] = value
        listed.write_text(json.dumps(content))
        with pytest.raises(InvalidValue, match=rf"_snapshot.json: {'.'.join(map(str, member))}"):
            SnapshotDataset(written)
