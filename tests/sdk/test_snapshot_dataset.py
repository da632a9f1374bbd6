"""client.fleet.dataset with both clients, and ways to read its folder. Source: wire.md 7."""

import asyncio
from pathlib import Path

import dask
import httpx
import pandas as pd
import pyarrow as pa
import pytest
from changed_responses import RESOURCES, TEMPERATURE, Between, response_with, without_arrow, without_snapshots
from client_test_data import URL

from mirror_sdk import AsyncMirrorClient, SnapshotWarning
from mirror_sdk.dask import read_dataset
from mirror_sdk.errors import ConnectionFailed, InvalidValue, NotFound
from mirror_sdk.frames import read_parquet
from mirror_sdk.snapshot import dataset
from mirror_sdk.snapshot.dataset import SnapshotDataset
from mirror_server.extensions.snapshots import service as snapshots

pytestmark = pytest.mark.filterwarnings("ignore:paths. none of:mirror_sdk.errors.EmptyTableWarning")

SELECTIONS = [
    {"raw": True, "compression": "zstd"},
    {"tz": "Europe/Berlin", "paths": [TEMPERATURE]},
    {"paths": ["/nothing"]},
    {"filters": {"endpoint_name__in": ["a", "d"]}},
]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "fleet"


@pytest.fixture
def many(simulator, ids, monkeypatch):
    """Add more devices, which arrive two at a time."""
    monkeypatch.setattr(snapshots, "_DEVICES_PER_PAGE", 2)
    for number in range(9):
        simulator.add_device(f"device-{number}", RESOURCES[: number % 4])


def assert_same(found, expected):
    pd.testing.assert_frame_equal(found, expected)
    assert found.attrs == expected.attrs


def left(folder):
    """Return the names of the files next to the dataset."""
    return sorted(path.name for path in folder.parent.iterdir() if not path.name.startswith("mirror.db"))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_however_it_is_read_back_it_is_the_table_of_a_snapshot(client, many, folder, selection):
    written = client.fleet.dataset(folder, devices_per_file=3, **selection)
    expected = client.fleet.snapshot(**selection)
    assert left(folder) == ["fleet"]
    # A dataset does not report paths that no device has.
    expected.attrs["mirror"].pop("paths_without_rows", None)
    assert_same(written.to_frame(), expected)
    assert_same(read_parquet(folder), expected)
    assert_same(SnapshotDataset(folder).to_frame(), expected)
    plain = pd.read_parquet(folder)
    assert plain.attrs == expected.attrs
    # pandas loses the categories of a column without any value.
    full = expected.columns[expected.notna().any()]
    pd.testing.assert_frame_equal(plain[full], expected[full])
    assert (written.rows, written.device_count) == (len(expected), expected.attrs["mirror"]["devices"])


@pytest.mark.parametrize("size", [3, 100])
def test_a_file_has_the_devices_of_a_range(client, many, folder, size):
    written = client.fleet.dataset(folder, devices_per_file=size)
    expected = client.fleet.snapshot()
    with_rows = expected["device_id"].astype(str).unique().tolist()
    assert [file.devices for file in written.files[:-1]] == [size] * (len(written.files) - 1)
    parts = [read_parquet(path) for path in written.paths]
    for file, part in zip(written.files, parts, strict=True):
        own = part["device_id"].astype(str).unique().tolist()
        assert (own[0], own[-1], len(own), len(part)) == (file.first, file.last, file.devices, file.rows)
        assert sorted(part["device_id"].cat.categories) == own
        assert list(part) == list(expected)
    assert [name for part in parts for name in part["device_id"].astype(str).unique()] == with_rows


def test_devices_can_be_named(client, ids, folder):
    written = client.fleet.dataset(folder, ids[:2])
    assert_same(written.to_frame(), client.fleet.snapshot(ids[:2]))
    with pytest.raises(NotFound, match="nobody"):
        client.fleet.dataset(folder, [ids[0], "nobody"], overwrite=True)
    assert_same(SnapshotDataset(folder).to_frame(), written.to_frame())
    assert left(folder) == ["fleet"]


def test_without_snapshots_devices_are_read_one_by_one_with_a_warning(client_over, plain, many, folder, monkeypatch):
    monkeypatch.setattr("mirror_sdk._session.async_table_reader._DEVICES_AT_A_TIME", 3)
    with pytest.warns(SnapshotWarning, match="one by one"):
        written = client_over(without_snapshots).fleet.dataset(folder, devices_per_file=2)
    pd.testing.assert_frame_equal(written.to_frame(), plain.fleet.snapshot())
    assert (written.metadata["one_instant"], len(written.files)) == (False, 5)
    written = client_over(without_arrow).fleet.dataset(folder, devices_per_file=2, overwrite=True)
    pd.testing.assert_frame_equal(written.to_frame(), plain.fleet.snapshot())


