"""A recording is one table to every reader of Parquet, at every moment."""

import errno
import itertools
import shutil
from contextlib import closing
from datetime import UTC, datetime

import pandas as pd
import pytest
from client_test_data import Clock
from recording_readers import READERS, Killed, killed_at, seen
from resource_paths import TEMPERATURE
from thread_waits import until

from mirror_sdk import InvalidValue
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import EVENTS_RAW_SCHEMA
from mirror_sdk.recording import Recording, file_names
from mirror_sdk.recording.files import VERSION, RecordingSettings
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.log_spans import LogSpan

AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
SETTINGS = RecordingSettings(version=VERSION, server="http://mirror.localhost", key="a key", devices=None, paths=None)


def assert_all_see(folder, numbers):
    assert seen(folder) == dict.fromkeys(READERS, (numbers, EVENTS_RAW_SCHEMA.names))


def numbers_of(folder):
    return Recording(folder).events()["seq"].tolist()


def test_a_running_a_killed_and_a_finished_recording_are_a_table_to_every_reader(client, observed, folder, tmp_path):
    recorder = client.record(folder)
    assert_all_see(folder, [])
    observed(1.0, 2.0)
    until(lambda: recorder.events == 2)
    assert_all_see(folder, [])
    with pytest.raises(InvalidValue, match="in use by another recorder"):
        recorder.recording.finalize()
    audit = recorder.audit()
    assert (audit.events, audit.finalized_events) == (2, 0)
    assert "every program can read 0 of these events" in str(audit)
    # The state after a kill of the recorder at this moment.
    left = shutil.copytree(folder, tmp_path / "left" / folder.name)
    shutil.copytree(file_names.sidecar_of(folder), file_names.sidecar_of(left))
    recorder.stop()
    both = numbers_of(folder)
    assert_all_see(folder, both)
    assert recorder.audit().finalized_events == 2
    assert "whole files" not in str(recorder.audit())

    assert_all_see(left, [])
    assert numbers_of(left) == both
    Recording(left).finalize()
    assert_all_see(left, both)
    assert Recording(left).audit().complete
    Recording(left).finalize()
    assert_all_see(left, both)


def event(seq):
    return Event(kind=EventKind.OBSERVATION, seq=seq, uid=f"{seq}", device_id="d", path=TEMPERATURE, received_at=AT)


def test_an_event_waits_for_no_other_one_to_be_seen(folder):
    clock = Clock()
    with closing(RecordingFolder(folder, SETTINGS, rotate_seconds=60, clock=clock)) as written:
        written.append([], LogSpan(0, 0, AT, AT))
        clock.now = 100
        written.append([event(1)], LogSpan(0, 1, AT, AT))
        clock.now = 159
        written.finalize_when_due()
        assert_all_see(folder, [])
        clock.now = 160
        written.finalize_when_due()
        assert_all_see(folder, [1])
        # Without an event there is no row and no further file.
        clock.now = 1000
        written.append([], LogSpan(1, 1, AT, AT))
        written.finalize_when_due()
        assert file_names.part_numbers(folder) == [1, 2]


LAST = 5


def record(folder):
    """Run a recorder up to the last number."""
    clock = Clock()
    written = RecordingFolder(folder, SETTINGS, rotate_seconds=2, clock=clock)
    try:
        if written.position is None:
            written.append([], LogSpan(0, 0, AT, AT))
        written.write_state(pd.DataFrame({"device_id": ["d"]}))
        while written.position < LAST:
            clock.now += 1
            written.append([event(written.position + 1)], LogSpan(written.position, written.position + 1, AT, AT))
        written.close()
    finally:
        # The system does this when a process dies.
        if written._journal is not None:
            written._journal[0].close()
        written._lock.release()


def record_killed(folder, step):
    """Run a recorder that is killed at this step, and return whether it reached its end before."""
    try:
        with killed_at(step):
            record(folder)
    except Killed:
        return False
    return True


def check_prefix(folder):
    """Check that the readable entries are a prefix, and that other programs see a prefix of it."""
    if not file_names.part_numbers(folder):
        with pytest.raises(FileNotFoundError):
            Recording(folder)
        return
    recording = Recording(folder)
    audit = recording.audit()
    numbers = numbers_of(folder)
    assert numbers == list(range(1, audit.last_seq + 1))
    assert (audit.complete, audit.duplicates, audit.events) == (True, 0, len(numbers))
    finalized = list(range(1, audit.finalized_events + 1))
    assert {path.name for path in folder.iterdir()} == {
        file_names.part_path(folder, number).name for number in range(1, len(file_names.part_numbers(folder)) + 1)
    }
    # Polars is the strictest about files with different schemas.
    assert sorted(READERS["Polars"](folder)["seq"]) == finalized


def test_a_kill_at_each_step_leaves_a_prefix_and_the_next_recorder_continues(tmp_path):
    for step in itertools.count(1):
        folder = tmp_path / f"{step}" / "run.parquet"
        folder.parent.mkdir()
        if record_killed(folder, step):
            break
        check_prefix(folder)
        # The next recorder is killed as well, at another step.
        record_killed(folder, 41 - step % 40)
        check_prefix(folder)
        record(folder)
        assert numbers_of(folder) == list(range(1, LAST + 1))
    assert step > 20


def test_a_removed_folder_is_created_again(folder):
    record(folder)
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError, match="is not a recording"):
        Recording(folder)
    other = SETTINGS.model_copy(update={"paths": ["/3303/*"]})
    with closing(RecordingFolder(folder, other)) as recreated:
        assert recreated.position is None
        recreated.append([], LogSpan(90, 90, AT, AT))
    assert numbers_of(folder) == []
    assert file_names.state_numbers(folder) == []


def test_a_file_with_another_name_is_not_part_of_the_recording(folder):
    record(folder)
    shutil.copy(file_names.part_path(folder, 1), folder / "part-old-000777.parquet")
    Recording(folder).finalize()
    assert numbers_of(folder) == [*range(1, LAST + 1)]


def test_a_folder_that_was_copied_alone_is_a_recording_without_its_states(folder, tmp_path):
    record(folder)
    copied = tmp_path / "copied.parquet"
    shutil.copytree(folder, copied)
    assert numbers_of(copied) == [*range(1, LAST + 1)]
    assert Recording(copied).audit().complete
    with closing(RecordingFolder(copied, SETTINGS)) as written:
        assert written.position == LAST
    with pytest.raises(InvalidValue, match="paths=None"):
        RecordingFolder(copied, SETTINGS.model_copy(update={"paths": ["/3303/*"]}))


def test_files_of_another_recording_are_not_used(folder, tmp_path):
    record(folder)
    other = tmp_path / "other.parquet"
    record(other)
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    for open_recording in (lambda: Recording(folder), lambda: RecordingFolder(folder, SETTINGS)):
        with pytest.raises(InvalidValue, match=r"_run\.parquet\.mirror belongs to another recording"):
            open_recording()
    shutil.rmtree(file_names.sidecar_of(folder))
    assert Recording(folder).audit().complete


def test_a_folder_on_another_disk_is_rejected_by_name(folder, monkeypatch):
    def cross(*_):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    with closing(RecordingFolder(folder, SETTINGS)) as written, monkeypatch.context() as mounted:
        mounted.setattr("os.replace", cross)
        with pytest.raises(InvalidValue, match="on different disks"):
            written.append([], LogSpan(0, 0, AT, AT))
    assert not file_names.part_numbers(folder)
