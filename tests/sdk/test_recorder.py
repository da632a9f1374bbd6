"""Recordings of a real server, written and read with both clients."""

import asyncio
import errno
import json
import shutil
import threading
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changed_responses import Between
from client_test_data import URL
from resource_paths import SWITCH, TEMPERATURE
from thread_waits import until

from mirror_sdk import ClientClosed, GapWarning, InvalidValue, MirrorClient, NotFound, RecordingDamaged
from mirror_sdk.frames import EVENTS_RAW_SCHEMA, STATE_SCHEMA
from mirror_sdk.recording import CHANGES_SCHEMA, Recording, files
from mirror_sdk.recording.file_names import (
    journal_numbers,
    journal_path,
    part_numbers,
    part_path,
    settings_path,
    sidecar_of,
    state_numbers,
    state_path,
)
from mirror_sdk.recording.folder import RecordingFolder


def numbers(frame):
    return frame[frame["event"] == "observation"]["value_num"].tolist()


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, "no space left")


def fail_to_write(recorder, act, monkeypatch):
    """Let a recorder end with an error at some event."""
    monkeypatch.setattr(RecordingFolder, "append", no_space)
    act()
    until(lambda: not recorder.is_running)


@pytest.mark.both_clients
def test_a_recording_contains_its_events_and_the_next_recorder_continues(client, observed, folder):
    observed(1.0)
    with client.record(folder) as recorder:
        observed(2.0, 3.0)
        assert f"{folder} running," in repr(recorder)
        with pytest.raises(InvalidValue, match="in use by another recorder"):
            client.record(folder)
    assert numbers(Recording(folder).events()) == [2.0, 3.0]
    assert (recorder.is_running, recorder.events, recorder.failure) == (False, 2, None)
    observed(4.0)
    following = client.record(folder)
    observed(5.0)
    # A closed client has stopped its recorders.
    client.close()
    assert not following.is_running
    following.stop()
    assert f"{folder} stopped," in repr(following)
    assert journal_numbers(folder) == []
    audit = following.audit()
    assert (audit.complete, audit.gaps, audit.events) == (True, (), 4)
    assert str(audit).startswith("complete from ")
    # All other readers see one table.
    frame = pd.read_parquet(folder)
    assert list(frame.columns) == EVENTS_RAW_SCHEMA.names
    assert frame["value_num"].tolist() == numbers(Recording(folder).events()) == [2.0, 3.0, 4.0, 5.0]


def test_a_file_that_is_finalized_while_the_folder_is_read_is_read_too(client, observed, folder, monkeypatch):
    with client.record(folder):
        observed(1.0)
    recorder = client.record(folder)
    observed(2.0)
    until(lambda: recorder.events == 1)
    read_part = files.read_part

    def read_after_a_finalize(*arguments):
        recorder.stop()
        return read_part(*arguments)

    monkeypatch.setattr(files, "read_part", read_after_a_finalize)
    assert numbers(Recording(folder).events()) == [1.0, 2.0]


@pytest.mark.both_clients
def test_only_the_requested_devices_and_paths_are_recorded(client, simulator, observed, device_id, folder):
    other = simulator.add_device("sensor-2", [{"path": TEMPERATURE, "value": "5", "observable": True}])
    client.subscribe(other, TEMPERATURE)
    client.subscribe(device_id, SWITCH)
    with client.record(folder, devices=[device_id], paths=["/3303/*"]) as recorder:
        observed(1.0)
        simulator.set_value(other, TEMPERATURE, 6.0)
        simulator.set_value(device_id, SWITCH, True)
    frame = recorder.recording.events()
    assert set(frame["device_id"]) == {device_id}
    assert set(frame["path"]) == {TEMPERATURE}
    assert recorder.audit().complete
    with pytest.raises(InvalidValue, match=r"records devices=.* paths=\['/3303/\*'\]"):
        client.record(folder)


