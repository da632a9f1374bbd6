"""The accessor ``frame.mirror``, which provides the methods for tables of this package.

``mirror(frame)`` returns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import pandas as pd

from mirror_sdk._arguments import InstantLike, path_patterns
from mirror_sdk._fork import lazy_property
from mirror_sdk._formatting import visible
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.history_methods import HistoryMethods
from mirror_sdk.frames.columns import in_zone, named_columns
from mirror_sdk.frames.drift import drift_frame
from mirror_sdk.frames.excel import for_excel
from mirror_sdk.frames.html import to_html, visible_frame
from mirror_sdk.frames.joining import How, join, with_metadata_from
from mirror_sdk.frames.plot_axes import axes_for, concise_dates, device_names, plain_legend
from mirror_sdk.frames.plot_conditions import DrawableCondition, checked_conditions, draw_conditions
from mirror_sdk.frames.plot_legend import label_of, line_names
from mirror_sdk.frames.staleness import stale_devices, stale_rows
from mirror_sdk.frames.state import value_column, wide
from mirror_sdk.privacy.pandas_cells import pseudonymized_frame
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.object_definitions import display_unit
from mirror_sdk.wire.paths import matches_any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


T_co = TypeVar("T_co", covariant=True)


class _Refreshes(Protocol[T_co]):
    def refresh(self, frame: pd.DataFrame) -> T_co: ...


class _HasFleet(Protocol[T_co]):
    # Declared in the same way as in the clients, because pyright does not compare a property with another descriptor.
    @lazy_property
    def fleet(self) -> _Refreshes[T_co]: ...


@pd.api.extensions.register_dataframe_accessor("mirror")
class MirrorAccessor(HistoryMethods):
    """Methods for the tables of this package, and for any table that has the columns they need.

    Methods that analyze values over time need a history table or an events table. A recording provides both.

    A value is known from the time of its row until the next row of the resource. It becomes unknown earlier if an
    *unknown interval* begins. Unknown intervals are:

    - a ``gap`` row: the service was down, or it lost entries;
    - an absence of the device: from a ``deregistration`` or ``expired`` row to its next ``registration`` or
      ``reg_update``;
    - with ``silence_limit``, a silence of the device, which means no value, registration or update for longer than the
      limit. The interval begins when the limit expires.

    If a resource has several rows with the same millisecond, the row that arrived last counts.

    After an unknown interval the value stays unknown until the device reports the resource again, even if the report
    has an older time. For example, a device may return and report a value that last changed before it left:

    ==================  ==========  ===========  ============================
    event               changed_at  received_at  value from then on
    ==================  ==========  ===========  ============================
    ``reported`` 20     12:00       12:00        20
    ``deregistration``  12:10       12:10        unknown
    ``registration``    12:30       12:30        still unknown
    ``reported`` 20     12:00       12:31        20, known from 12:31 on
    ==================  ==========  ===========  ============================

    The exact rule: a row whose value changed at s and arrived at r sets the value at s. If an unknown interval began in
    [s, r], the row also sets the value at r, provided that

    - every interval that began by r had also ended by r;
    - the row arrived after the ``gap`` rows and registrations that ended these intervals;
    - no other row of the resource has a time in (s, r].

    In a history of the service, r is ``received_at``. In recordings and events tables, it comes from the
    client's clock, and many rows may have the same time. For such rows, r is the time of the newest registration,
    deregistration, expiry or end of a gap that arrived before the row. The value is therefore known as soon as the
    device returns.

    Opaque values, NaN and missing values count as unknown. The time of a row is the device's own time (``changed_at``),
    or the time of receipt if the device sent no time. To select resources, pass ``paths=`` instead of removing rows:
    every row shows that its device was in contact, and so affects ``silence_limit`` for all resources of that device.

    Raises:
        InvalidValue: The table lacks a column that the method needs; the message names it.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def value(self) -> pd.Series:
        """The decoded values of the table's rows as one column of Python objects.

        These are reported values in a state or drift table, and received values in other tables.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.state_frame([station]).mirror.value.tolist()
        [21.5]
        """
        return value_column(self._frame, "reported" if "reported_num" in self._frame else self._of("value"))

    @property
    def desired(self) -> pd.Series:
        """The decoded desired values of a state or drift table as one column of Python objects.

        For a requests table, these are the requested values.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.state_frame(paths=["/3311/0/5851"]).mirror.desired.tolist()
        [40.0]
        """
        return value_column(self._frame, "desired" if "desired_num" in self._frame else self._of("requested"))

    @property
    def labels(self) -> pd.Series:
        """A column with the label of the resource in each row, or with its path if the resource has no label.

        >>> client.state_frame([station]).mirror.labels.tolist()
        ['Temperature · Sensor Value']
        """
        self._need("path")
        path = self._frame["path"].astype(object)
        if "label" not in self._frame:
            return path.map(label_of, na_action="ignore").rename("label")
        label = self._frame["label"].astype(object)
        return label.mask(label.isna(), path).rename("label")

    def in_zone(self, tz: str) -> pd.DataFrame:
        """Convert all times of the table to a time zone such as ``Europe/Berlin``.

        >>> client.state_frame().mirror.in_zone("Europe/Berlin")["reported_at"].dtype
        datetime64[ms, Europe/Berlin]
        """
        return in_zone(self._frame, tz)

    def wide(self, *, columns: Literal["path", "label"] = "path") -> pd.DataFrame:
        """Pivot the table, so that it has one row per device and one column per resource.

        The cells depend on the table:

        - state table: the reported values, see :func:`mirror_sdk.frames.wide`;
        - requests table: the status of the last request;
        - drift table: the kinds of drift;
        - events or history table: the values, with one row per point in time and one column per device and resource;
        - result of :meth:`resample`: the statistic, with one row per bin and one column per device and resource. If the
          table has several statistics, each statistic has its own columns.

        >>> client.state_frame(paths=["/3311/*"]).mirror.wide().columns.tolist()
        ['/3311/0/5850', '/3311/0/5851']
        """
        frame = self._frame
        self._need("device_id", "path")
        if "event" in frame:
            return self._wide_events()
        if "reported_at" in frame:
            return wide(frame, columns=columns)
        if "bin" in frame:
            return self._wide_bins()
        cell = "kind" if "kind" in frame else "status"
        self._need(cell)
        last = frame.drop_duplicates(["device_id", "path"], keep="last").astype({cell: object})
        table = last.astype({"device_id": object, "path": object}).pivot(index="device_id", columns="path", values=cell)
        return table.rename_axis(columns=None)

    def join(
        self,
        other: pd.DataFrame,
        on: str | Sequence[str] | None = None,
        *,
        how: How = "left",
        suffix: str = "_other",
    ) -> pd.DataFrame:
        """Join another table to this one and keep the metadata, which pandas drops in a merge.

        If both tables have metadata, the result has the older timestamp and the ``server`` of both. It is complete only
        if both tables are. Categorical columns stay categorical. A named index, such as the index of :meth:`wide`,
        becomes a column.

        Args:
            other: The other table. If several of its rows match a row of this table, the result contains a row for each
                of them.
            on: The columns to join on, which both tables must have. The default is ``device_id`` and ``path``, or one
                of them if the tables do not share both. In a ``left`` or ``inner`` join on a categorical column, a
                missing value matches nothing.
            how: The tables whose rows are kept even if they have no match: ``left`` (this table), ``right`` (the other
                table), ``outer`` (both tables) or ``inner`` (neither table).
            suffix: The suffix for the name of a column of the other table if this table has a column of the same name.

        Returns:
            A new table. It cannot be refreshed. Instead, refresh the result of ``client.fleet.snapshot()`` and join
            again.

        Raises:
            ValueError: A column to join on has another type in the other table, or a column with the suffixed name
                already exists.
            InvalidValue: A table lacks a column of ``on`` or has it twice, ``on`` is empty, or ``how`` is not a kind of
                join.

        >>> rooms = pd.DataFrame({"endpoint_name": ["light-01"], "room": ["Hall"]})
        >>> state = client.state_frame([light])
        >>> table = state.mirror.join(rooms, on="endpoint_name")
        >>> table["room"].unique().tolist(), table.attrs == state.attrs
        (['Hall'], True)
        """
        return join(self._frame, other, on, how=how, suffix=suffix)

    def with_metadata_from(self, *originals: pd.DataFrame) -> pd.DataFrame:
        """Restore the metadata of a table after pandas dropped it, from the source tables.

        The metadata in ``attrs["mirror"]`` contain the timestamp of the table, the number of devices, and whether the
        table is complete. pandas keeps ``attrs`` when it selects, sorts or groups rows or changes columns, and in
        Parquet, Feather and pickle files. pandas drops ``attrs`` when it merges, joins or pivots tables, when it
        concatenates tables with different metadata, and in all other file formats.

        Args:
            *originals: The source tables. The result has the oldest of their timestamps. It is complete only if all
                source tables are.

        Raises:
            InvalidValue: None of the source tables has metadata.

        >>> state = client.state_frame()
        >>> read = state.merge(pd.DataFrame({"device_id": [light], "room": ["Hall"]}), on="device_id")
        >>> "mirror" in read.attrs, read.mirror.with_metadata_from(state).attrs == state.attrs
        (False, True)
        """
        return with_metadata_from(self._frame, originals)

    def for_excel(self) -> pd.DataFrame:
        r"""Convert the table to cells that Excel can store, as input for ``to_excel``.

        ``to_excel`` itself needs openpyxl or another package that pandas supports. The conversion changes:

        - times: Excel has no time zones, so the zone moves into the column name, such as ``reported_at (UTC)``;
        - durations and bytes: durations become seconds, such as ``latency (s)``, and bytes become hex digits;
        - unsupported cells: integers of 16 or more digits, times before March 1900, lists and all other values that a
          cell cannot store become strings;
        - formulas: a string that Excel might execute gets an apostrophe at its start, as in the CSV output of
          ``mirror``;
        - control characters: a character that a sheet cannot store becomes an escape sequence, such as ``\x1b``;
        - index: it becomes a column if it has a name, such as the index of :meth:`wide`, or if it does not consist of
          numbers;
        - column names: several levels are joined into one name.

        Raises:
            InvalidValue: The table exceeds a limit of Excel: 1,048,575 rows, 16,384 columns, or 32,767 characters in a
                string.

        >>> sheet = client.state_frame().mirror.for_excel()
        >>> sheet.to_excel(folder / "state.xlsx", index=False)
        >>> [name for name in sheet if "_at" in name]
        ['reported_at (UTC)', 'requested_at (UTC)', 'desired_at (UTC)', 'acknowledged_at (UTC)']
        """
        return for_excel(self._frame)

    def to_html(self) -> str:
        r"""Return the table as HTML, as notebooks display it. Use it for reports and for notebooks without IPython.

        Ids, paths and times are not wrapped, and ``—`` marks a missing value. The header of a column shows the time
        zone of times and the unit of durations: ``d``, ``h``, ``min`` or ``s``. The header of a column of numbers shows
        the unit if all rows have the same unit. Strings from devices are HTML-escaped, and invisible characters become
        escape sequences, such as ``\x1b``. The pandas options ``display.max_rows``, ``min_rows``, ``max_columns`` and
        ``max_colwidth`` limit the size of the table.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> "desired_num (%)" in client.state_frame([light], paths=["/3311/0/5851"]).mirror.to_html()
        True
        """
        return to_html(self._frame)

    def visible(self) -> pd.DataFrame:
        r"""Return a copy that is safe to print in a terminal, because strings from devices have no control characters.

        ``print(frame)`` writes these strings unchanged, including terminal escape sequences, line breaks and characters
        that change the writing direction. In the copy they are replaced by escapes such as ``\x1b`` and ``\u202e``.
        Columns of strings and categories of the copy have the dtype ``object``.

        >>> print(client.state_frame([light], paths=["/3311/0/5851"]).mirror.visible()["label"].to_string(index=False))
        Light Control · Dimmer
        """
        return visible_frame(self._frame)

    def pseudonymize(self, key: str | bytes, *, also: Iterable[str] = ()) -> pd.DataFrame:
        """Replace personal data with pseudonyms, so that you can share the table; see ``mirror help privacy``.

        The pseudonyms replace the ids and names of devices, also in the index, and the values of the resources listed
        in ``mirror help privacy``. ``attrs["mirror"]["pseudonymized"]`` reports what was replaced.

        Args:
            key: A secret string or bytes object of at least 16 bytes. The same key gives the same pseudonyms in every
                table.
            also: Additional personal strings, such as names of devices that are not in this table. Strings of the table
                that contain them are replaced.

        Raises:
            InvalidValue: The key is too short or missing, the table is already pseudonymized, or it has values but no
                column with their resources.

        >>> key = "qT4m-x8Wz-2bKd-7RfL"
        >>> state = client.state_frame(paths=["/3311/*"]).mirror.pseudonymize(key)
        >>> state["endpoint_name"].unique().tolist()
        ['name-fhx910pzyv54']
        """
        return pseudonymized_frame(self._frame, key, also=also)

    def refresh(self, client: _HasFleet[T_co]) -> T_co:
        """Return an updated copy of a table that ``client.fleet.snapshot()`` returned. Only the changes are fetched.

        If ``client`` is an :class:`~mirror_sdk.AsyncMirrorClient`, await the result. For the errors, see
        ``client.fleet.refresh()``.

        >>> client.fleet.snapshot(paths=["/3303/*"]).mirror.refresh(client)["path"].tolist()
        ['/3303/0/5700']
        """
        return client.fleet.refresh(self._frame)

    def drift(
        self,
        *,
        tolerance: float | Mapping[str, float] = 0.0,
        relative: float = 0.0,
        now: InstantLike | None = None,
        unconfirmed: bool = False,
        acknowledged: bool = False,
    ) -> pd.DataFrame:
        """Find the resources in a state table whose desired and reported values differ.

        For the arguments, columns and errors, see :func:`mirror_sdk.frames.drift_frame`.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.state_frame().mirror.drift()["kind"].tolist()
        ['never_reported']
        >>> client.read_value(light, "/3311/0/5850")
        False
        >>> client.write_value(light, "/3311/0/5850", True)
        >>> client.state_frame().mirror.drift(unconfirmed=True)["kind"].tolist()
        ['unconfirmed', 'never_reported']
        """
        return drift_frame(
            self._frame,
            tolerance=tolerance,
            relative=relative,
            now=now,
            unconfirmed=unconfirmed,
            acknowledged=acknowledged,
        )

    def stale(
        self,
        age: str | pd.Timedelta,
        *,
        by: Literal["resource", "device"] = "resource",
        never_read: bool = False,
        now: InstantLike | None = None,
        devices: Iterable[Device] | pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Find values in a state table that are too old, or the devices that have such values.

        Args:
            age: The maximum age of a value that is not stale, such as ``"1h"`` or ``"30min"``.
            by: ``"resource"`` returns the rows of stale values. ``"device"`` returns one row for each device with stale
                values. The device that was silent for longest comes first. See :func:`mirror_sdk.frames.stale_devices`
                for the columns.
            never_read: Whether to include values that were never reported.
            now: The time from which ages are measured, by the mirror's clock. The default is the timestamp of the
                table.
            devices: The result of ``client.devices.list()`` or its table, which supplies the ``last_contact`` of each
                device.

        Raises:
            InvalidValue: ``age`` is not a duration, ``by`` is invalid, ``devices`` is not the directory, or ``now`` is
                naive. It is also raised if the table has no timestamp in its metadata, or ``reported_at`` has no times.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> state = client.state_frame()
        >>> later = state["reported_at"].max() + pd.Timedelta("2h")
        >>> state.mirror.stale("1h", now=later)["path"].tolist()
        ['/3303/0/5700']
        >>> len(state.mirror.stale("1h", now=later, never_read=True))
        4
        >>> silent = state.mirror.stale("1h", by="device", now=later, devices=client.devices.list())
        >>> silent[["endpoint_name", "stale", "resources"]].values.tolist()
        [['station-01', 1, 1]]
        """
        self._need("reported_at")
        if by not in ("resource", "device"):
            raise InvalidValue(f'by={by!r} must be "resource" or "device"')
        stale = stale_rows(self._frame, age, never_read=never_read, now=now)
        if by == "resource":
            return stale
        self._need("device_id", "endpoint_name")
        return stale_devices(self._frame, stale, devices)

    def plot_timeline(
        self,
        *,
        paths: Sequence[str] | None = None,
        conditions: Sequence[DrawableCondition] = (),
        ax: Axes | None = None,
    ) -> Axes:
        """Plot the numbers of an events or history table over time, with one labeled line for each device and resource.

        A line is interrupted while its device is absent, and at each gap of the service. The label of the vertical axis
        has the unit if all lines have the same unit.

        The limits of a condition are drawn as horizontal lines. The intervals in which it is met for a plotted resource
        are shaded, by the time at which the values changed. The parts in which its state is unknown are hatched.

        Args:
            paths: The resources to plot; all by default. ``*`` at the end of a path matches anything.
            conditions: The conditions to draw, each of which is a :class:`mirror_sdk.Condition`.
            ax: The axes to draw on. By default, a new figure is created.

        Returns:
            The axes. The label of the horizontal axis has the time zone.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: ``paths`` is a single string, or ``conditions`` is not a list of conditions.
            InvalidValue: A pattern is invalid, or the table lacks a column that a condition needs.

        Warns:
            ConditionWarning: A condition does not apply to the type of some values.

        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_timeline().get_xlabel()
        'changed at (UTC)'
        """
        self._need("device_id", "path", "value_num", "changed_at")
        selected = checked_conditions(conditions)
        numbers = self._value_rows()
        numbers = numbers[numbers["value_num"].notna() & numbers["changed_at"].notna()]
        patterns = path_patterns(paths)
        if patterns is not None:
            numbers = numbers[[matches_any(patterns, str(path)) for path in numbers["path"]]]
        axes = axes_for(ax)
        ends = self._ends_of_lines()
        # pandas would also return unused categories of Arrow.
        keys = [numbers["device_id"].astype(object), numbers["path"].astype(object)]
        lines, columns = {}, ["changed_at", "value_num"]
        for (device_id, path), rows in numbers.groupby(keys, sort=False):
            own_ends = ends[ends["device_id"].isna() | (ends["device_id"] == device_id)]
            points = pd.concat([rows[columns].astype({"value_num": float}), own_ends[columns]])
            lines[str(device_id), str(path)] = points.sort_values("changed_at", kind="stable")
        names = line_names(lines, device_names(self._frame))
        for line, ordered in lines.items():
            name = names[line]
            axes.plot(
                ordered["changed_at"],
                ordered["value_num"],
                marker=".",
                drawstyle="steps-post",
                # matplotlib omits lines whose name begins with an underscore from the legend.
                label=f" {name}" if name.startswith("_") else name,
            )
        draw_conditions(axes, self._frame, selected, lines)
        zone = self._frame["changed_at"].dt.tz
        axes.set_xlabel(f"changed at ({zone})")
        unit = _common_unit(numbers)
        axes.set_ylabel(f"value ({unit})" if unit else "value", parse_math=False)
        if not numbers.empty:
            concise_dates(axes, zone)
            plain_legend(axes)
        axes.grid(visible=True, alpha=0.3)
        return axes

    def _ends_of_lines(self) -> pd.DataFrame:
        """Return the times at which the values of a device become unknown.

        A row without an id applies to all devices.
        """
        frame = self._frame
        is_end = frame["event"].isin(["gap", "deregistration", "expired"]) if "event" in frame else [False] * len(frame)
        found = frame.loc[is_end, ["device_id", "changed_at"]].dropna(subset=["changed_at"])
        # At NaN, matplotlib breaks a line.
        return found.assign(value_num=float("nan"))

    def _value_rows(self) -> pd.DataFrame:
        """Return the rows with a value from a device if this is an events or history table, else all rows."""
        frame = self._frame
        return frame[frame["event"].isin(["observation", "reported"])] if "event" in frame else frame

    def _wide_events(self) -> pd.DataFrame:
        frame, keys = self._value_rows(), ["changed_at", "device_id", "path"]
        cells = frame[keys].astype({"device_id": object, "path": object}).assign(value=value_column(frame, "value"))
        last = cells.drop_duplicates(keys, keep="last")
        return last.pivot(index="changed_at", columns=keys[1:], values="value").sort_index()

    def _wide_bins(self) -> pd.DataFrame:
        frame = self._frame.astype({"device_id": object, "path": object})
        statistics = [name for name in frame if name not in {"bin", "device_id", "endpoint_name", "path", "covered"}]
        keys = ["bin", "device_id", "path"]
        if frame.duplicated(keys).any():
            raise InvalidValue(
                'the table has several rows for a bin of a resource, as with how="duration"; use another statistic,'
                ' or frame.pivot_table(index="bin", columns=["device_id", "path", "value"], values="duration")'
            )
        values = statistics[0] if len(statistics) == 1 else statistics
        return frame.pivot(index="bin", columns=keys[1:], values=values).sort_index()

    def _of(self, prefix: Literal["value", "requested"]) -> Literal["value", "requested"]:
        self._need(*(f"{prefix}_{kind}" for kind in ("num", "text", "bool")))
        return prefix

    def _need(self, *names: str) -> None:
        missing = [name for name in names if name not in self._frame]
        if missing:
            raise InvalidValue(f"the table lacks {named_columns(missing)}; pass a table from client.*_frame()")


def _common_unit(numbers: pd.DataFrame) -> str:
    """Return the common unit of all lines in readable form.

    The unit is empty if the units differ or if the unit of a line is unknown. The first values of a line may have no
    unit, because devices often report the unit after them.
    """
    if "unit" not in numbers:
        return ""
    named = numbers[numbers["unit"].notna()]
    lines, named_lines = (set(zip(rows["device_id"], rows["path"], strict=True)) for rows in (numbers, named))
    units = named["unit"].unique()
    return visible(display_unit(str(units[0]))) if len(units) == 1 and lines == named_lines else ""


def mirror(frame: pd.DataFrame) -> MirrorAccessor:
    """Return ``frame.mirror``, for type checkers and editors that would treat ``frame.mirror`` as a column.

    >>> from mirror_sdk.frames import mirror
    >>> mirror(client.state_frame([station])).labels.tolist()
    ['Temperature · Sensor Value']
    """
    return MirrorAccessor(frame)
