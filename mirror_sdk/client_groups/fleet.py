# Made from async_fleet.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""Tables of the state of a whole fleet at one instant: ``client.fleet`` of a synchronous client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import InstantLike, TableFormat, table_module
from mirror_sdk._arguments import instant as instant_like
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
    """Tables of the state of a whole fleet at one instant: ``client.fleet`` of a synchronous client.

    - ``snapshot()`` returns the state of all devices, or of the devices that match conditions, as a table.
    - ``refresh(frame)`` updates such a table.
    - ``dataset(folder)`` writes the table to Parquet files, for fleets that do not fit into memory.

    ``client.history()``, ``client.as_of()`` and ``client.changes()`` return tables about the past.
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
        """Return the state of many devices at one instant as a table, which the service sends in one response.

        The columns are those of :func:`mirror_sdk.frames.state_frame`. The rows are sorted by device id and path.
        ``attrs["mirror"]`` contains the selection, ``seq`` and ``revision``. ``seq`` is the number of the last entry in
        the notification log at that instant, so ``client.events(after=seq)`` continues there. ``revision`` allows
        ``frame.mirror.refresh(client)`` to fetch only the changes since then. Like ``client.state_frame()``, the method
        reports paths without rows in ``attrs`` and by a warning.

        If the service has no snapshots, the client fetches the devices one by one. In that case ``one_instant`` in
        ``attrs["mirror"]`` is false, and a :class:`~mirror_sdk.SnapshotWarning` is issued.

        Args:
            devices: The devices, as a list of ids, endpoint names or device objects, or as a table with a column
                ``device_id``. ``None`` selects all devices that match the conditions.
            paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
            state: Select only devices in this state: ``registered`` or ``deregistered``.
            endpoint_type: Select only devices of this endpoint type.
            endpoint_name: Select only the devices with this endpoint name.
            filters: Further conditions, in the form that ``client.devices.list()`` accepts.
            raw: Whether to add columns with the raw payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            compression: The compression in transit: ``none``, ``lz4`` or ``zstd``. The default is ``lz4``, or ``none``
                if the service runs on this machine.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            as_: The kind of table to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``) or
                ``polars`` (a ``polars.DataFrame``).

        Raises:
            ConnectionFailed: The connection was lost before the response was complete.
            ImportError: A package that ``as_`` needs, such as pandas, is not installed.
            BadRequest: A filter does not exist. The message lists the supported filters.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no time zone, or a list of values is passed for an operator other than
                ``in`` or ``nin``.
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
        as_of: InstantLike | None = None,
        devices_per_file: int = DEFAULT_DEVICES_PER_RANGE,
        overwrite: bool = False,
        timeout: float | None = None,
    ) -> SnapshotDataset:
        """Write the table of :meth:`snapshot` to a folder while it arrives, for fleets that do not fit into memory.

        The folder contains Parquet files, each with a range of device ids. ``pandas.read_parquet(folder)`` reads all
        files or, with ``columns=`` and ``filters=``, a part of the table. :func:`mirror_sdk.dask.read_dataset` makes a
        Dask DataFrame. The columns, dtypes and metadata are those of :meth:`snapshot`, and all rows are as of one
        instant.

        The client first writes to ``.NAME-….partial`` in the same parent folder, and renames this folder when all rows
        are on disk. After an error, the client removes the partial folder. If the program was killed, you may delete it
        yourself.

        Args:
            folder: The folder to write. It must be empty or not exist yet.
            devices: The devices. This argument and the following ones, up to ``compression``, have the same meaning as
                in :meth:`snapshot`.
            paths: Patterns for the resource paths, such as ``/3303/*``. ``None`` selects every resource.
            state: Select only devices in this state: ``registered`` or ``deregistered``.
            endpoint_type: Select only devices of this endpoint type.
            endpoint_name: Select only the devices with this endpoint name.
            filters: Further conditions, in the form that ``client.devices.list()`` accepts.
            raw: Whether to add columns with the raw payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.
            compression: The compression in transit: ``none``, ``lz4`` or ``zstd``.
            as_of: A time in the past. The dataset then has the table of ``client.as_of()``, and the errors of that
                method are raised too.
            devices_per_file: The maximum number of devices in a file.
            overwrite: Whether an existing dataset in the folder may be replaced. Other folders are never replaced.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.

        Raises:
            ConnectionFailed: The connection was lost before the response was complete.
            ImportError: pandas is not installed.
            BadRequest: A filter does not exist. The message lists the supported filters.
            NotFound: One of the ``devices`` does not exist.
            OSError: The folder cannot be written.
            TypeError: A string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no time zone.
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
        instant = None
        if as_of is not None:
            instant = instant_like("as_of", as_of, self._tables.clock_of(as_of, timeout=deadline))
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression, as_of=instant
        )
        writer = DatasetWriter(folder, devices_per_file=devices_per_file, raw=raw, tz=tz, overwrite=overwrite)
        with writer:
            snapshot = self._tables.take(request, writer.add, deadline)
            return writer.finish(snapshot_metadata(request, snapshot, writer.rows))

    def refresh(self, frame: pd.DataFrame, *, timeout: float | None = None) -> pd.DataFrame:
        """Update a table that :meth:`snapshot` returned. Only the devices that have changed since then are fetched.

        Args:
            frame: The table, as :meth:`snapshot` returned it.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.

        Returns:
            A new table with the current state. If the service does not know which devices changed, all devices are
            fetched and a :class:`~mirror_sdk.SnapshotWarning` is issued.

        Raises:
            ConnectionFailed: The connection was lost before the response was complete.
            NotFound: One of the devices of the table no longer exists.
            InvalidValue: The table is not a snapshot, is only a part of one, or contains a resource twice.

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
