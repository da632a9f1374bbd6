# Made from async_table_methods.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The methods of a synchronous client that return the state and the history of a fleet as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Unpack, overload

from mirror_sdk._arguments import Form, InstantLike, count, module_for
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._fork import import_locked
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.forms import given
from mirror_sdk.naming import DevicesLike, require_known
from mirror_sdk.wire.snapshot import Compression

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from mirror_sdk._session.table_options import ChangesOptions, HistoryOptions, SnapshotOptions, StateOptions
    from mirror_sdk.tables.arrow_types import ArrowTable


class TableMethods:
    """Returns the state and the history of a fleet as tables."""

    _session: ClientSession
    _tables: TableReader

    @overload
    def state_frame(
        self, devices: DevicesLike | None = None, *, as_: Literal["pandas"] = "pandas", **options: Unpack[StateOptions]
    ) -> pd.DataFrame: ...

    @overload
    def state_frame(
        self, devices: DevicesLike | None = None, *, as_: Literal["arrow"], **options: Unpack[StateOptions]
    ) -> ArrowTable: ...

    @overload
    def state_frame(
        self, devices: DevicesLike | None = None, *, as_: Literal["polars"], **options: Unpack[StateOptions]
    ) -> pl.DataFrame: ...

    def state_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        raw: bool = False,
        tz: str | None = None,
        timeout: float | None = None,
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The state table, one row for each device and resource; see :func:`mirror_sdk.frames.state_frame`.

        Devices are asked for one by one, each as of its own instant; ``client.fleet.snapshot()`` gives a whole fleet at
        once. ``attrs["mirror"]["paths_without_rows"]`` names the ``paths`` that no row matches; if no path has a row,
        there is an :class:`EmptyTableWarning`.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes
                all of the directory.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: What the form needs, such as pandas, is not installed.
            NotFound: There is no such device.
            TypeError: A single text was given where a list of device ids belongs.
            InvalidValue: A pattern is not one, or ``tz`` is no time zone.

        >>> client.state_frame(paths=["/3311/*"])["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> client.state_frame(paths=["/3311/*"], as_="polars").height
        2
        """
        import_locked(module_for(as_))
        whole = self._session.sender.total_deadline(timeout)
        tables, about = self._tables.state_of(devices, paths, whole, raw=raw)
        about = self._tables.with_silent_now(about, tables, paths)
        return given(tables, about, as_=as_, tz=tz)

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[HistoryOptions],
    ) -> pd.DataFrame: ...

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[HistoryOptions],
    ) -> ArrowTable: ...

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[HistoryOptions],
    ) -> pl.DataFrame: ...

    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        raw: bool = False,
        tz: str | None = None,
        limit: int | None = None,
        compression: Compression | None = None,
        timeout: float | None = None,
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """What happened: a row for each thing, by device, path and the time at which it did.

        The columns are those of :func:`mirror_sdk.frames.history_frame`: values that devices told and by what they
        came, ends of writes, registrations, and intervals in which nothing could be heard. Rows without a path, such
        as registrations, are there whatever the ``paths``; those without a device, gaps of the service, whatever the
        devices. ``attrs["mirror"]`` also holds ``begin``, ``end``, ``taken_at`` and ``oldest_at``, from when on the
        service has kept everything. What breaks off on the way goes on behind the last row that came. Where no row
        has a path that one of ``paths`` matches, it stands in ``attrs["mirror"]["paths_without_rows"]``; where none of
        them has a row, and none of the devices such a resource, an :class:`EmptyTableWarning` says so.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes all that match
                the conditions.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            begin: From this instant on: with its time zone, its text, or how long ago it was (``"2h"``); ``None`` for
                all that is kept.
            end: Up to before this instant; ``None`` for the present.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the payloads are a column too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            limit: How many rows at most, the first ones; ``None`` for all.
            compression: ``none``, ``lz4`` or ``zstd`` on the way; by default ``lz4``, and ``none`` from this machine.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: There is no such filter; the message lists the known ones.
            BeforeHistory: ``begin`` lies before what is kept; ``oldest_at`` is the oldest instant there is.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps none, or is of a version that knows none.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: An instant has no time zone, the end lies before the beginning, a pattern is not one,
                ``limit`` is no number, or ``tz`` is no time zone.

        Source: wire.md 10.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> found = client.history(["station-01"], ["/3303/*"])
        >>> found[["event", "origin", "value_num"]].values.tolist()
        [['registration', nan, <NA>], ['reported', 'read', 21.5]]
        """
        import_locked(module_for(as_), "mirror_sdk.history.reading")
        from mirror_sdk.history.reading import basis
        from mirror_sdk.history.request import HistoryRequest, check_interval
        from mirror_sdk.snapshot.selection import Selection
        from mirror_sdk.tables.history import HistoryParts

        whole = self._session.sender.total_deadline(timeout)
        begin, end = check_interval(begin, end, self._tables.clock_of(begin, end, timeout=whole))
        chosen = None if devices is None else self._session.ids_of(devices, timeout=whole)
        request = HistoryRequest(
            selection=Selection.of(
                paths=paths,
                state=state,
                endpoint_type=endpoint_type,
                endpoint_name=endpoint_name,
                filters=filters,
                device_ids=chosen,
            ),
            server=self._session.base_url,
            begin=begin,
            end=end,
            limit=count("limit", limit),
            compression=compression,
        )
        parts = HistoryParts(raw=raw)
        told = self._tables.read_history(request, parts.add, whole, raw=raw)
        if limit is None and (unheard := parts.without_rows(chosen or ())):
            self._session.run(require_known(unheard), whole)
        units = self._tables.units_over_time(parts.unitless(), request, told)
        tables, metadata = parts.finish(basis(request, told), units=units)
        if limit is None:
            metadata = self._tables.with_silent(metadata, tables, request.selection, whole)
        return given(tables, metadata, as_=as_, tz=tz)

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[SnapshotOptions],
    ) -> pd.DataFrame: ...

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[SnapshotOptions],
    ) -> ArrowTable: ...

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[SnapshotOptions],
    ) -> pl.DataFrame: ...

    def as_of(
        self,
        instant: InstantLike,
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
        """The state table of many devices as it was at an instant of the past, by what is known of it now.

        That is, for each resource, the last value with a time (``changed_at``) up to the instant, and the last write
        that was asked for by then, with what had become of it. A resource of which nothing was told by then has no row,
        and what was ``subscribed`` is not kept. ``reported_at`` is that ``changed_at``, so it is never after the
        instant. Conditions are those of the directory as it is now. Of ``paths`` that no row is of is told as by
        :meth:`history`.

        Args:
            instant: Which instant: with its time zone; its text, as in ``attrs["mirror"]["oldest_at"]``; or how long
                ago it was, ``"2h"`` or a timedelta.
            devices: As for ``client.fleet.snapshot()``, as are the others.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether the raw payloads are columns too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` on the way.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: There is no such filter, and the message lists the known ones; or the instant is yet to come.
            BeforeHistory: The instant lies before what is kept; ``oldest_at`` is the oldest there is.
            ConnectionFailed: The answer broke off; a part of it is never a table.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps none, or is of a version that knows none.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: The instant has no time zone, a pattern is not one, or ``tz`` is no time zone.

        Source: wire.md 10.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> before = simulator.get_clock()
        >>> simulator.advance(60)
        datetime.datetime(...)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.as_of(before, ["station-01"], paths=["/3303/*"])["reported_num"].tolist()
        [21.5]
        """
        import_locked(module_for(as_), "mirror_sdk.snapshot.request")
        from mirror_sdk.snapshot.request import SnapshotRequest
        from mirror_sdk.snapshot.selection import Selection

        whole = self._session.sender.total_deadline(timeout)
        as_of = instant_like("instant", instant, self._tables.clock_of(instant, timeout=whole))
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=whole),
        )
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression, as_of=as_of
        )
        tables, about = self._tables.parts_of(request, whole)
        about = self._tables.with_silent(about, tables, selection, whole)
        return given(tables, about, as_=as_, tz=tz)

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[ChangesOptions],
    ) -> pd.DataFrame: ...

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[ChangesOptions],
    ) -> ArrowTable: ...

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[ChangesOptions],
    ) -> pl.DataFrame: ...

    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        filters: Mapping[str, object] | None = None,
        tz: str | None = None,
        timeout: float | None = None,
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """What changed between two instants: one row per resource that was reported then, with both its values.

        The columns are those of :meth:`mirror_sdk.recording.Recording.changes`. ``attrs["mirror"]["complete"]`` is
        false where a gap lies between. What is reported late meanwhile may be in one of the two values only.

        Args:
            begin: From behind this instant on: with its time zone, its text, or how long ago it was (``"2h"``).
            end: Up to this instant; ``None`` for the present.
            devices: As for :meth:`history`, as are the others.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: There is no such filter, and the message lists the known ones; or the end is yet to come.
            BeforeHistory: ``begin`` lies before what is kept; ``oldest_at`` is the oldest instant there is.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps none, or is of a version that knows none.
            NotFound: One of the ``devices`` is not there.
            TypeError: A single text was given where a list of device ids belongs.
            ValueError: A time in ``filters`` has no zone, or there are several values without ``in``.
            InvalidValue: An instant has no time zone, the end lies before the beginning, a pattern is not one, or
                ``tz`` is no time zone.

        Source: wire.md 10.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> begin, end = simulator.get_clock(), simulator.advance(60)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.changes(begin, end)[["path", "before_num", "after_num"]].values.tolist()
        [['/3303/0/5700', 21.5, 22.5]]
        """
        import_locked(module_for(as_), "mirror_sdk.history.reading", "mirror_sdk.history.changes")
        from mirror_sdk.history.changes import ReportCounts, changes_parts
        from mirror_sdk.history.request import HistoryRequest, behind, check_interval
        from mirror_sdk.snapshot.selection import Selection
        from mirror_sdk.tables.columns import basis_of_table

        whole = self._session.sender.total_deadline(timeout)
        now = self._tables.clock_of(begin, end, timeout=whole)
        first = instant_like("begin", begin, now)
        _, last = check_interval(first, end, now)
        selection = Selection.of(
            paths=paths,
            state=state,
            endpoint_type=endpoint_type,
            endpoint_name=endpoint_name,
            filters=filters,
            device_ids=None if devices is None else self._session.ids_of(devices, timeout=whole),
        )
        counts = ReportCounts()
        before = self._tables.state_at(first, selection, whole)
        if last is None:
            # Until now, by the service's clock.
            after = self._tables.state_at(None, selection, whole)
            last = instant_like("taken_at", basis_of_table(after)["taken_at"], self._session.sender.clock.now)
        between = HistoryRequest(
            selection=selection, server=self._session.base_url, begin=behind(first), end=behind(last)
        )
        self._tables.read_history(between, counts.add, whole)
        if end is not None:
            after = self._tables.state_at(last, selection, whole)
        tables, about = changes_parts(counts.finish(), before, after, first, last)
        return given(tables, about, as_=as_, tz=tz)