def test_a_truncated_response_leaves_no_files(client_over, many, folder):
    sizes, lengths = [], [None]

    def cut(request, answer):
        sizes.append(len(answer.content))
        return response_with(answer, answer.content[: lengths[-1]])

    other = client_over(cut)
    other.fleet.dataset(folder)
    before = SnapshotDataset(folder).to_frame()
    for length in range(1, sizes[0] - 8, sizes[0] // 5):
        lengths.append(length)
        for target in (folder, folder.parent / "new"):
            with pytest.raises(ConnectionFailed, match="was cut off"):
                other.fleet.dataset(target, devices_per_file=1, overwrite=True)
        assert left(folder) == ["fleet"]
    assert_same(SnapshotDataset(folder).to_frame(), before)


@pytest.mark.parametrize("name", ["part-00001.parquet", ".hidden"])
def test_a_folder_that_is_not_a_dataset_is_never_replaced(client, ids, folder, name):
    with pytest.raises(InvalidValue, match="is not a dataset"):
        SnapshotDataset(folder)
    folder.mkdir()
    (folder / name).write_text("mine")
    with pytest.raises(InvalidValue, match="is not a dataset"):
        SnapshotDataset(folder)
    for overwrite in (False, True):
        with pytest.raises(InvalidValue, match="contains other files"):
            client.fleet.dataset(folder, overwrite=overwrite)
    assert [path.name for path in folder.iterdir()] == [name]
    assert left(folder) == ["fleet"]
    other = folder.with_name("other")
    client.fleet.dataset(other)
    with pytest.raises(InvalidValue, match="overwrite=True"):
        client.fleet.dataset(other)
    (other / "notes.txt").write_text("mine")
    with pytest.raises(InvalidValue, match="contains other files"):
        client.fleet.dataset(other, overwrite=True)
    (folder.parent / "file").write_text("mine")
    for target, wrong, word in (
        ("file", {}, "is a file"),
        ("new", {"devices_per_file": 0}, "devices_per_file"),
        ("new", {"tz": "Nowhere"}, "time zone"),
    ):
        with pytest.raises(InvalidValue, match=word):
            client.fleet.dataset(folder.parent / target, **wrong)
    assert left(folder) == ["file", "fleet", "other"]


def test_a_link_to_a_dataset_stays_one(client, ids, folder):
    real = folder.parent / "real"
    client.fleet.dataset(real)
    folder.symlink_to(real, target_is_directory=True)
    client.fleet.dataset(folder, devices_per_file=1, overwrite=True)
    assert folder.is_symlink()
    assert len(SnapshotDataset(real).files) == 3


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_an_incomplete_dataset_is_detected(plain, ids, folder, damage):
    for which in (0, -1):
        written = plain.fleet.dataset(folder, devices_per_file=1, overwrite=True)
        damage([written.head, *written.paths][which])
        for read in (SnapshotDataset, read_dataset):
            with pytest.raises(InvalidValue, match="is incomplete"):
                read(folder)


def test_memory_does_not_grow_with_the_fleet(plain, simulator, folder, monkeypatch):
    add, seen, peaks = dataset.DatasetWriter.add, [], []

    def watched(writer, table):
        add(writer, table)
        seen.append(pa.total_allocated_bytes())

    monkeypatch.setattr(snapshots, "_DEVICES_PER_PAGE", 1)
    monkeypatch.setattr(dataset, "_GROUP_BYTES", 100_000)
    monkeypatch.setattr(dataset.DatasetWriter, "add", watched)
    resource = {"path": "/9999/0/1", "value": "x" * 60_000, "observable": True}
    for count in (6, 18):
        for number in range(count):
            plain.read_value(simulator.add_device(f"large-{count}-{number}", [resource]), resource["path"])
        before = pa.total_allocated_bytes()
        plain.fleet.dataset(folder, raw=True, overwrite=True)
        peaks.append(max(seen) - before)
        seen.clear()
    assert len(read_parquet(folder)) == 24
    assert 0 < peaks[1] < 1.5 * peaks[0]


class TruncatedStream(httpx.AsyncByteStream):
    """A stream that sends half of a response, and then nothing."""

    def __init__(self, answer, stalls):
        self.content = answer.content
        self.stalls = stalls

    async def __aiter__(self):
        yield self.content[: len(self.content) // 2]
        self.stalls.set()
        await asyncio.Event().wait()


def test_a_cancelled_dataset_leaves_no_files_and_no_thread(mirror, ids, folder):
    async def run():
        stalls = asyncio.Event()
        transport = Between(
            mirror,
            lambda _, answer: httpx.Response(200, headers=answer.headers, stream=TruncatedStream(answer, stalls)),
        )
        async with AsyncMirrorClient(URL, mirror.new_key(), transport=transport) as client:
            task = asyncio.create_task(client.fleet.dataset(folder))
            async with asyncio.timeout(60):
                await stalls.wait()
                assert len(left(folder)) == 1
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert left(folder) == []

    asyncio.run(run())


# With Dask


def computed(frame):
    with dask.config.set(scheduler="synchronous"):
        return frame.compute().reset_index(drop=True)


@pytest.mark.parametrize("converts", [False, True])
@pytest.mark.parametrize("selection", SELECTIONS[:3])
def test_as_a_dask_dataframe_it_has_the_same_columns_and_dtypes(plain, many, folder, converts, selection):
    plain.fleet.dataset(folder, devices_per_file=2, **selection)
    expected = plain.fleet.snapshot(**selection)
    with dask.config.set({"dataframe.convert-string": converts}):
        frame = read_dataset(folder)
        pd.testing.assert_frame_equal(computed(frame), expected)
        pd.testing.assert_series_equal(computed(frame["path"]), expected["path"])
    for name, dtype in expected.dtypes.items():
        meta = frame.dtypes[name]
        known = name in {"value_kind", "desired_status"} or not isinstance(dtype, pd.CategoricalDtype)
        assert meta == dtype if known else isinstance(meta, pd.CategoricalDtype)
        assert isinstance(meta, pd.CategoricalDtype) is False or frame[name].cat.known == known
    assert frame.npartitions == max(1, len(SnapshotDataset(folder).files))
    assert not frame.known_divisions
