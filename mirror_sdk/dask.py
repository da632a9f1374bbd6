"""Dask DataFrames for a fleet or a history that does not fit into memory. Each partition has a range of device ids."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

# Before the imports that need Dask, which is an extra, so that the error message explains how to install it.
try:
    import dask
    import dask.dataframe as dd
except ModuleNotFoundError as _error:
    raise ImportError(f'partitions need {_error.name}: pip install "device-state-mirror[dask]"') from _error

import pyarrow as pa
import pyarrow.compute as pc
from dask.dataframe.utils import clear_known_categories

from mirror_sdk._arguments import InstantLike
from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.defaults import DEFAULT_MAX_SNAPSHOT_BYTES, DEFAULT_TIMEOUT_SECONDS
from mirror_sdk._protocol.sender import Sender
from mirror_sdk.arrow_tables.columns import INSTANT, schema_of
from mirror_sdk.arrow_tables.device_batches import concatenated
from mirror_sdk.arrow_tables.history import HISTORY_COLUMNS, HistoryTableBuilder
from mirror_sdk.config import ClientSettings, read_max_snapshot_bytes
from mirror_sdk.errors import InvalidValue, NotFound, UnexpectedResponse
from mirror_sdk.events import utc_now
from mirror_sdk.frames.columns import has_no_categories, to_frame
from mirror_sdk.frames.files import read_parquet
from mirror_sdk.history.history_reader import history_metadata
from mirror_sdk.history.history_request import MILLISECOND, HistoryRequest, check_interval
from mirror_sdk.progress import without_progress
from mirror_sdk.snapshot.dataset import SnapshotDataset
from mirror_sdk.snapshot.device_selection import Selection
from mirror_sdk.snapshot.snapshot_request import SnapshotRequest, get_device_ranges
from mirror_sdk.table_formats import to_pandas
from mirror_sdk.wire.snapshot import DEFAULT_DEVICES_PER_RANGE, Compression, DeviceRanges

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_dataset", "read_history", "read_mirror"]


def __dir__() -> list[str]:
    return __all__


_MAX_RETRIES = 11
"""The number of retries of a rejected request.