def test_a_recording_cannot_be_continued_with_the_log_of_another_key(new_client, folder):
    with new_client() as first, new_client() as second:
        first.record(folder).stop()
        with pytest.raises(InvalidValue, match="another access key"):
            second.record(folder)


@pytest.mark.both_clients
def test_a_new_file_is_started_when_the_current_one_is_large_or_old(client, observed, folder, monkeypatch):
    with client.record(folder, rotate_bytes=1) as recorder:
        # Both could arrive with one poll, and in one file.
        observed(1.0)
        until(lambda: recorder.events == 1)
        observed(2.0)
    count = len(part_numbers(folder))
    assert count >= 3
    with client.record(folder, rotate_seconds=float("inf")):
        observed(3.0, 4.0)
    assert len(part_numbers(folder)) == count + 1
    with client.record(folder, rotate_seconds=0.000001):
        observed(5.0)
    assert numbers(Recording(folder).events()) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert Recording(folder).audit().complete
    # Files that are missing from a listing are read, too.
    listed = part_numbers(folder)
    monkeypatch.setattr(files, "part_numbers", lambda _: [listed[0], listed[-1]])
    assert numbers(Recording(folder).events()) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_recorder_rejects_foreign_files_and_folders_and_reports_a_removed_recording(client, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidValue, match="is a file"):
        client.record(tmp_path / "file")
    with pytest.raises(InvalidValue, match="contains other files"):
        client.record(tmp_path)
    with pytest.raises(InvalidValue, match=r"cannot create /proc/run: .*; use a folder where you may write"):
        client.record("/proc/run")
    assert (tmp_path / "file").read_text() == "mine"
    assert not sidecar_of(tmp_path).exists()
    with pytest.raises(InvalidValue, match="needs a second folder next to it"):
        sidecar_of(Path("/"))
    with pytest.raises(FileNotFoundError, match="is not a recording"):
        Recording(tmp_path)
    client.record(tmp_path / "run").stop()
    recording = Recording(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="was removed"):
        recording.events()


@pytest.mark.both_clients
def test_a_recorder_that_could_not_begin_leaves_the_folder_free_for_the_next_one(client, device_id, folder):
    for options, error, message in (
        ({"devices": ["0" * 32]}, NotFound, "DEVICE_NOT_FOUND"),
        ({"paths": ["*/5700"]}, InvalidValue, "only at the end"),
        ({"paths": "/3303/*"}, TypeError, r"\['/3303/\*'\]"),
        ({"rotate_bytes": 0}, InvalidValue, "rotate_bytes"),
        ({"rotate_seconds": float("nan")}, InvalidValue, "rotate_seconds"),
    ):
        with pytest.raises(error, match=message):
            client.record(folder, **options)
    with client.record(folder, devices=[device_id]) as recorder:
        pass
    frame = Recording(folder).events(raw=True)
    assert list(frame.columns) == EVENTS_RAW_SCHEMA.names
    assert len(frame) == recorder.audit().events == 0
    assert recorder.audit().complete


def test_a_truncated_or_damaged_journal_yields_its_complete_entries_and_the_rest_is_read_again(
    client, observed, folder
):
    recorder = client.record(folder)
    observed(1.0, 2.0)
    until(lambda: recorder.events == 2)
    journal = journal_path(folder, 2)
    original = journal.read_bytes()
    recorder.stop()
    part_path(folder, 2).unlink()
    for content in [*(original[:cut] for cut in range(0, len(original), 199)), *damaged(original)]:
        journal.write_bytes(content)
        seen, audit = numbers(Recording(folder).events()), Recording(folder).audit()
        assert seen == [1.0, 2.0][: len(seen)]
        assert audit.events == len(seen)
        assert audit.events == 0 or audit.until_at is not None
    journal.write_bytes(original[:-50])
    client.record(folder).stop()
    assert numbers(Recording(folder).events()) == [1.0, 2.0]
    assert Recording(folder).audit().complete


