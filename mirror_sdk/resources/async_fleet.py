"""Tables of a whole fleet at one instant: ``client.fleet`` of an asynchronous client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import Form, module_for
from mirror_sdk._off_loop import entered_off_loop, import_off_loop, off_loop
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._session.async_table_reader import AsyncTableReader
from mirror_sdk.errors import (
    BadRequest,
)
from mirror_sdk.forms import given
from mirror_sdk.naming import (
    DevicesLike,
)
from mirror_sdk.resources.base import ClientResource
from mirror_sdk.wire.snapshot import DEFAULT_DEVICES_PER_RANGE, Compression

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    import polars as pl

    from mirror_sdk._session.table_options import SnapshotOptions
    from mirror_sdk.snapshot.dataset import SnapshotDataset
    from mirror_sdk.tables.arrow_types import ArrowTable


class AsyncFleet(ClientResource[AsyncClientSession]):
    """Tables of a whole fleet at one instant: ``client.fleet`` of an asynchronous client."""

    def __init__(self, session: AsyncClientSession) -> None:
        super().__init__(session)
        self._tables = AsyncTableReader(session)

    @overload
    async def snapshot(
        self,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[SnapshotOptions],
    ) -> pd.DataFrame: ...

    @overload
    async def snapshot(
        self, devices: DevicesLike | None = None, *, as_: Literal["arrow"], **options: Unpack[SnapshotOptions]
    ) -> ArrowTable: ...

    @overload
    async def snapshot(
        self, devices: DevicesLike | None = None, *, as_: Literal["polars"], **options: Unpack[SnapshotOptions]
    ) -> pl.DataFrame: ...

    async def snapshot(
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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The state table of many devices, all as of one instant, in one answer.

        The columns are those of :func:`mirror_sdk.frames.state_frame`; devices and their resources stand in the order
        of their ids and paths. ``attrs["mirror"]`` also holds what was selected, ``seq``, the number of the last entry
        in the notification log at that instant (``events(after=seq)`` goes on there), and ``revision``, by which
        ``frame.mirror.refresh(client)`` fetches what has changed since. A service that has no snapshots is asked for
        one device after another; a :class:`SnapshotWarning` says so, and ``one_instant`` is false. Paths without
        rows are told as by :meth:`state_frame`.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes
                all that match the conditions.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` on the way; by default ``lz4``, and ``none`` from this machine.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ConnectionFailed: The answer broke off; a part of it is never a table.
            ImportError: What the form needs, such as pandas, is not installed.
            BadRequest: There is no such filter; the message lists the known ones.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            ValueRefused: A pattern is not one, or ``tz`` is no time zone.

        Source: wire.md 7.

        >>> (await client.fleet.snapshot(endpoint_type="Light", paths=["/3311/*"]))["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> (await client.fleet.snapshot(paths=["/3303/*"], as_="arrow"))["path"].to_pylist()
        ['/3303/0/5700']
        """
        await import_off_loop(module_for(as_), "mirror_sdk.snapshot.request")
        from mirror_sdk.snapshot.request import SnapshotRequest
        from mirror_sdk.snapshot.selection import Selection

        whole = self._session.sender.whole(timeout)
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else await self._session.ids_of(devices, timeout=whole),
        )
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression
        )
        tables, about = await self._tables.parts_of(request, whole)
        about = await self._tables.with_silent_now(about, tables, selection.paths)
        return await off_loop(lambda: given(tables, about, as_=as_, tz=tz))

    async def dataset(
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

        The folder has Parquet files, each with a range of device ids. ``pandas.read_parquet(folder)`` reads all of it
        or, with ``columns=`` and ``filters=``, a part; :func:`mirror_sdk.dask.read_dataset` makes a Dask DataFrame.
        Columns, dtypes and what they are based on are those of ``client.fleet.snapshot()``, and all rows are of one
        instant.

        It is written beside its place, as ``.NAME-….partial``, and put there when it is whole and on disk: where
        anything goes wrong, nothing is there. What a killed program leaves beside it may be deleted.

        Args:
            folder: Where it is to be: a folder that is not there, or an empty one.
            devices: As for ``client.fleet.snapshot()``, as are the others up to ``compression``.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` on the way.
            devices_per_file: How many devices a file has at most.
            overwrite: Whether it may take the place of another dataset. Anything else is never replaced.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.

        Raises:
            ConnectionFailed: The answer broke off.
            ImportError: pandas is not installed.
            BadRequest: There is no such filter; the message lists the known ones.
            NotFound: One of the ``devices`` is not there.
            OSError: The folder cannot be written.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone.
            ValueRefused: The folder is not empty, a pattern is not one, ``tz`` is no time zone, or ``devices_per_file``
                is not 1 or more.

        Source: wire.md 7.

        >>> await client.fleet.dataset(folder / "fleet", paths=["/3311/*"])
        <SnapshotDataset .../fleet: 2 rows of 2 devices>
        >>> pd.read_parquet(folder / "fleet", filters=[("resource_id", "==", 5851)])["path"].tolist()
        ['/3311/0/5851']
        """
        await import_off_loop("mirror_sdk.snapshot.dataset", "mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.dataset import DatasetWriter
        from mirror_sdk.snapshot.request import SnapshotRequest
        from mirror_sdk.snapshot.selection import Selection
        from mirror_sdk.snapshot.table import basis

        whole = self._session.sender.whole(timeout)
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else await self._session.ids_of(devices, timeout=whole),
        )
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression
        )
        writer = await off_loop(
            DatasetWriter, folder, devices_per_file=devices_per_file, raw=raw, tz=tz, overwrite=overwrite
        )
        async with entered_off_loop(writer):
            taken = await self._tables.take(request, writer.add, whole)
            return await off_loop(lambda: writer.finish(basis(request, taken, writer.rows)))

    async def refresh(self, frame: pd.DataFrame, *, timeout: float | None = None) -> pd.DataFrame:
        """Return a table of :meth:`snapshot` as it would be now. Only devices that changed since are fetched.

        Args:
            frame: A table as ``client.fleet.snapshot()`` gave it.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.

        Returns:
            A new table. Where the service cannot tell what has changed, it is taken as a whole, and a
            :class:`SnapshotWarning` says so.

        Raises:
            ConnectionFailed: The answer broke off; a part of it is never a table.
            NotFound: One of the ``devices`` the table was asked for is gone.
            ValueRefused: It is another table, not all of it, or has a resource of a device twice.

        Source: wire.md 7.

        >>> frame = await client.fleet.snapshot(paths=["/3303/*"])
        >>> await client.read_value(station, "/3303/0/5700")
        21.5
        >>> (await client.fleet.refresh(frame))["reported_num"].tolist()
        [21.5]
        """
        await import_off_loop("mirror_sdk.frames", "mirror_sdk.snapshot.table")
        from mirror_sdk.snapshot.table import refreshed, request_since, whole_request

        whole = self._session.sender.whole(timeout)
        request = await off_loop(request_since, frame, server=self._session.base_url)
        try:
            taken, tables = await self._tables.take_tables(request, whole)
        except BadRequest as error:
            request = whole_request(request, error)
            taken, tables = await self._tables.take_tables(request, whole)
        return await off_loop(refreshed, frame, request, taken, tables)
