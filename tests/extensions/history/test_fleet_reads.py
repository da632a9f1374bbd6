"""Common behavior of the snapshot, the fleet as of an instant, and the history. Source: wire.md 7 and 10."""

import sys
from functools import partial

import pytest
from device_resources import sensor
from fleet_reads import HISTORY, SNAPSHOT, get, instant, lines_of
from resource_paths import TEMPERATURE

from mirror_sdk.wire.history import MAX_DEVICES, BeforeHistoryBody
from mirror_sdk.wire.snapshot import ARROW, NDJSON
from mirror_server.extensions.history import arrow as arrow_history
from mirror_server.extensions.history.store import history
from mirror_server.extensions.snapshots import service as snapshots
from mirror_server.service import slow_reads
from mirror_server.service.keys import Scope

RANGES = f"{SNAPSHOT}/ranges"
WITH_HISTORY = {"keep_history_seconds": 7 * 86_400}
THEN = "2026-01-05T08:00:00Z"


@pytest.fixture
def server(new_server):
    return new_server(**WITH_HISTORY)


@pytest.fixture
def devices(server, key):
    """Two devices with a value each."""
    made = [server.add_device(key, name, sensor(TEMPERATURE)) for name in "ab"]
    for device in made:
        server.subscribe(key, device)
    return made


def test_format_follows_accept_and_other_is_406(server, key, check_error, monkeypatch):
    forms = {None: NDJSON, "": NDJSON, "*/*": NDJSON, ARROW: ARROW, f"{NDJSON};q=0.5, {ARROW}": ARROW}
    for url in (SNAPSHOT, f"{SNAPSHOT}?as_of={instant(server.now)}", HISTORY):
        assert {accept: get(server, key, url, accept).mimetype for accept in forms} == forms, url
        assert ARROW in check_error(get(server, key, url, "text/html"), 406).message
        assert server.call(key, "HEAD", url).status_code == 405
    monkeypatch.setitem(sys.modules, "mirror_server.extensions.snapshots.arrow", None)
    assert "pyarrow" in check_error(get(server, key, SNAPSHOT, ARROW), 406).message
    assert get(server, key, SNAPSHOT).status_code == 200


def test_invalid_parameter_is_400_with_its_name(server, key, check_error):
    too_many_paths = "&".join(f"path=/{number}/0/0" for number in range(257))
    cases = [
        (SNAPSHOT, "limit=5", "limit", ""),
        (SNAPSHOT, "path=/3*/0", "path", "'*'"),
        (SNAPSHOT, too_many_paths, "path", "256"),
        (SNAPSHOT, "compression=gzip", "compression", "zstd"),
        (SNAPSHOT, "changed_after=-1", "changed_after", ""),
        (SNAPSHOT, "changed_after=9007199254740991", "changed_after", ""),
        (RANGES, "devices_per_range=0", "devices_per_range", ""),
        (RANGES, "devices_per_range=1000001", "devices_per_range", ""),
        (RANGES, "devices_per_range=all", "devices_per_range", ""),
        (RANGES, "devices_per_range=1&devices_per_range=2", "devices_per_range", ""),
        (RANGES, "path=/3303/*", "path", ""),
        (RANGES, f"as_of={THEN}", "as_of", ""),
        (SNAPSHOT, "as_of=2026-01-05T08:00:00", "as_of", "has no time zone"),
        (SNAPSHOT, "as_of=", "as_of", "is not a time"),
        (SNAPSHOT, f"as_of={THEN}&as_of={THEN}", "as_of", "once"),
        (SNAPSHOT, f"as_of={THEN}&changed_after=", "changed_after", "as_of"),
        (SNAPSHOT, f"as_of={THEN}&path=/3*/0", "path", "'*'"),
        (SNAPSHOT, f"as_of={THEN}&from={THEN}", "from", "path, as_of, changed_after, compression"),
        (SNAPSHOT, f"as_of={THEN}&compression=gzip", "compression", "zstd"),
        (HISTORY, "nonsense=1", "nonsense", "from, to, path, device_id, order, limit, after, compress"),
        (HISTORY, "path=/3*/0", "path", "'*'"),
        (HISTORY, too_many_paths, "path", "256"),
        (HISTORY, "&".join(f"device_id={each}" for each in range(MAX_DEVICES + 1)), "device_id", str(MAX_DEVICES)),
        (HISTORY, "compression=gzip", "compression", "zstd"),
        (HISTORY, "limit=10000001", "limit", "10000000"),
        (HISTORY, "limit=2&limit=3", "limit", "once"),
        (HISTORY, "from=2026-01-05T08:00:00", "from", "has no time zone"),
        (HISTORY, "to=yesterday", "to", "is not a time"),
        (HISTORY, "from=2026-01-05T09:00:00Z&to=2026-01-05T08:59:59.999Z", "to", "before 'from'"),
        (HISTORY, "after=%C3%A9", "after", "not a cursor"),
        (HISTORY, "after=W10", "after", "not a cursor"),
    ]
    for path, query, field, word in cases:
        body = check_error(get(server, key, f"{path}?{query}"), 400, field)
        assert word in body.fields[0].message, query
        assert body.reason == ("REVISION_BEYOND_MIRROR" if "9007199254740991" in query else None)
    # None of them occupies a download slot.
    assert get(server, key, HISTORY).status_code == 200