def damaged(content, count=20):
    """Yield the content with one flipped bit at various positions."""
    for number in range(count):
        position = number * len(content) // count
        yield content[:position] + bytes([content[position] ^ (1 << number % 8)]) + content[position + 1 :]


def test_a_damaged_file_is_reported_by_name_or_changes_nothing(client, observed, folder):
    with client.record(folder) as recorder:
        until_at = observed(1.0, 2.0)
    recording = recorder.recording
    queries = {
        part_path(folder, 2): lambda: recording.events().to_csv(),
        state_path(folder, 1): lambda: recording.as_of(until_at).to_csv(),
    }
    for file, query in queries.items():
        expected = query()
        original = file.read_bytes()
        rejected_count = 0
        for content in damaged(original):
            file.write_bytes(content)
            try:
                assert query() == expected
            except RecordingDamaged as error:
                rejected_count += f"{error}".startswith(f"{file} is damaged (")
        assert rejected_count > 5
        file.write_bytes(original)
    # A recorder does not continue with it, and does not change it.
    part = part_path(folder, 2)
    original = part.read_bytes()
    part.write_bytes(original[: len(original) // 2])
    with pytest.raises(RecordingDamaged, match=r"part-000002\.parquet is damaged"):
        client.record(folder)
    part.write_bytes(original)
    client.record(folder).stop()


def test_a_duplicate_event_counts_once_and_an_invalid_path_breaks_no_state(client, observed, folder):
    with client.record(folder):
        until_at = observed(1.0)
    table = pq.read_table(part_path(folder, 2))
    rows = [table.to_pylist()[0] | {"path": "sensor/1"}]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), part_path(folder, 2))
    state = Recording(folder).as_of(until_at).set_index("path")
    assert state.loc["sensor/1", "reported_num"] == 1.0
    assert pd.isna(state.loc["sensor/1", "object_id"])
    pq.write_table(pq.ParquetFile(part_path(folder, 2)).read(), part_path(folder, 3))
    recording = Recording(folder)
    assert numbers(recording.events()) == [1.0]
    assert recording.audit().duplicates == 1


def test_a_state_is_that_of_the_instant(client, simulator, observed, device_id, folder):
    client.read_value(device_id, TEMPERATURE)
    with client.record(folder) as recorder:
        first = observed(1.0)
        second = observed(2.0)
        # At the instant of a state, and after it.
        simulator.set_value(device_id, TEMPERATURE, 3.0)
    recording = recorder.recording

    def temperature(instant):
        frame = recording.as_of(instant)
        assert list(frame.columns) == STATE_SCHEMA.names
        row = frame[(frame["device_id"] == device_id) & (frame["path"] == TEMPERATURE)].iloc[0]
        return row["reported_num"], row["label"], row["endpoint_name"], row["resource_id"]

    assert temperature(first) == (1.0, "Temperature · Sensor Value", "sensor-1", 5700)
    assert temperature(second)[0] == temperature(second + timedelta(days=1))[0] == 3.0
    assert temperature(first - timedelta(seconds=1))[0] == 21.5
    now = recording.as_of(second.isoformat())
    merged = now.merge(client.state_frame(), on=["device_id", "path"], suffixes=("", "_live"))
    assert len(merged) == len(now)
    assert merged["reported_num"].equals(merged["reported_num_live"])
    assert merged["reported_at"].equals(merged["reported_at_live"])
    with pytest.raises(InvalidValue, match="is before the recording, which starts at"):
        recording.as_of(first - timedelta(days=1))
    with pytest.raises(InvalidValue, match="no time zone"):
        recording.as_of(datetime(2026, 1, 1))


def test_recording_without_the_time_of_logging_is_read_and_continued(client, observed, folder):
    with client.record(folder):
        observed(1.0, 2.0)
    part = part_path(folder, 2)
    table = pq.ParquetFile(part).read()
    pq.write_table(table.drop_columns("logged_at"), part)
    with client.record(folder):
        observed(3.0)
    recording = Recording(folder)
    events = recording.events()
    assert numbers(events) == [1.0, 2.0, 3.0]
    assert events["logged_at"].isna().tolist() == [True, True, False]
    assert recording.history()["value_num"].dropna().tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(("version", "found"), [({"version": 3}, "format version 3"), ({}, "no format version")])
