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
from mirror_sdk.forms import to_form
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
        """Return the state table, one row for each device and resource; see :func:`mirror_sdk.frames.state_frame`.

        The devices are fetched one by one, each as of its own instant; ``client.fleet.snapshot()`` returns a whole
        fleet as of one instant. ``attrs["mirror"]["paths_without_rows"]`` lists the ``paths`` that no row matches. If
        no path has a row, an :class:`EmptyTableWarning` is issued.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects the whole
                directory.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            raw: Whether there are columns with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole call, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            ImportError: What the form needs, such as pandas, is not installed.
            NotFound: A device does not exist.
            TypeError: A single string was passed instead of a list of devices.
            InvalidValue: A pattern is not valid, or ``tz`` is not a time zone.

        >>> client.state_frame(paths=["/3311/*"])["path"].tolist()
        ['/3311/0/5850', '/3311/0/5851']
        >>> client.state_frame(paths=["/3311/*"], as_="polars").height
        2
        """
        import_locked(module_for(as_))
        deadline = self._session.sender.total_deadline(timeout)
        tables, metadata = self._tables.state_of(devices, paths, deadline, raw=raw)
        metadata = self._tables.with_silent(metadata, tables, paths)
        return to_form(tables, metadata, as_=as_, tz=tz)

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
        """Return the events of the past as a table, with one row for each event, sorted by device, path and time.

        The columns are those of :func:`mirror_sdk.frames.history_frame`. The events are values that devices reported,
        with their origin, results of writes, registrations, and intervals without a connection. Rows without a path,
        such as registrations, do not depend on ``paths``. Rows without a device, which are gaps of the service, do not
        depend on ``devices``.

        ``attrs["mirror"]`` also contains ``begin``, ``end``, ``taken_at`` and ``oldest_at``, the beginning of the
        stored history. A response that is cut off continues after the last row received.
        ``attrs["mirror"]["paths_without_rows"]`` lists the ``paths`` that no row matches. If no path has a row and no
        device has such a resource, an :class:`EmptyTableWarning` is issued.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` selects all that match
                the conditions.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            begin: From this instant on: a time with its zone, its text, or how long ago it was (``"2h"``); ``None`` for
                the whole stored history.
            end: Before this instant; ``None`` means now.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether there is a column with the payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            limit: The maximum number of rows, counted from the first; ``None`` returns all.
            compression: ``none``, ``lz4`` or ``zstd`` in transit; by default ``lz4``, and ``none`` on this machine.
            timeout: Seconds for the whole call, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: A filter does not exist; the message lists the known ones.
            BeforeHistory: ``begin`` is before the stored history; ``oldest_at`` is the oldest possible instant.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps no history, or its version has none.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: An instant has no time zone, the end is before the beginning, a pattern is not valid,
                ``limit`` is not a number, or ``tz`` is not a time zone.

        Source: wire.md 10.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> found = client.history(["station-01"], ["/3303/*"])
        >>> found[["event", "origin", "value_num"]].values.tolist()
        [['registration', nan, <NA>], ['reported', 'read', 21.5]]
        """
        import_locked(module_for(as_), "mirror_sdk.history.reading")
        from mirror_sdk.history.reading import history_metadata
        from mirror_sdk.history.request import HistoryRequest, check_interval
        from mirror_sdk.tables.history import HistoryTableBuilder

        deadline = self._session.sender.total_deadline(timeout)
        begin, end = check_interval(begin, end, self._tables.clock_of(begin, end, timeout=deadline))
        request = HistoryRequest(
            selection=self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters),
            server=self._session.base_url,
            begin=begin,
            end=end,
            limit=count("limit", limit),
            compression=compression,
        )
        parts = HistoryTableBuilder(raw=raw)
        result = self._tables.read_history(request, parts.add, deadline, raw=raw)
        # A device without rows may not exist, which an empty table would not show.
        if limit is None and (unheard := parts.without_rows(request.selection.device_ids or ())):
            self._session.run(require_known(unheard), deadline)
        units = self._tables.units_over_time(parts.unitless(), request, result)
        tables, metadata = parts.finish(history_metadata(request, result), units=units)
        # With a limit, a path without rows may have some after it.
        if limit is None:
            metadata = self._tables.with_silent(metadata, tables, paths, request.selection, deadline)
        return to_form(tables, metadata, as_=as_, tz=tz)

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
        """Return the state table of many devices as of an instant in the past, according to the stored history.

        For each resource it contains the last value with a time (``changed_at``) up to the instant, and the last write
        requested by then, with its result by then. A resource without a report by then has no row, and ``subscribed``
        is not stored. ``reported_at`` contains this ``changed_at``, so it is never after the instant. The filters apply
        to the directory as it is now. Paths without rows are reported as by :meth:`history`.

        Args:
            instant: A time with its zone; its text, as in ``attrs["mirror"]["oldest_at"]``; or how long ago it was:
                ``"2h"`` or a timedelta.
            devices: As for ``client.fleet.snapshot()``, as are all arguments below.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            raw: Whether there are columns with the raw payloads.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            compression: ``none``, ``lz4`` or ``zstd`` in transit.
            timeout: Seconds for the whole call, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: A filter does not exist, and the message lists the known ones; or the instant is in the future.
            BeforeHistory: The instant is before the stored history; ``oldest_at`` is the oldest possible one.
            ConnectionFailed: The response was cut off; a part of it is never returned.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps no history, or its version has none.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: The instant has no time zone, a pattern is not valid, or ``tz`` is not a time zone.

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

        deadline = self._session.sender.total_deadline(timeout)
        as_of = instant_like("instant", instant, self._tables.clock_of(instant, timeout=deadline))
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        request = SnapshotRequest(
            selection=selection, server=self._session.base_url, raw=raw, tz=tz, compression=compression, as_of=as_of
        )
        tables, metadata = self._tables.tables_of(request, deadline)
        metadata = self._tables.with_silent(metadata, tables, paths, selection, deadline)
        return to_form(tables, metadata, as_=as_, tz=tz)

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
        """Return the changes between two instants: a row for each resource reported in between, with both values.

        The columns are those of :meth:`mirror_sdk.recording.Recording.changes`. ``attrs["mirror"]["complete"]`` is
        false if there is a gap in between. A value that arrives late during the call may be in only one of the two
        columns.

        Args:
            begin: After this instant: a time with its zone, its text, or how long ago it was (``"2h"``).
            end: Up to this instant; ``None`` means now.
            devices: As for :meth:`history`, as are all arguments below.
            paths: Path patterns (``/3303/*``); ``None`` selects every resource.
            state: ``registered`` or ``deregistered``, now.
            endpoint_type: Endpoint type.
            endpoint_name: Endpoint name.
            filters: Other conditions, as for ``client.devices.list()``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            timeout: Seconds for the whole call, instead of the client's for each part; see :class:`MirrorClient`.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            BadRequest: A filter does not exist, and the message lists the known ones; or the end is in the future.
            BeforeHistory: ``begin`` is before the stored history; ``oldest_at`` is the oldest possible instant.
            ImportError: What the form needs, such as pandas, is not installed.
            NoHistory: The service keeps no history, or its version has none.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A single string was passed instead of a list of devices.
            ValueError: A time in ``filters`` has no zone, or several values are passed without ``in``.
            InvalidValue: An instant has no time zone, the end is before the beginning, a pattern is not valid, or
                ``tz`` is not a time zone.

        Source: wire.md 10.

        >>> client.subscribe(station, "/3303/0/5700")
        >>> begin, end = simulator.get_clock(), simulator.advance(60)
        >>> simulator.set_value(station, "/3303/0/5700", 22.5)
        >>> client.changes(begin, end)[["path", "before_num", "after_num"]].values.tolist()
        [['/3303/0/5700', 21.5, 22.5]]
        """
        import_locked(module_for(as_), "mirror_sdk.history.reading", "mirror_sdk.history.changes")
        from mirror_sdk.history.changes import ReportCounts, changes_tables
        from mirror_sdk.history.request import HistoryRequest, check_interval, just_after
        from mirror_sdk.tables.columns import metadata_of_table

        deadline = self._session.sender.total_deadline(timeout)
        now = self._tables.clock_of(begin, end, timeout=deadline)
        first = instant_like("begin", begin, now)
        _, last = check_interval(first, end, now)
        selection = self._tables.select(devices, deadline, paths, state, endpoint_type, endpoint_name, filters)
        counts = ReportCounts()
        before = self._tables.state_at(first, selection, deadline)
        if last is None:
            # Until now, by the service's clock.
            after = self._tables.state_at(None, selection, deadline)
            last = instant_like("taken_at", metadata_of_table(after)["taken_at"], self._session.sender.clock.now)
        between = HistoryRequest(
            selection=selection, server=self._session.base_url, begin=just_after(first), end=just_after(last)
        )
        self._tables.read_history(between, counts.add, deadline)
        if end is not None:
            after = self._tables.state_at(last, selection, deadline)
        tables, metadata = changes_tables(counts.finish(), before, after, first, last)
        return to_form(tables, metadata, as_=as_, tz=tz)
