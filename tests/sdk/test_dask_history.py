"""A history as a Dask DataFrame: its partitions together are the result of client.history. Source: wire.md 10."""

from datetime import datetime, timedelta

import dask
import pytest
from changed_responses import RESOURCES, TEMPERATURE

from mirror_sdk import BeforeHistory, InvalidValue, MirrorClient
from mirror_sdk.dask import read_history
from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import StoredHistoryRow

MINUTE = timedelta(minutes=1)
pytestmark = pytest.mark.keeps_history


@pytest.fixture
def access(mirror, address):
    """The address of the server on a port, and a key."""
    with dask.config.set(scheduler="synchronous"):
        yield address, mirror.new_key()


@pytest.fixture
def interval(mirror, simulator, plain):
    """Five devices that report in each of ten minutes; the service has a gap once."""
    ids = [simulator.add_device(f"device-{number}", RESOURCES) for number in range(5)]
    plain.subscriptions.rules.replace([{"resource_path": [TEMPERATURE]}], apply_now=True)
    begin = simulator.advance(60)
    for number in range(10):
        simulator.advance(MINUTE)
        simulator.set_value(ids[number % 5], TEMPERATURE, 30 + number)
    end = simulator.advance(MINUTE)
    at = mirror.services.clock.now()

    def put_gap(session):
        revision = session.note_change(())
        history.add(session, [StoredHistoryRow(revision, None, None, None, at - 300_000, at, "gap", until=at - 60_000)])

    mirror.services.database.write(put_gap)
    return begin, end


def in_order(frame):
    """Return the rows as a list, independent of their partitions."""
    frame = frame.astype(object).sort_values("revision")
    return frame.where(frame.notna(), None).to_numpy().tolist()


def test_the_partitions_together_are_the_history(access, interval):
    begin, end = interval
    arguments = {"begin": begin, "end": end, "paths": ["/3303/*"]}
    with MirrorClient(*access) as client:
        complete = client.history(**arguments)
    for devices, span in ((100, timedelta(seconds=190)), (2, None)):
        rows = read_history(*access, **arguments, time_per_partition=span, devices_per_partition=devices)
        found = rows.compute()
        assert in_order(found) == in_order(complete)
        assert (found["event"] == "gap").sum() == 1
        assert [str(dtype) for dtype in rows.dtypes] == [str(dtype) for dtype in rows._meta.dtypes]
    assert rows["value_num"].max().compute() == 39


def test_a_partition_is_of_one_range_and_one_interval(access, interval):
    begin, end = interval
    rows = read_history(*access, begin=begin, end=end, time_per_partition=4 * MINUTE, devices_per_partition=3)
    assert rows.npartitions == 2 * 3
    first = rows.get_partition(0).compute()
    assert first["changed_at"].max() < begin + 4 * MINUTE
    assert first.attrs["mirror"]["begin"] == begin.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    assert list(rows[["path", "value_num"]].get_partition(1).compute().columns) == ["path", "value_num"]
    # A gap that started earlier is in the first interval.
    rows = read_history(*access, begin=end - 2 * MINUTE, end=end, time_per_partition=MINUTE, devices_per_partition=2)
    frames = [rows.get_partition(number).compute() for number in range(rows.npartitions)]
    assert [int((frame["event"] == "gap").sum()) for frame in frames] == [1, *[0] * (rows.npartitions - 1)]
    rows = read_history(*access, raw=True, tz="Europe/Berlin")
    assert str(rows.dtypes["changed_at"].tz) == "Europe/Berlin"
    assert b"39" in set(rows["value_raw"].compute().dropna())


def test_invalid_arguments_are_rejected(access, interval):
    begin, end = interval
    bounds, millisecond = {"begin": begin, "end": end}, timedelta(milliseconds=1)
    for arguments, words in (
        ({"begin": datetime(2026, 1, 5)}, "no time zone"),
        ({"time_per_partition": MINUTE}, "needs begin= and end="),
        *((bounds | {"time_per_partition": span}, "more than 10000") for span in (timedelta(0), -MINUTE, millisecond)),
        (
            bounds | {"time_per_partition": 200 * millisecond, "devices_per_partition": 1},
            "5 ranges .* and 3300 interval",
        ),
    ):
        with pytest.raises(InvalidValue, match=words):
            read_history(*access, **arguments)
    rows = read_history(*access, begin=begin - timedelta(days=30))
    with pytest.raises(BeforeHistory):
        rows.compute()