def test_recording_of_another_format_version_is_rejected(client, observed, folder, version, found):
    with client.record(folder):
        observed(1.0)
    saved_settings = json.loads(settings_path(folder).read_text())
    del saved_settings["version"]
    settings_path(folder).write_text(json.dumps(saved_settings | version))
    for use in (Recording, client.record):
        with pytest.raises(InvalidValue, match=rf"{found}, .* reads format version 2\); use another folder"):
            use(folder)


def test_the_changes_between_two_instants_have_both_values(client, simulator, observed, device_id, folder):
    client.read_value(device_id, TEMPERATURE)
    begin = simulator.get_clock()
    with client.record(folder) as recorder:
        observed(1.0, 2.0)
        end = observed(3.0)
        observed(4.0)
    (row,) = recorder.recording.changes(begin, end).to_dict("records")
    assert (row["before_num"], row["after_num"], row["observations"], row["last_at"]) == (21.5, 3.0, 3, end)
    nothing = recorder.recording.changes(end + timedelta(hours=1), end + timedelta(hours=2))
    assert len(nothing) == 0
    assert list(nothing.columns) == CHANGES_SCHEMA.names
    with pytest.raises(InvalidValue, match="is before begin"):
        recorder.recording.changes(end, begin)


@pytest.mark.both_clients
def test_full_disk_ends_a_recorder_and_the_next_one_continues(client, observed, folder, monkeypatch, caplog):
    recorder = client.record(folder)
    observed(1.0)
    until(lambda: recorder.events == 1)
    with monkeypatch.context() as full:
        full.setattr(files, "finalize", no_space)
        fail_to_write(recorder, lambda: observed(2.0), full)
    with pytest.raises(OSError, match="no space left"):
        recorder.stop()
    recorder.stop()
    assert isinstance(recorder.failure, OSError)
    assert "a recording ended" in caplog.text
    client.record(folder).stop()
    assert numbers(Recording(folder).events()) == [1.0, 2.0]
    assert Recording(folder).audit().complete


@pytest.mark.both_clients
def test_without_a_service_a_recorder_ends_and_the_next_one_reads_the_rest(
    mirror, client_of, simulator, device_id, folder
):
    def fail_when_pulled(request):
        if is_pulled:
            raise httpx.ConnectError("no route")

    is_pulled = False
    unplugged = Between(mirror, before=fail_when_pulled)
    client = client_of(URL, mirror.new_key(), transport=unplugged)
    client.subscribe(device_id, TEMPERATURE)
    recorder = client.record(folder)
    is_pulled = True
    simulator.set_value(device_id, TEMPERATURE, 1.0)
    recorder.stop()
    is_pulled = False
    client.record(folder).stop()
    recording = Recording(folder)
    assert 1.0 in numbers(recording.events())
    assert recording.audit().complete


def test_a_log_that_restarts_after_a_failure_is_a_gap_and_its_state_is_recorded(mirror, folder):
    """Simulate a service that restarts with an older database: first no response, then a shorter log."""

    def fail_once(request):
        nonlocal is_pulled
        if is_pulled and "after" in request.url.params:
            is_pulled = False
            raise httpx.ConnectError("no route")

    is_pulled = False
    with MirrorClient(URL, mirror.new_key(), transport=Between(mirror, before=fail_once)) as client:
        client.record(folder).stop()
        last = part_numbers(folder)[-1]
        table, spans, _ = files.read_part(folder, last)
        beyond = [span._replace(seq=span.seq + 100) for span in spans]
        files.write_part(folder, last, files.FileContent(table, beyond, is_finalized=True), files.read_settings(folder))
        is_pulled = True
        with pytest.warns(GapWarning), client.record(folder):
            until(lambda: len(state_numbers(folder)) == 3)
    assert "gap" in set(Recording(folder).events()["event"])
    assert not Recording(folder).audit().complete