def test_disabled_history_is_404_with_option(new_server, check_error):
    server = new_server()
    key = server.key()
    for url in (HISTORY, f"{SNAPSHOT}?as_of={instant(server.now)}"):
        body = check_error(server.call(key, "GET", url), 404)
        assert body.reason == "NO_HISTORY"
        assert "--keep-history" in body.message


def test_instant_before_the_history_is_400_with_the_oldest_one(server, key, devices):
    oldest_at = lines_of(server, key, path=HISTORY)[1].to_wire()["oldest_at"]
    for url in (f"{SNAPSHOT}?as_of", f"{HISTORY}?from", f"{HISTORY}?to"):
        answer = get(server, key, f"{url}=2020-01-01T00:00:00Z")
        body = BeforeHistoryBody.model_validate(answer.json, extra="forbid")
        assert (answer.status_code, body.reason, body.to_wire()["oldest_at"]) == (400, "BEFORE_HISTORY", oldest_at)
        assert [each.name for each in body.fields] == [url.partition("?")[2]]
        assert f"stored history, {oldest_at}; request this time or a later one" in body.message
        assert get(server, key, f"{url}={oldest_at}").status_code == 200


@pytest.fixture
def in_pieces(monkeypatch):
    """Make responses in the smallest possible batches."""
    monkeypatch.setattr(snapshots, "_DEVICES_PER_PAGE", 1)
    monkeypatch.setattr("mirror_server.extensions.downloads._CHUNK_BYTES", 1)
    monkeypatch.setattr(arrow_history, "_MOST_BYTES_OF_DEVICES", 1)
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 1)


@pytest.mark.parametrize("form", [ARROW, NDJSON])
@pytest.mark.parametrize("path", [SNAPSHOT, HISTORY])
def test_response_is_consistent_during_changes(server, key, devices, in_pieces, path, form):
    complete = get(server, key, path, form).get_data()
    with get(server, key, path, form, buffered=False) as answer:
        chunks = iter(answer.response)
        begin = next(chunks)
        for device in devices:
            server.set_value(key, device, "99")
            server.submit(key, device, f"later-{device}", "GET", TEMPERATURE)
        server.registration(key, devices[1], "DELETE")
        server.add_device(key, "later")
        server.services.database.write(partial(history.erase, device_ids=devices))
        assert begin + b"".join(chunks) == complete
    assert get(server, key, path, form).get_data() != complete


@pytest.mark.parametrize(("path", "form"), [(f"{SNAPSHOT}?as_of=", ARROW), (HISTORY, ARROW), (HISTORY, NDJSON)])
def test_response_is_cut_off_when_key_is_revoked(server, key, devices, in_pieces, path, form):
    url = path + instant(server.now) if path != HISTORY else path
    reader = server.key(Scope.READ)
    with get(server, reader, url, form, buffered=False) as answer:
        chunks = iter(answer.response)
        content = next(chunks) + next(chunks)
        server.revoke(reader)
        content += b"".join(chunks)
    complete = get(server, key, url, form).get_data()
    assert (b"-end" in content, b"-end" in complete) == (False, True)
    assert len(content) < len(complete)
    assert get(server, reader, url).status_code == 401


def test_number_of_concurrent_responses_is_limited(server, key, devices, check_error):
    most, open_ones, paths = slow_reads._MAX_DOWNLOADS, [], (SNAPSHOT, HISTORY)
    for one in (key, server.key()):
        open_ones += [get(server, one, path, buffered=False) for path in paths * (most // 4)]
        for path in paths:
            answer = get(server, one, path)
            error = check_error(answer, 429)
            assert (error.reason, answer.headers["Retry-After"]) == ("TOO_MANY_SNAPSHOTS", "2")
            assert f"this key has {most // 2} open snapshots and histories" in error.message
    assert check_error(get(server, server.key(), SNAPSHOT), 429).reason == "TOO_MANY_SNAPSHOTS"
    for one in open_ones[: most // 2]:
        next(iter(one.response))
    for one in open_ones:
        one.close()
    for _ in range(2 * most):
        for path, wrong in ((SNAPSHOT, "changed_after=9007199254740991"), (HISTORY, "from=2020-01-01T00:00:00Z")):
            assert lines_of(server, key, path=path)[0]
            assert get(server, key, f"{path}?{wrong}").status_code == 400
