"""A fleet larger than memory as a Dask DataFrame: each partition has the devices of a range of ids.

>>> from mirror_sdk.dask import read_mirror
>>> fleet = read_mirror(paths=["/3303/*"], devices_per_partition=5)     # API_HOST and API_KEY, as for a client
>>> fleet.npartitions
3
>>> fleet.groupby("path", observed=True)["reported_num"].count().compute().to_dict()
{'/3303/0/5700': 2, '/3303/0/5701': 0}

**What the partitions show.** A partition is loaded when it is computed, on the worker that computes it. It is one
consistent read, as of an instant of its own, and its ``attrs["mirror"]`` tells ``taken_at``, ``revision`` and its range
of ids; Dask drops ``attrs`` when it puts partitions together. Different partitions show different instants, and what is
computed twice is loaded twice, unless it is kept with ``persist()``. Every device is in one partition only, one that
registers after the ranges were made too. For all devices as of one instant, write a dataset with
:meth:`mirror_sdk.MirrorClient.snapshot_dataset` and read that with :func:`read_dataset`, where every worker reaches its
folder.

**What Dask knows.** Columns and dtypes are those of :meth:`mirror_sdk.MirrorClient.snapshot`. Categories differ from
partition to partition, so Dask does not know them beforehand, but those of ``value_kind`` and ``desired_status``. The
index of each partition begins at 0, so divisions are unknown. All rows of a device are in one partition.

**What the workers need.** ``API_HOST`` and ``API_KEY`` in their environment, as here. A key that is given to
:func:`read_mirror` goes to the workers with the work and is shown nowhere. The ranges come from the server
(``GET /v3/device-echo/ranges``), with as many devices each. The extra is ``dask``.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import dask
import dask.dataframe as dd
import pyarrow as pa
from dask.dataframe.utils import clear_known_categories

from mirror_sdk._client import MirrorClient
from mirror_sdk._service.defaults import DEFAULT_MAX_SNAPSHOT_BYTES, DEFAULT_TIMEOUT_SECONDS
from mirror_sdk._service.sender import Sender
from mirror_sdk.config import Settings, read_max_snapshot_bytes
from mirror_sdk.errors import NotFound, UnexpectedAnswer
from mirror_sdk.frames.columns import categories_of, to_frame
from mirror_sdk.frames.device_batches import joined
from mirror_sdk.frames.files import read_parquet
from mirror_sdk.frames.state import STATE_SCHEMA
from mirror_sdk.progress import without_progress
from mirror_sdk.snapshot.dataset import SnapshotDataset
from mirror_sdk.snapshot.request import SnapshotRequest, get_device_ranges
from mirror_sdk.snapshot.selection import Selection
from mirror_sdk.wire.snapshot import DEFAULT_DEVICES_PER_RANGE, Compression, DeviceRanges

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_dataset", "read_mirror"]

_MAX_RETRIES = 11
"""How often a refused request is sent again, for about two minutes: a service sends a few snapshots at once, and a
cluster has many workers."""
_FREE_CATEGORIES = [
    field.name for field in STATE_SCHEMA if pa.types.is_dictionary(field.type) and not categories_of(field)
]


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
    """The state table of a fleet, in partitions that Dask's workers load from the service.

    Asks the service at once for ranges of ids with as many devices each, and for nothing else.

    Args:
        base_url: Address of the service, as the workers reach it; by default that of
            :meth:`mirror_sdk.MirrorClient.from_env`.
        api_key: Access key. What is given goes to the workers with the graph, and is not shown in it. Without it this
            process and each worker take ``API_KEY`` from their own environment.
        paths: Path patterns (``/3303/*``); ``None`` takes every resource.
        state: ``registered`` or ``deregistered``.
        endpoint_type: Endpoint type.
        endpoint_name: Endpoint name.
        filters: Other conditions, as for :meth:`mirror_sdk.MirrorClient.list_devices`.
        raw: Whether the raw payloads are columns too.
        tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
        compression: ``none``, ``lz4`` or ``zstd`` on the way; by default ``lz4``, and ``none`` from this machine.
        devices_per_partition: How many devices a partition has. Twenty resources make 2 to 4 MB of a thousand devices.
        timeout: Seconds for each request, and for each 64 KiB of a partition; more is :class:`~mirror_sdk.CallTimeout`.
        max_snapshot_bytes: How many bytes a partition may have after decompression; one with more is refused.

    Raises:
        APIError: The service refused.
        BadRequest: There is no such filter, or ``devices_per_partition`` makes more than 10,000 partitions.
        ConfigError: There is no key, or something cannot be used.
        ConnectionFailed: There was no answer; while partitions load, in about two minutes.
        UnexpectedAnswer: The service has no ranges of devices.
        ValueError: A time in ``filters`` has no zone.
        ValueRefused: A pattern is not one, or ``tz`` is no time zone.

    Source: wire.md 7.

    >>> read_mirror(endpoint_type="Light", devices_per_partition=1).npartitions
    2
    """
    settings = Settings.load(base_url, api_key)
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
    ranges = _ranges(settings, selection, devices_per_partition, timeout)
    return _from_map(
        _MirrorPart(request, settings if api_key else None, timeout, read_max_snapshot_bytes(max_snapshot_bytes)),
        [(one.after, one.last) for one in ranges.data],
        to_frame(joined([], raw=raw), {}, tz=tz),
    )


def read_dataset(folder: str | os.PathLike[str]) -> dd.DataFrame:
    """The state table in a folder that :meth:`mirror_sdk.MirrorClient.snapshot_dataset` wrote: a partition a file.

    All partitions show one instant; ``SnapshotDataset(folder).about`` tells which.

    Args:
        folder: The folder, which every worker has to reach under this name.

    Raises:
        ValueRefused: There is no dataset, or it is not whole.

    >>> _ = client.snapshot_dataset(folder / "fleet", devices_per_file=5)
    >>> len(read_dataset(folder / "fleet")) == len(client.snapshot())
    True
    """
    dataset = SnapshotDataset(folder)
    return _from_map(_DatasetPart(), [str(path) for path in dataset.paths], read_parquet(dataset.head))


@dataclass(frozen=True)
class _MirrorPart:
    """Loads a partition from the service, with a client of its own."""

    request: SnapshotRequest
    settings: Settings | None
    timeout_seconds: float
    max_snapshot_bytes: int
    # No two tables are the same to Dask: what one has loaded is not what another is to load later.
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __dask_tokenize__(self) -> str:
        return self.token

    def __call__(self, bounds: tuple[str | None, str | None], columns: Sequence[str] | None = None) -> pd.DataFrame:
        settings = self.settings or Settings.load(self.request.server)
        request = replace(self.request, selection=self.request.selection.between(*bounds))
        key = settings.api_key.get_secret_value()
        with (
            MirrorClient(
                settings.base_url, key, timeout=self.timeout_seconds, max_snapshot_bytes=self.max_snapshot_bytes
            ) as client,
            without_progress(),
        ):
            frame = client._frame_of(request)
        return frame if columns is None else frame[list(columns)]


@dataclass(frozen=True)
class _DatasetPart:
    """Loads a partition from a file."""

    def __call__(self, path: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        return read_parquet(path, columns=columns)


def _from_map(load: Callable[..., pd.DataFrame], parts: Sequence[object], empty: pd.DataFrame) -> dd.DataFrame:
    meta = clear_known_categories(empty, cols=_FREE_CATEGORIES)
    # The dtypes are those of the tables, whatever kind of texts Dask prefers.
    with dask.config.set({"dataframe.convert-string": False}):
        frame: dd.DataFrame = dd.from_map(load, parts, meta=meta, label="mirror")
    return frame


def _ranges(settings: Settings, selection: Selection, devices_per_range: int, timeout: float) -> DeviceRanges:
    sender = Sender(settings, timeout_seconds=timeout)
    try:
        return sender.send(get_device_ranges(selection, devices_per_range))
    except NotFound as exc:
        raise UnexpectedAnswer(
            "this service has no ranges of devices; write a dataset with client.snapshot_dataset(folder), and read that"
            " with read_dataset(folder)"
        ) from exc
    finally:
        sender.close()