def test_an_asynchronous_recorder_that_is_stopped_twice_at_once_writes_each_event_once(
    run, simulator, device_id, folder
):
    async def scene(client):
        await client.subscribe(device_id, TEMPERATURE)
        recorder = await client.record(folder)
        recorder._worker._task.cancel()
        await asyncio.to_thread(simulator.set_value, device_id, TEMPERATURE, 1.0)
        await asyncio.gather(recorder.stop(), recorder.stop())

    run(scene)
    audit = Recording(folder).audit()
    assert (audit.complete, audit.duplicates) == (True, 0), str(audit)


def test_an_asynchronous_recorder_whose_stop_is_cancelled_leaves_the_folder_to_others(run, folder):
    async def scene(client):
        recorder = await client.record(folder)
        stopping = asyncio.ensure_future(recorder.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        assert not recorder.is_running
        await (await client.record(folder)).stop()

    run(scene)
    assert Recording(folder).audit().complete


def test_an_asynchronous_recorder_that_cannot_write_while_stopping_raises(
    run, simulator, device_id, folder, monkeypatch
):
    async def scene(client):
        recorder = await client.record(folder)
        started, stopping = threading.Event(), threading.Event()

        def write(*_, **__):
            started.set()
            stopping.wait(30)
            no_space()

        monkeypatch.setattr(recorder._writer, "write", write)
        await asyncio.to_thread(simulator.deregister, device_id)
        assert await asyncio.to_thread(started.wait, 30)
        # The recorder is waiting for the end of its write.
        asyncio.get_running_loop().call_soon(stopping.set)
        with pytest.raises(OSError, match="no space left"):
            await recorder.stop()

    run(scene)


@pytest.mark.both_clients
@pytest.mark.parametrize("error", [None, KeyError("its own")])
def test_a_block_raises_why_its_recorder_ended_unless_it_fails_itself(client, observed, folder, monkeypatch, error):
    recorder = client.record(folder)

    def use():
        with recorder:
            fail_to_write(recorder, lambda: observed(1.0), monkeypatch)
            if error is not None:
                raise error

    with pytest.raises(OSError if error is None else KeyError):
        use()
    recorder.stop()


@pytest.mark.both_clients
def test_closing_a_client_raises_why_its_recorder_ended_and_closes_the_rest(client, observed, folder, monkeypatch):
    fail_to_write(client.record(folder), lambda: observed(1.0), monkeypatch)
    with pytest.raises(OSError, match="no space left"):
        client.close()
    with pytest.raises(ClientClosed):
        client.devices.list()


def test_a_recording_with_a_relative_path_stays_in_its_first_folder(client, observed, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with client.record("run.parquet", rotate_bytes=1) as recorder:
        observed(1.0)
        until(lambda: recorder.events == 1)
        recording = Recording("run.parquet")
        monkeypatch.chdir(tmp_path / "elsewhere")
        observed(2.0, 3.0)
    assert numbers(recording.events()) == [1.0, 2.0, 3.0]
    assert list(tmp_path.joinpath("elsewhere").iterdir()) == []


def test_a_file_renamed_to_a_high_number_loses_no_data_and_stops_no_recorder(client, observed, folder):
    with client.record(folder, rotate_bytes=1):
        observed(1.0)
        until(part_path(folder, 1).exists)
        for number in (999_999_999, 899_999_999):
            shutil.copy(part_path(folder, 1), part_path(folder, number))
        observed(2.0, 3.0)
    recording = Recording(folder)
    tracemalloc.start()
    assert sorted(numbers(recording.events())) == [1.0, 2.0, 3.0]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    client.record(folder).stop()
    assert sorted(numbers(recording.events())) == [1.0, 2.0, 3.0]
