# Made from async_fleet.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""Tables of a whole fleet at one instant: ``client.fleet`` of a synchronous client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import TableFormat, table_module
from mirror_sdk._fork import import_locked
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.errors import BadRequest
from mirror_sdk.table_formats import convert_tables
from mirror_sdk.wire.snapshot import DEFAULT_DEVICES_PER_RANGE, Compression

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    import polars as pl

    from mirror_sdk._session.table_options import SnapshotOptions
    from mirror_sdk.arrow_tables.arrow_types import ArrowTable
    from mirror_sdk.snapshot.dataset import SnapshotDataset


class Fleet(ClientGroup):
    """Tables of a whole fleet at one instant: ``client.fleet`` of a synchronous client.

    - ``snapshot()`` returns the state of all devices, or of those that match, as a table.
    - ``refresh(frame)`` brings such a table up to date.
    - ``dataset(folder)`` writes it to Parquet files, for fleets larger than memory.

    The tables over time are ``client.history()``, ``client.as_of()`` and ``client.changes()``.
    """

    _expression = "client.fleet"

    def __init__(self, session: ClientSession) -> None:
        super().__init__(session)
        self._tables = TableReader(session)

    @overload
    def snapshot(
        self,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[SnapshotOptions],
    ) -> pd.DataFrame: ...

    @overload
    def snapshot(
        self, devices: DevicesLike | None = None, *, as_: Literal["arrow"], **options: Unpack[SnapshotOptions]
    ) -> ArrowTable: ...

    @overload
    def snapshot(
        self, devices: DevicesLike | None = None, *, as_: Literal["polars"], **options: Unpack[SnapshotOptions]
    ) -> pl.DataFrame: ...

    def snapshot(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        raw: bool = False,
        tz: str | None = None,
        compression: Compression | None = None,
        timeout: float | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the state table of many devices, all as of one instant, in one response.

        The columns are those of :func:`mirror_sdk.frames.state_frame`. Devices and their resources are sorted by id and
        path. ``attrs["mirror"]`` contains the selection, ``seq`` and ``revision``. ``seq`` is the number of the last
        entry in the notification log at that instant: ``client.events(after=seq)`` continues there. With ``revision``,
        ``frame.mirror.refresh(client)`` fetches the changes since then. ``attrs`` and warnings report paths without
        rows in the same way as ``client.state_frame()``.

        If the service has no snapshots, the client fetches the devices one by one. ``one_instant`` is then false, and
        a :class:`~mirror_sdk.SnapshotWarning` is issued.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects all that match
                the conditions.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            state: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether to add columns with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: Compression in transit: ``none``, ``lz4`` or ``zstd``. The default is ``lz4``, or ``none`` if
                the service runs on this machine.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ConnectionFailed: The connection was lost before the response was complete.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            BadRequest: A filter does not exist. The message lists the supported filters.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: A pattern is not valid, or ``tz`` is not a time zone.

        >>> client.fleet.snapshot(endpoint_type="Light", paths=["/3311/*"])["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> client.fleet.snapshot(paths=["/3303/*"], as_="arrow")["path"].to_pylist()
        ['/3303/0/5700']
        """
        import_locked(table_module(as_), "mirror_sdk.snapshot.snapshot_request")
        from mirror_sdk.snapshot.snapshot_request import SnapshotRequest

        deadline = self._session.sender.total_deadline(timeout)
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression
        )
        tables, metadata = self._tables.tables_of(request, deadline)
        metadata = self._tables.with_paths_without_rows(metadata, tables, paths)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    def dataset(
        self,
        folder: str | PathLike[str],
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        raw: bool = False,
        tz: str | None = None,
        compression: Compression | None = None,
        devices_per_file: int = DEFAULT_DEVICES_PER_RANGE,
        overwrite: bool = False,
        timeout: float | None = None,
    ) -> SnapshotDataset:
        """Write the table of :meth:`snapshot` to a folder while it arrives, for fleets larger than memory.

        The folder contains Parquet files, each with a range of device ids. ``pandas.read_parquet(folder)`` reads all of
        them or, with ``columns=`` and ``filters=``, a part. :func:`mirror_sdk.dask.read_dataset` makes a Dask
        DataFrame. Columns, dtypes and metadata are the same as for :meth:`snapshot`. All rows are as of one instant.

        The client writes to ``.NAME-….partial`` in the same parent folder, and renames it when all rows are on disk.
        After an error, it removes the partial folder. If the program was killed, you may delete the partial folder.

        Args:
            folder: The folder to write: one that does not exist or is empty.
            devices: See :meth:`snapshot` for this argument and all arguments up to ``compression``.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            state: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether to add columns with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` in transit.
            devices_per_file: The maximum number of devices in a file.
            overwrite: Whether it may replace another dataset. Other folders are never replaced.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.

        Raises:
            ConnectionFailed: The connection was lost before the response was complete.
            ImportError: pandas is not installed.
            BadRequest: A filter does not exist. The message lists the supported filters.
            NotFound: One of the ``devices`` does not exist.
            OSError: The folder cannot be written.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone.
            InvalidValue: The folder is not empty, a pattern is not valid, ``tz`` is not a time zone, or
                ``devices_per_file`` is below 1.

        >>> client.fleet.dataset(folder / "fleet", paths=["/3311/*"])
        <SnapshotDataset .../fleet: 2 rows of 2 devices>
        >>> pd.read_parquet(folder / "fleet", filters=[("resource_id", "==", 5851)])["path"].tolist()
        ['/3311/0/5851']
        """
        import_locked("mirror_sdk.snapshot.dataset", "mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.dataset import DatasetWriter
        from mirror_sdk.snapshot.snapshot_request import SnapshotRequest
        from mirror_sdk.snapshot.table import snapshot_metadata

        deadline = self._session.sender.total_deadline(timeout)
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression
        )
        writer = DatasetWriter(folder, devices_per_file=devices_per_file, raw=raw, tz=tz, overwrite=overwrite)
        with writer:
            snapshot = self._tables.take(request, writer.add, deadline)
            return writer.finish(snapshot_metadata(request, snapshot, writer.rows))

    def refresh(self, frame: pd.DataFrame, *, timeout: float | None = None) -> pd.DataFrame:
        """Return a table of :meth:`snapshot` as it would be now. Only devices that have changed since then are fetched.

        Args:
            frame: A table of :meth:`snapshot`.
            timeout: Seconds for the whole call. By default the client's limit applies to each part.

        Returns:
            A new table. If the service does not know what changed, the whole table is fetched and a
            :class:`~mirror_sdk.SnapshotWarning` is issued.

        Raises:
            ConnectionFailed: The connection was lost before the response was complete.
            NotFound: One of the ``devices`` of the table no longer exists.
            InvalidValue: The table is not a snapshot, is only a part of one, or has a resource twice.

        >>> frame = client.fleet.snapshot(paths=["/3303/*"])
        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.fleet.refresh(frame)["reported_num"].tolist()
        [21.5]
        """
        import_locked("mirror_sdk.frames", "mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.table import full_request, refreshed, request_since

        deadline = self._session.sender.total_deadline(timeout)
        request = request_since(frame, server=self._session.base_url)
        try:
            snapshot, tables = self._tables.take_tables(request, deadline)
        except BadRequest as error:
            request = full_request(request, error)
            snapshot, tables = self._tables.take_tables(request, deadline)
        return refreshed(frame, request, snapshot, tables)