Together, they take about two minutes. So many are needed because a service sends only a few snapshots at the same time,
and a cluster has many workers.
"""
_MAX_PARTITIONS = 10_000
_Loaded: TypeAlias = tuple[list[pa.Table], dict[str, object]]
_Ids: TypeAlias = tuple[str | None, str | None]
"""The range of ids in a partition: it starts after the first id and ends with the second one."""
_Interval: TypeAlias = tuple[datetime | None, datetime | None]


def read_mirror(
    base_url: str | None = None,
    api_key: str | None = None,
    *,
    paths: Sequence[str] | None = None,
    state: str | None = None,
    endpoint_type: str | None = None,
    endpoint_name: str | None = None,
    filters: Mapping[str, object] | None = None,
    raw: bool = False,
    tz: str | None = None,
    compression: Compression | None = None,
    devices_per_partition: int = DEFAULT_DEVICES_PER_RANGE,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    max_snapshot_bytes: int = DEFAULT_MAX_SNAPSHOT_BYTES,
) -> dd.DataFrame:
    """Return the state table of a fleet as a Dask DataFrame. The workers load its partitions from the service.

    This call itself only requests the ranges of device ids for the partitions.

    Args:
        base_url: The address of the service from which the workers load partitions. The default is that of
            :meth:`mirror_sdk.MirrorClient.from_env`.
        api_key: The access key. Dask sends it to the workers with the graph, but does not display it. By default, this
            process and each worker use ``API_KEY`` of their own environment.
        paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
        state: Select only devices in this state: ``registered`` or ``deregistered``.
        endpoint_type: Select only devices of this endpoint type.
        endpoint_name: Select only the devices with this endpoint name.
        filters: Further conditions, in the form that ``client.devices.list()`` accepts.
        raw: Whether to add columns with the raw payloads.
        tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
        compression: The compression in transit: ``none``, ``lz4`` or ``zstd``. The default is ``lz4``, or ``none`` if
            the service runs on this machine.
        devices_per_partition: The number of devices in a partition. A thousand devices with 20 resources are 2 to 4 MB.
        timeout: The timeout in seconds, which applies to each request and to each 64 KiB of a partition. After the
            timeout, the call raises :class:`~mirror_sdk.CallTimeout`.
        max_snapshot_bytes: The maximum size of a partition after decompression, in bytes.

    Raises:
        APIError: The service responded with an error.
        BadRequest: A filter does not exist, or ``devices_per_partition`` results in more than 10,000 partitions.
        ConfigError: The key is missing, or a setting is not valid.
        ConnectionFailed: The service did not respond. A worker raises this error only after about two minutes of
            retries.
        UnexpectedResponse: The service cannot divide devices into ranges, or a partition exceeds
            ``max_snapshot_bytes``.
        ValueError: A time in ``filters`` has no time zone.
        InvalidValue: A pattern is not valid, or ``tz`` is not a time zone.

    >>> read_mirror(endpoint_type="Light", devices_per_partition=1).npartitions
    2
    """
    settings = ClientSettings.load(base_url, api_key)
    selection = Selection.of(
        paths=paths, state=state, endpoint_type=endpoint_type, endpoint_name=endpoint_name, filters=filters
    )
    request = SnapshotRequest(
        selection=selection,
        server=settings.base_url,
        raw=raw,
        tz=tz,
        compression=compression,
        max_retries=_MAX_RETRIES,
    )
    limit_bytes = read_max_snapshot_bytes(max_snapshot_bytes)
    ranges = _ranges(settings, selection, devices_per_partition, timeout)
    return _from_map(
        # A key from the environment is not sent to the workers, because each of them uses its own.
        _MirrorPartition(settings.base_url, settings if api_key else None, timeout, limit_bytes, tz, request),
        [(one.after, one.last) for one in ranges.data],
        to_frame(concatenated([], raw=raw), {}, tz=tz),
    )


def read_history(
    base_url: str | None = None,
    api_key: str | None = None,
    *,
    begin: InstantLike | None = None,
    end: InstantLike | None = None,
    time_per_partition: timedelta | None = None,
    paths: Sequence[str] | None = None,
    state: str | None = None,
    endpoint_type: str | None = None,
    endpoint_name: str | None = None,
    filters: Mapping[str, object] | None = None,
    raw: bool = False,
    tz: str | None = None,
    compression: Compression | None = None,
    devices_per_partition: int = DEFAULT_DEVICES_PER_RANGE,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    max_snapshot_bytes: int = DEFAULT_MAX_SNAPSHOT_BYTES,
) -> dd.DataFrame:
    """Return the history of a fleet as a Dask DataFrame. The workers load its partitions from the service.

    This call itself only requests the ranges of device ids for the partitions. The partitions are sorted by device
    range, then by time. Gaps of the service, which are rows without a device, are in the partitions of the first device
    range. A gap is in the partition in which it begins.

    Args:
        base_url: The address of the service. Arguments that are not fully explained here have the same meaning as in
            :func:`read_mirror`.
        api_key: The access key.
        begin: Return only events at or after this time, which needs a time zone. ``None`` returns the whole stored
            history.
        end: Return only events before this time. ``None`` means the time at which a worker loads the partition.
        time_per_partition: The length of the time interval of a partition. This argument needs ``begin`` and ``end``.
            ``None`` does not divide the interval.
        paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
        state: Select only devices that are in this state now: ``registered`` or ``deregistered``.
        endpoint_type: Select only devices of this endpoint type.
        endpoint_name: Select only the devices with this endpoint name.
        filters: Further conditions, in the form that ``client.devices.list()`` accepts.
        raw: Whether to add a column with the raw payloads.
        tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
        compression: The compression in transit: ``none``, ``lz4`` or ``zstd``. The default is ``lz4``, or ``none`` if
            the service runs on this machine.
        devices_per_partition: The number of devices in a partition. A million rows are about 100 MB.
        timeout: The timeout in seconds; see :func:`read_mirror`.
        max_snapshot_bytes: The maximum size of a partition; see :func:`read_mirror`.

    Raises:
        APIError: The service responded with an error. Loading a partition may also raise the errors of
            :meth:`mirror_sdk.MirrorClient.history`.
        BadRequest: A filter does not exist, or ``devices_per_partition`` results in more than 10,000 ranges.
        ConfigError: The key is missing, or a setting is not valid.
        ConnectionFailed: The service did not respond. A worker raises this error only after about two minutes of
            retries.
        UnexpectedResponse: The service cannot divide devices into ranges, or a partition exceeds
            ``max_snapshot_bytes``.
        ValueError: A time in ``filters`` has no time zone.
        InvalidValue: A time has no time zone, the end is before the start, a pattern is not valid, or ``tz`` is not a
            time zone. This error is also raised if ``time_per_partition`` is passed without ``begin`` and ``end``, or
            results in more than 10,000 partitions.

    >>> rows = read_history(begin=begin, end=begin + timedelta(days=1), time_per_partition=timedelta(hours=12))
    >>> rows.npartitions
    2
    """
    begin, end = check_interval(begin, end, utc_now)
    intervals = _intervals(begin, end, time_per_partition)
    settings = ClientSettings.load(base_url, api_key)
    selection = Selection.of(
        paths=paths, state=state, endpoint_type=endpoint_type, endpoint_name=endpoint_name, filters=filters
    )
    request = HistoryRequest(
        selection=selection,
        server=settings.base_url,
        begin=begin,
        end=end,
        compression=compression,
        max_retries=_MAX_RETRIES,
    )
    ranges = _ranges(settings, selection, devices_per_partition, timeout).data
    if len(ranges) * len(intervals) > _MAX_PARTITIONS:
        raise InvalidValue(
            f"{len(ranges)} ranges of devices and {len(intervals)} intervals result in more than"
            f" {_MAX_PARTITIONS} partitions; pass a larger time_per_partition or devices_per_partition"
        )
    limit_bytes = read_max_snapshot_bytes(max_snapshot_bytes)
    return _from_map(
        _HistoryPartition(settings.base_url, settings if api_key else None, timeout, limit_bytes, tz, request, raw),
        [((one.after, one.last), interval) for one in ranges for interval in intervals],
        to_frame(schema_of(HISTORY_COLUMNS, raw=raw).empty_table(), {}, tz=tz),
    )


def _intervals(begin: datetime | None, end: datetime | None, span: timedelta | None) -> list[_Interval]:
    if span is None:
        return [(begin, end)]
    if begin is None or end is None:
        raise InvalidValue("time_per_partition needs begin= and end=; pass both")
    if not span >= MILLISECOND or (end - begin) / span > _MAX_PARTITIONS:
        raise InvalidValue(
            f"time_per_partition={span} results in more than {_MAX_PARTITIONS} partitions; pass a longer one"
        )
    cuts = [begin + number * span for number in range(max(1, ceil((end - begin) / span)))]
    return list(zip(cuts, [*cuts[1:], end], strict=True))


def read_dataset(folder: str | os.PathLike[str]) -> dd.DataFrame:
    """Return the state table that ``client.fleet.dataset()`` wrote to a folder, with one partition for each file.

    All partitions are from the same instant, which is in ``SnapshotDataset(folder).metadata``.

    Args:
        folder: The folder. Every worker must be able to open it under this name.

    Raises:
        InvalidValue: The folder contains no dataset, or an incomplete one.

    >>> _ = client.fleet.dataset(folder / "fleet", devices_per_file=5)
    >>> len(read_dataset(folder / "fleet")) == len(client.fleet.snapshot())
    True
    """
    dataset = SnapshotDataset(folder)
    return _from_map(read_parquet, [str(path) for path in dataset.paths], read_parquet(dataset.head))


@dataclass(frozen=True)
class _ServicePartition:
    """A function that loads a partition from the service with a client of its own.

    Attributes:
        server: The address of the service.
        settings: The settings of the client. ``None`` uses the environment of the worker.
        timeout_seconds: The timeout of each request in seconds.
        max_snapshot_bytes: The maximum size of the partition in bytes.
        tz: The time zone of the time columns.
    """

    server: str
    settings: ClientSettings | None
    timeout_seconds: float
    max_snapshot_bytes: int
    tz: str | None
    # Each table gets a different token, so that Dask loads the partitions of a later table again.
    token: str = field(default_factory=lambda: uuid.uuid4().hex, kw_only=True)

    def __dask_tokenize__(self) -> str:
        return self.token

    def __call__(self, bounds: Any, columns: Sequence[str] | None = None) -> pd.DataFrame:
        settings = self.settings or ClientSettings.load(self.server)
        client = MirrorClient(
            settings.base_url,
            settings.api_key.get_secret_value(),
            timeout=self.timeout_seconds,
            max_snapshot_bytes=self.max_snapshot_bytes,
        )
        with client, without_progress():
            tables, metadata = self.load(client, bounds)
        frame: pd.DataFrame = to_pandas(tables, metadata, tz=self.tz)
        return frame if columns is None else frame[list(columns)]

    def load(self, client: MirrorClient, bounds: Any) -> _Loaded:
        """Return the tables of the partition within these bounds, and their metadata."""
        raise NotImplementedError


@dataclass(frozen=True)
class _MirrorPartition(_ServicePartition):
    request: SnapshotRequest

    def load(self, client: MirrorClient, bounds: _Ids) -> _Loaded:
        return client._tables.tables_of(replace(self.request, selection=self.request.selection.between(*bounds)))


@dataclass(frozen=True)
class _HistoryPartition(_ServicePartition):
    request: HistoryRequest
    raw: bool

    def load(self, client: MirrorClient, bounds: tuple[_Ids, _Interval]) -> _Loaded:
        (after, last), (begin, end) = bounds
        selection = self.request.selection.between(after, last)
        request = replace(self.request, selection=selection, begin=begin, end=end)
        builder = HistoryTableBuilder(raw=self.raw)
        # A gap may begin before the first interval. It then belongs to no other partition, so the first one includes
        # it.
        first_begin = None if begin == self.request.begin else begin
        own = partial(_own_rows, is_first=after is None, begin=first_begin)
        result = client._tables.read_history(request, lambda table: builder.add(own(table)), raw=self.raw)
        units = client._tables.units_over_time(builder.unitless(), request, result)
        return builder.finish(history_metadata(request, result), units=units)


def _own_rows(table: pa.Table, *, is_first: bool, begin: datetime | None) -> pa.Table:
    """Return only the rows that belong to this partition, so that each gap is in exactly one partition.

    The service returns a gap once for each interval that the gap overlaps. It returns its own gaps once for each device
    range. ``is_first`` is true for the first device range, and ``begin`` is ``None`` for the first interval.
    """
    if not is_first:
        table = table.filter(table["device_id"].is_valid())
    if begin is None:
        return table
    begins_here = pc.greater_equal(table["changed_at"], pa.scalar(begin, INSTANT))
    return table.filter(pc.or_(begins_here, pc.invert(pc.equal(table["event"].cast(pa.string()), "gap"))))


def _from_map(load: Callable[..., pd.DataFrame], bounds: Sequence[object], empty: pd.DataFrame) -> dd.DataFrame:
    # Categories that are not fixed differ between partitions, so Dask must not assume those of the empty table.
    free = [str(name) for name, dtype in empty.dtypes.items() if has_no_categories(dtype)]
    meta = clear_known_categories(empty, cols=free)
    # Without this setting, Dask would convert strings to its preferred type instead of keeping the dtypes of the
    # tables.
    with dask.config.set({"dataframe.convert-string": False}):
        frame: dd.DataFrame = dd.from_map(load, bounds, meta=meta, label="mirror")
    return frame


def _ranges(settings: ClientSettings, selection: Selection, devices_per_range: int, timeout: float) -> DeviceRanges:
    sender = Sender(settings, timeout_seconds=timeout)
    try:
        return sender.send(get_device_ranges(selection, devices_per_range))
    except NotFound as exc:
        raise UnexpectedResponse(
            "this service cannot divide devices into ranges; write a dataset with client.fleet.dataset(folder), and"
            " read that with read_dataset(folder)"
        ) from exc
    finally:
        sender.close()
