"""Access to a recording, even while it is being written."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

import pandas as pd

from mirror_sdk._arguments import InstantLike, TableFormat, count, table_module
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._fork import import_locked
from mirror_sdk.arrow_tables.columns import documented, table_metadata, to_table
from mirror_sdk.arrow_tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.history.changes import CHANGES_COLUMNS
from mirror_sdk.history.history_request import check_interval
from mirror_sdk.history.paths_without_rows import with_paths_without_rows
from mirror_sdk.recording import file_names, files, state_at_instant
from mirror_sdk.recording.audit import Audit, audit
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.recorded_history import history
from mirror_sdk.recording.recording_content import RecordingContent, read_content
from mirror_sdk.recording.row_selection import RowSelection, names_in, select
from mirror_sdk.recording.state_at_instant import RecordedValues, recorded_values
from mirror_sdk.sql.queryable import Queryable
from mirror_sdk.table_formats import convert_tables

if TYPE_CHECKING:
    import polars as pl

    from mirror_sdk.arrow_tables.arrow_types import ArrowTable
    from mirror_sdk.recording.table_options import RecordedHistoryOptions, RecordedStateOptions
    from mirror_sdk.sql.source import ViewSource


class Recording(Queryable):
    """A recording in a folder. Every method reads the files again, so its result includes the newest events.

    Every method raises :class:`~mirror_sdk.RecordingDamaged` if a file is damaged. The message names the file. If the
    recording was removed, every method raises ``FileNotFoundError``.

    Args:
        path: The path of the folder, as passed to ``client.record``.

    Raises:
        FileNotFoundError: The folder does not contain a recording.
        InvalidValue: The folder contains something else.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path).absolute()
        metadata = files.read_settings(self.path)
        if metadata is None:
            raise FileNotFoundError(f"{self.path} is not a recording; client.record({str(self.path)!r}) starts one")
        self._settings = metadata

    def __repr__(self) -> str:
        return f"<Recording {self.path}>"

    @overload
    def events(
        self, *, raw: bool = False, tz: str | None = None, as_: Literal["pandas"] = "pandas"
    ) -> pd.DataFrame: ...
    @overload
    def events(self, *, raw: bool = False, tz: str | None = None, as_: Literal["arrow"]) -> ArrowTable: ...
    @overload
    def events(self, *, raw: bool = False, tz: str | None = None, as_: Literal["polars"]) -> pl.DataFrame: ...
    def events(
        self, *, raw: bool = False, tz: str | None = None, as_: TableFormat = "pandas"
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the events table, with each event once; see :func:`mirror_sdk.frames.events_frame`.

        Args:
            raw: Whether to add a column ``value_raw`` with the payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: The type of the result: ``pandas`` for a ``pandas.DataFrame``, ``arrow`` for a ``pyarrow.Table``, or
                ``polars`` for a ``polars.DataFrame``.

        Raises:
            InvalidValue: ``tz`` is not a time zone.

        >>> with client.record(folder / "run.parquet"):
        ...     client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        ...     simulator.register(station)
        >>> Recording(folder / "run.parquet").events()["event"].tolist()
        ['registration', 'observation']
        """
        import_locked(table_module(as_))
        content = read_content(self.path)
        schema = EVENTS_RAW_SCHEMA if raw else EVENTS_SCHEMA
        columns = {name: content.events.column(name).to_pylist() for name in schema.names}
        found = audit(content)
        metadata = table_metadata(
            columns["device_id"], found.until_at, complete=found.complete, server=self._settings.server
        )
        return convert_tables([to_table(columns, schema)], metadata, as_=as_, tz=tz)

    def audit(self) -> Audit:
        """Check whether the recording is complete. This reads all files of the recording.

        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> recorder.recording.audit().events
        0
        """
        return audit(read_content(self.path))

    def finalize(self) -> None:
        """Complete the Parquet files after a recorder was killed, so that other programs can read all events.

        You need this method only if you do not start another recorder with this folder, because a recorder completes
        the files when it starts.

        Raises:
            OSError: The folder or the sidecar folder next to it (``_run.parquet.mirror``) cannot be written.
            InvalidValue: A recorder is running. It completes the files itself.

        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> recorder.recording.finalize()
        """
        RecordingFolder(self.path, self._settings).close()

    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[RecordedHistoryOptions],
    ) -> pd.DataFrame: ...
    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[RecordedHistoryOptions],
    ) -> ArrowTable: ...
    @overload
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[RecordedHistoryOptions],
    ) -> pl.DataFrame: ...
    def history(
        self,
        devices: DevicesLike | None = None,
        paths: Sequence[str] | None = None,
        *,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        raw: bool = False,
        tz: str | None = None,
        limit: int | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the history table, with one row per event, like :meth:`mirror_sdk.MirrorClient.history`.

        :func:`mirror_sdk.frames.history_frame` describes the columns, and what the notification log does not contain.
        The table also lacks the gaps of the service itself. For values that this application has read, the table
        contains the time of the response instead of the device's time. ``received_at`` comes from the clock of the
        service or, if the service does not send it, of this machine. Parts of the log that were lost or not read are
        rows with the event ``gap``. A recording that was made with ``paths`` contains neither registrations nor
        responses to reads.

        Args:
            devices: Devices, their ids or endpoint names, or a table that contains them. ``None`` selects all devices.
            paths: Path patterns, such as ``/3303/*``. ``None`` selects every resource.
            begin: The start of the period: a datetime with a time zone, a string, or the time before the end of the
                recording (``"2h"``). Events at this time are included. ``None`` means no limit.
            end: The end of the period, in the same forms. Events at this time are not included. ``None`` means no
                limit.
            raw: Whether to add a column with the payloads.
            tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            limit: The maximum number of rows. The table then contains the first rows. ``None`` means no limit.
            as_: The type of the result: ``pandas`` for a ``pandas.DataFrame``, ``arrow`` for a ``pyarrow.Table``, or
                ``polars`` for a ``polars.DataFrame``.

        Returns:
            The history table. ``attrs["mirror"]["complete"]`` is true only if nothing can be missing.

        Raises:
            InvalidValue: A time is naive, ``begin`` is before the recording or after ``end``, or the recording does not
                contain a device. It is also raised if a pattern, ``limit`` or ``tz`` is not valid.

        >>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        ...     simulator.set_value("station-01", "/3303/0/5700", 22.5)
        >>> recorder.recording.history()[["event", "value_num"]].values.tolist()
        [['reported', 21.5], ['reported', 22.5]]
        """
        import_locked(table_module(as_))
        most = count("limit", limit)
        content = read_content(self.path)
        first, last = check_interval(begin, end, content.now)
        tables, metadata = history(
            content,
            self._select(content, devices, paths),
            begin=first,
            end=last,
            limit=most,
            raw=raw,
            server=self._settings.server,
        )
        # With a limit, a path that has no rows in the result may have rows after the limit.
        if most is None:
            metadata = with_paths_without_rows(metadata, tables, paths)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[RecordedStateOptions],
    ) -> pd.DataFrame: ...
    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[RecordedStateOptions],
    ) -> ArrowTable: ...
    @overload
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[RecordedStateOptions],
    ) -> pl.DataFrame: ...
    def as_of(
        self,
        instant: InstantLike,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        tz: str | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Return the state table at a point in time.

        The table contains the state at the start of the recording plus all later observations. ``changed_at``
        determines which values are included. The log has no desired values, so their columns are empty. It also lacks
        values that only other applications read. Rows are sorted by device and path.

        Args:
            instant: The point in time. It is a datetime with a time zone, a string as in ``attrs["mirror"]``, or the
                time before the end, such as ``"2h"``. At the start, the result is the first state, read a moment later.
            devices: Devices, their ids or endpoint names, or a table that contains them. ``None`` selects all devices.
            paths: Path patterns, such as ``/3303/*``. ``None`` selects every resource.
            tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: The type of the result: ``pandas`` for a ``pandas.DataFrame``, ``arrow`` for a ``pyarrow.Table``, or
                ``polars`` for a ``polars.DataFrame``.

        Returns:
            A state table; see :func:`mirror_sdk.frames.state_frame`. ``attrs["mirror"]["complete"]`` is true only if
            nothing can be missing between the last state stored before ``instant`` and ``instant`` itself. It is false
            after the end of the recording, in a gap, and if the service did not send its time.

        Raises:
            InvalidValue: The time is naive or before the start of the recording, the recording does not contain a
                device, a pattern is invalid, or ``tz`` is not a time zone.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> state = recorder.recording.as_of(simulator.get_clock())
        >>> state["reported_num"].dropna().tolist()
        [21.5]
        """
        import_locked(table_module(as_))
        content, values = self._values(devices, paths)
        at = values.known_from(content.spans, instant_like("instant", instant, content.now))
        complete = values.is_complete(content.spans, at)
        tables, metadata = state_at_instant.as_of(values, at, complete=complete, server=self._settings.server)
        metadata = with_paths_without_rows(metadata, tables, paths)
        return convert_tables(tables, metadata, as_=as_, tz=tz)

    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["pandas"] = "pandas",
        **options: Unpack[RecordedStateOptions],
    ) -> pd.DataFrame: ...
    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["arrow"],
        **options: Unpack[RecordedStateOptions],
    ) -> ArrowTable: ...
    @overload
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        as_: Literal["polars"],
        **options: Unpack[RecordedStateOptions],
    ) -> pl.DataFrame: ...
    @documented(CHANGES_COLUMNS)
    def changes(
        self,
        begin: InstantLike,
        end: InstantLike | None = None,
        devices: DevicesLike | None = None,
        *,
        paths: Sequence[str] | None = None,
        tz: str | None = None,
        as_: TableFormat = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """Compare the values of each reported resource at two points in time.

        The result has one row per resource, with both values.

        Args:
            begin: The first point in time, in any form that :meth:`as_of` accepts.
            end: The second point in time. ``None`` means the end of the recording.
            devices: Devices, their ids or endpoint names, or a table that contains them. ``None`` selects all devices.
            paths: Path patterns, such as ``/3303/*``. ``None`` selects every resource.
            tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: The type of the result: ``pandas`` for a ``pandas.DataFrame``, ``arrow`` for a ``pyarrow.Table``, or
                ``polars`` for a ``polars.DataFrame``.

        Returns:
            A table with the columns of :data:`~mirror_sdk.recording.CHANGES_SCHEMA`, even if it has no rows:

            {columns}

            ``attrs["mirror"]["complete"]`` is true only if nothing can be missing up to the end, as for :meth:`as_of`.

        Raises:
            InvalidValue: A time is naive or before the start of the recording, ``end`` is before ``begin``, the
                recording does not contain a device, or a pattern is invalid.

        >>> begin = simulator.get_clock()
        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> len(recorder.recording.changes(begin, simulator.advance(60)))
        0
        """
        import_locked(table_module(as_))
        content, values = self._values(devices, paths)
        first = instant_like("begin", begin, content.now)
        last = content.now() if end is None else instant_like("end", end, content.now)
        check_interval(first, last, content.now)
        complete = values.is_complete(content.spans, first, last)
        return convert_tables(*state_at_instant.changes(values, first, last, complete=complete), as_=as_, tz=tz)

    def _views(self) -> ViewSource:
        import_locked("mirror_sdk.recording.recorded_views")
        from mirror_sdk.recording.recorded_views import ReadView, RecordedViews

        now = read_content(self.path).now()
        readers: dict[str, ReadView] = {
            "history": lambda _, paths: self.history(paths=paths, as_="arrow"),
            "events": lambda _, __: self.events(as_="arrow"),
            "state": lambda _, paths: self.as_of(now, paths=paths, as_="arrow"),
            "as_of": lambda instants, paths: self.as_of(instants[0], paths=paths, as_="arrow"),
            "changes": lambda instants, paths: self.changes(instants[0], [*instants, now][1], paths=paths, as_="arrow"),
        }
        return RecordedViews(readers, now, self._settings.server)

    def _select(
        self, content: RecordingContent, devices: DevicesLike | None, paths: Sequence[str] | None
    ) -> RowSelection:
        return select({} if devices is None else names_in(content.events, self._states()), devices, paths)

    def _values(
        self, devices: DevicesLike | None, paths: Sequence[str] | None
    ) -> tuple[RecordingContent, RecordedValues]:
        content = read_content(self.path)
        values = recorded_values(content.events, self._states())
        return content, values._replace(rows=self._select(content, devices, paths).of_frame(values.rows))

    def _states(self) -> list[pd.DataFrame]:
        return [files.read_state(self.path, number) for number in file_names.state_numbers(self.path)]
