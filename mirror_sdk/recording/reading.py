"""Reads a recording, also while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack, overload

import pandas as pd

from mirror_sdk._arguments import Form, InstantLike, count, module_for
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._fork import import_locked
from mirror_sdk.forms import to_form
from mirror_sdk.history.changes import CHANGES_COLUMNS
from mirror_sdk.history.request import check_interval
from mirror_sdk.history.silent_paths import with_silent
from mirror_sdk.naming import DevicesLike
from mirror_sdk.recording import files, layout, replay
from mirror_sdk.recording.audit import Audit, audit
from mirror_sdk.recording.content import RecordingContent, read_content
from mirror_sdk.recording.folder import RecordingFolder
from mirror_sdk.recording.recorded_history import history
from mirror_sdk.recording.replay import RecordedValues, recorded_values
from mirror_sdk.recording.selection import RowSelection, names_in, select
from mirror_sdk.tables.columns import documented, table_metadata, to_table
from mirror_sdk.tables.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA

if TYPE_CHECKING:
    import polars as pl

    from mirror_sdk.recording.table_options import RecordedHistoryOptions, RecordedStateOptions
    from mirror_sdk.tables.arrow_types import ArrowTable


class Recording:
    """A recording in a folder. Every method reads the files anew, so that one that grows is seen as it is.

    Every method may raise :class:`~mirror_sdk.RecordingDamaged`: a file is not as it was written; the message names it.
    It raises ``FileNotFoundError`` where the recording was removed.

    Args:
        path: The folder, as it was given to ``client.record``.

    Raises:
        FileNotFoundError: There is no recording.
        InvalidValue: The folder holds something else.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path: Path = Path(path).absolute()
        about = files.read_about(self.path)
        if about is None:
            raise FileNotFoundError(f"{self.path} is no recording; client.record({str(self.path)!r}) makes one")
        self._about = about

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
        self, *, raw: bool = False, tz: str | None = None, as_: Form = "pandas"
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The events table, each event once; see :func:`mirror_sdk.frames.events_frame`.

        Args:
            raw: Whether the payloads stand in ``value_raw``.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Raises:
            InvalidValue: ``tz`` is no time zone.

        >>> with client.record(folder / "run.parquet"):
        ...     client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        ...     simulator.register(station)
        >>> Recording(folder / "run.parquet").events()["event"].tolist()
        ['registration', 'observation']
        """
        import_locked(module_for(as_))
        content = read_content(self.path)
        schema = EVENTS_RAW_SCHEMA if raw else EVENTS_SCHEMA
        columns = {name: content.events.column(name).to_pylist() for name in schema.names}
        found = audit(content)
        about = table_metadata(columns["device_id"], found.until_at, complete=found.complete, server=self._about.server)
        return to_form([to_table(columns, schema)], about, as_=as_, tz=tz)

    def audit(self) -> Audit:
        """Whether it is complete, from when to when, and what is missing.

        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> recorder.recording.audit().events
        0
        """
        return audit(read_content(self.path))

    def finalize(self) -> None:
        """Make whole files of what a killed recorder left, for other programs to see it, as the next recorder does.

        Raises:
            OSError: The folder, or what is beside it, cannot be written.
            InvalidValue: A recorder is at work, which does it by itself.

        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> recorder.recording.finalize()
        """
        RecordingFolder(self.path, self._about).close()

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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """What happened: a row for each thing, as :meth:`mirror_sdk.MirrorClient.history` gives it.

        The columns are those of :func:`mirror_sdk.frames.history_frame`. What the log does not tell is missing: values
        that others read, values that nobody subscribed, ends of writes, the revision of the mirror, and gaps of the
        service itself. What this application read stands at the time of the answer, not at that of the device, and
        ``received_at`` is of the clock here. What the recording has lost, or did not look at, is a row ``gap``; a
        recording with ``paths`` has no registrations and nothing that was read.

        Args:
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes all.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            begin: From this instant on: with its time zone, its text, or how long before the end of the recording
                (``"2h"``); ``None`` for all that is recorded.
            end: Up to before this instant; ``None`` for all that is recorded.
            raw: Whether the payloads are a column too.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            limit: How many rows at most, the first ones; ``None`` for all.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Returns:
            The table. ``attrs["mirror"]["complete"]`` is true when it is known that nothing is missing.

        Raises:
            InvalidValue: An instant is naive, ``begin`` lies before the recording or behind ``end``, a device does not
                occur in it, a pattern is not one, ``limit`` is no number, or ``tz`` is no time zone.

        >>> with client.record(folder / "run.parquet", paths=["/3303/*"], subscribe=True) as recorder:
        ...     simulator.set_value("station-01", "/3303/0/5700", 22.5)
        >>> recorder.recording.history()[["event", "value_num"]].values.tolist()
        [['reported', 21.5], ['reported', 22.5]]
        """
        import_locked(module_for(as_))
        most = count("limit", limit)
        content = read_content(self.path)
        first, last = check_interval(begin, end, content.now)
        tables, about = history(
            content,
            self._select(content, devices, paths),
            begin=first,
            end=last,
            limit=most,
            raw=raw,
            server=self._about.server,
        )
        if most is None:
            about = with_silent(about, tables, paths)
        return to_form(tables, about, as_=as_, tz=tz)

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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """The state table as it was at an instant: what was last observed by then, upon the state at the beginning.

        Times are those of the devices' changes (``changed_at``). The log tells nothing of desired values, so their
        columns hold nothing, nor of values that others read without their being observed.

        Args:
            instant: Which instant: with its time zone; its text, as in ``attrs["mirror"]``; or how long before the end
                of the recording it was, ``"2h"`` or a timedelta.
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes all.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Returns:
            A state table, see :func:`mirror_sdk.frames.state_frame`. ``attrs["mirror"]["complete"]`` is true when it is
            known that nothing is missing between the last state table before the instant and the instant itself, by the
            service's clock; so it is false behind the end of the recording, in a gap, and where the service did not
            tell its time.

        Raises:
            InvalidValue: The instant is naive or lies before the recording, a device does not occur in it, a pattern is
                not one, or ``tz`` is no time zone.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> state = recorder.recording.as_of(simulator.get_clock())
        >>> state["reported_num"].dropna().tolist()
        [21.5]
        """
        import_locked(module_for(as_))
        content, values = self._values(devices, paths)
        at = instant_like("instant", instant, content.now)
        complete = values.is_complete(content.spans, at)
        tables, about = replay.as_of(values, at, complete=complete, server=self._about.server)
        about = with_silent(about, tables, paths)
        return to_form(tables, about, as_=as_, tz=tz)

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
        as_: Form = "pandas",
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame:
        """What changed between two instants: one row per resource that was reported then, with both its values.

        Args:
            begin: From behind this instant on; it is given as for :meth:`as_of`.
            end: Up to this instant; ``None`` for the end of the recording.
            devices: Devices, their ids or endpoint names, or a table that names them; ``None`` takes all.
            paths: Path patterns (``/3303/*``); ``None`` takes every resource.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.
            as_: ``pandas``, ``arrow`` or ``polars``: a ``pandas.DataFrame``, ``pyarrow.Table`` or ``polars.DataFrame``.

        Returns:
            A frame with these columns, those of :data:`~mirror_sdk.recording.CHANGES_SCHEMA`, also when it has no rows:

            {columns}

            ``attrs["mirror"]["complete"]`` is true when it is known that nothing is missing up to the end, as for
            :meth:`as_of`.

        Raises:
            InvalidValue: An instant is naive or lies before the recording, the end lies before the beginning, a device
                does not occur in it, or a pattern is not one.

        >>> begin = simulator.get_clock()
        >>> with client.record(folder / "run.parquet") as recorder:
        ...     pass
        >>> len(recorder.recording.changes(begin, simulator.advance(60)))
        0
        """
        import_locked(module_for(as_))
        content, values = self._values(devices, paths)
        first = instant_like("begin", begin, content.now)
        last = content.now() if end is None else instant_like("end", end, content.now)
        check_interval(first, last, content.now)
        complete = values.is_complete(content.spans, first, last)
        return to_form(*replay.changes(values, first, last, complete=complete), as_=as_, tz=tz)

    def _select(
        self, content: RecordingContent, devices: DevicesLike | None, paths: Sequence[str] | None
    ) -> RowSelection:
        return select({} if devices is None else names_in(content.events, self._states()), devices, paths)

    def _values(
        self, devices: DevicesLike | None, paths: Sequence[str] | None
    ) -> tuple[RecordingContent, RecordedValues]:
        """Return the content, and the recorded values of these resources."""
        content = read_content(self.path)
        values = recorded_values(content.events, self._states())
        return content, values._replace(rows=self._select(content, devices, paths).of_frame(values.rows))

    def _states(self) -> list[pd.DataFrame]:
        return [files.read_state(self.path, number) for number in layout.state_numbers(self.path)]
