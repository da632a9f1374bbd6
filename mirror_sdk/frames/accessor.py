"""``frame.mirror``, or ``mirror(frame)``: the methods of tables of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import pandas as pd

from mirror_sdk._arguments import InstantLike, path_patterns
from mirror_sdk._fork import unlocked_property
from mirror_sdk._visible import visible
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.history_methods import HistoryMethods
from mirror_sdk.frames.axes import axes_for, concise_dates, device_names, plain_legend
from mirror_sdk.frames.columns import in_zone, named_columns
from mirror_sdk.frames.drift import drift_frame
from mirror_sdk.frames.excel import for_excel
from mirror_sdk.frames.html import to_html, visible_frame
from mirror_sdk.frames.joining import How, join, with_metadata_from
from mirror_sdk.frames.legend import label_of, line_names
from mirror_sdk.frames.stale import stale_devices, stale_rows
from mirror_sdk.frames.state import value_column, wide
from mirror_sdk.privacy.pandas_cells import pseudonymized_frame
from mirror_sdk.wire.declarations import display_unit
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.paths import matches_any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


T_co = TypeVar("T_co", covariant=True)


class _Refreshes(Protocol[T_co]):
    """A client's ``fleet``."""

    def refresh(self, frame: pd.DataFrame) -> T_co: ...


class _HasFleet(Protocol[T_co]):
    """A client."""

    # Declared as the clients declare it: pyright does not compare a property with another descriptor.
    @unlocked_property
    def fleet(self) -> _Refreshes[T_co]: ...


@pd.api.extensions.register_dataframe_accessor("mirror")
class MirrorAccessor(HistoryMethods):
    """Methods for state, events, history, requests and drift tables, and for any table with the columns they need.

    The analysis over time needs a history table or an events table; a recording has both.

    A value is known from the time of its row until the next row of the resource, or until an *unknown interval* begins:

    - a ``gap`` row: the service was down, or lost entries;
    - an absence of the device: from a ``deregistration`` or ``expired`` row to its next ``registration`` or
      ``reg_update``;
    - with ``silence_limit``, a silence of the device: no value, registration or update for longer than the limit. The
      interval begins when the limit is over.

    Of several rows of a resource in one millisecond, the one that arrived last has the value.

    After an unknown interval the value stays unknown until the device reports the resource again, even if the report
    has an older time. A device that returns may report a value that has not changed since before it left:

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

    - every interval that began up to r ended at or before r;
    - in the order of arrival, the row comes after the ``gap`` row or the registration that ended each of them;
    - no other row of the resource has a time in (s, r].

    In a history of the service, r is ``received_at``. In recordings and events tables, ``received_at`` is by the clock
    of the client and may be the same for many rows. There, r is the newest registration, deregistration, expiry or end
    of a gap that arrived before the row. So such a value is known from the return of its device on.

    Opaque values, NaN and missing values are unknown. Times are the device's own (``changed_at``), or that of the
    receipt if the device sent none. All rows of a device count, so select resources by ``paths=``, not by dropping
    rows.

    Raises:
        InvalidValue: The table lacks a column; the message names it.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def value(self) -> pd.Series:
        """One column of decoded values: the reported ones of a state or drift table, else the received ones.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.state_frame([station]).mirror.value.tolist()
        [21.5]
        """
        return value_column(self._frame, "reported" if "reported_num" in self._frame else self._of("value"))

    @property
    def desired(self) -> pd.Series:
        """One column of the decoded values that were requested.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.state_frame(paths=["/3311/0/5851"]).mirror.desired.tolist()
        [40.0]
        """
        return value_column(self._frame, "desired" if "desired_num" in self._frame else self._of("requested"))

    @property
    def labels(self) -> pd.Series:
        """The label of the resource of each row, else its path.

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
        """Return the table with its times in another zone, such as ``Europe/Berlin``.

        >>> client.state_frame().mirror.in_zone("Europe/Berlin")["reported_at"].dtype
        datetime64[ms, Europe/Berlin]
        """
        return in_zone(self._frame, tz)

    def wide(self, *, columns: Literal["path", "label"] = "path") -> pd.DataFrame:
        """Pivot the table: one row per device and one column per resource.

        The cells of a state table are the reported values, see :func:`mirror_sdk.frames.wide`. Those of a requests
        table are the status of the last request, those of a drift table its kinds. For an events table, the result has
        one row for each instant of a change, and one column for each device and resource. For a result of
        :meth:`resample` it has one row for each bin, and one column for each device and resource. With several
        statistics it has one column for each statistic, device and resource.

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
        """Join another table to this one, and keep the metadata, which ``merge`` of pandas drops.

        If both tables have metadata, the result has the instant of the older one and the ``server`` of both, and it is
        complete only if both are. With any other table, the metadata of this one stay. Categories stay categories, and
        an index with a name, such as that of :meth:`wide`, becomes a column.

        Args:
            other: The other table; each of its rows that matches is a row of the result.
            on: The columns to join on, which both tables must have; by default those of ``device_id`` and ``path`` that
                both have. In a ``left`` or ``inner`` join by a category, a missing value matches nothing.
            how: The rows to keep without a match: ``left`` those of this table, ``right``, ``inner``, ``outer``.
            suffix: Appended to the name of a column of the other table if this table has it too.

        Returns:
            A new table. It cannot be refreshed: refresh the one of ``client.fleet.snapshot()``, and join
            again.

        Raises:
            ValueError: A column has values of another type in the other table, or the suffix leads to a name that
                exists.
            InvalidValue: A table lacks a column of ``on`` or has it twice, ``on`` is empty, or ``how`` is not a join.

        >>> rooms = pd.DataFrame({"endpoint_name": ["light-01"], "room": ["Hall"]})
        >>> state = client.state_frame([light])
        >>> table = state.mirror.join(rooms, on="endpoint_name")
        >>> table["room"].unique().tolist(), table.attrs == state.attrs
        (['Hall'], True)
        """
        return join(self._frame, other, on, how=how, suffix=suffix)

    def with_metadata_from(self, *originals: pd.DataFrame) -> pd.DataFrame:
        """Return this table with the metadata of its source tables, if pandas dropped it.

        The metadata, ``attrs["mirror"]``, contains the instant of the table, the number of devices, and whether the
        table is complete. pandas keeps ``attrs`` when it selects, sorts, groups or changes columns, and in Parquet,
        Feather and pickle files. It drops them when it merges, joins or pivots tables, when it concatenates tables with
        different metadata, and in all other files.

        Args:
            *originals: The source tables. For several, the result is as old as the oldest, and complete only if all
                are.

        Raises:
            InvalidValue: None of them has metadata.

        >>> state = client.state_frame()
        >>> read = state.merge(pd.DataFrame({"device_id": [light], "room": ["Hall"]}), on="device_id")
        >>> "mirror" in read.attrs, read.mirror.with_metadata_from(state).attrs == state.attrs
        (False, True)
        """
        return with_metadata_from(self._frame, originals)

    def for_excel(self) -> pd.DataFrame:
        r"""Return the table for ``to_excel``, which needs openpyxl or another package that pandas names.

        Excel has no time zones: a column of times has the zone in its name, such as ``reported_at (UTC)``. Durations
        become seconds, ``latency (s)``, and bytes become hex digits. Integers of 16 digits and more become texts, and
        so do times before March 1900, lists, and all values that a cell cannot store. A text that might be executed
        starts with an apostrophe, as in the CSV of ``mirror``. A character that a sheet cannot store is an escape, such
        as ``\x1b``. An index becomes a column if it has a name, such as that of :meth:`wide`, or does not consist of
        numbers. Column names with several levels are joined.

        Raises:
            InvalidValue: The table has more than 1,048,575 rows or 16,384 columns, or a text of more than 32,767
                characters: the limits of Excel.

        >>> sheet = client.state_frame().mirror.for_excel()
        >>> sheet.to_excel(folder / "state.xlsx", index=False)
        >>> [name for name in sheet if "_at" in name]
        ['reported_at (UTC)', 'requested_at (UTC)', 'desired_at (UTC)', 'acknowledged_at (UTC)']
        """
        return for_excel(self._frame)

    def to_html(self) -> str:
        r"""Return the table as notebooks display it, for reports and for notebooks without IPython.

        Ids, paths and times stay in one line. ``—`` stands for a missing value. The header of times has their zone, and
        that of durations has their unit: ``d``, ``h``, ``min`` or ``s``, by the longest displayed one. The header of
        numbers has their unit if it is the same in all rows. For ``..._num`` columns that is the unit in the column
        ``unit``; for a table of :meth:`wide`, the unit of the column's resource. Texts of devices are escaped, and
        invisible characters become escapes, such as ``\x1b``. The number of rows and columns and the length of texts
        depend on the options of pandas: ``display.max_rows``, ``min_rows``, ``max_columns`` and ``max_colwidth``.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> "desired_num (%)" in client.state_frame([light], paths=["/3311/0/5851"]).mirror.to_html()
        True
        """
        return to_html(self._frame)

    def visible(self) -> pd.DataFrame:
        r"""Return a sanitized copy to print in a terminal, without control characters in the texts of devices.

        With ``print(frame)``, pandas writes the texts of devices unchanged, with escape sequences, line ends and marks
        that change the direction of writing. In the copy these are escapes, such as ``\x1b`` and ``\u202e``. Its
        columns of texts and categories have the dtype ``object``. The table itself is not changed.

        >>> print(client.state_frame([light], paths=["/3311/0/5851"]).mirror.visible()["label"].to_string(index=False))
        Light Control · Dimmer
        """
        return visible_frame(self._frame)

    def pseudonymize(self, key: str | bytes, *, also: Iterable[str] = ()) -> pd.DataFrame:
        """Return the table with pseudonyms for personal data, to share it; see :mod:`mirror_sdk.privacy`.

        This replaces ids and names of devices, even in the index, and the values of the resources listed in
        :mod:`mirror_sdk.privacy`. ``attrs["mirror"]["pseudonymized"]`` has a report of the replacements.

        Args:
            key: A secret text or bytes, of 16 bytes or more. Tables with one key have the same pseudonyms.
            also: Other texts to search for in unchanged texts, such as names of devices that are not in this table.

        Raises:
            InvalidValue: The key is too short or missing, the table has pseudonyms already, or it has values and no
                column with their resources.

        >>> key = "of the study of November, room 7"
        >>> state = client.state_frame(paths=["/3311/*"]).mirror.pseudonymize(key)
        >>> state["endpoint_name"].unique().tolist()
        ['name-yv60x8ph8361']
        """
        return pseudonymized_frame(self._frame, key, also=also)

    def refresh(self, client: _HasFleet[T_co]) -> T_co:
        """Return the current table of ``client.fleet.snapshot()``; only the changes are fetched.

        With an :class:`~mirror_sdk.AsyncMirrorClient`, await the result. The table itself is not changed.

        Arguments and errors are those of ``client.fleet.refresh()``.

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
        """Return the drift table of a state table; see :func:`mirror_sdk.frames.drift_frame`.

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
        """Return the rows of a state table whose value is older than ``age`` (``"1h"``, ``"30min"``), or their devices.

        Args:
            age: How old a value may be.
            by: ``"device"`` returns one row for each device with stale values, the longest silent first; see
                :func:`mirror_sdk.frames.stale_devices` for its columns.
            never_read: Whether values that were never reported are stale, too.
            now: The instant up to which ages are measured, by the mirror's clock; the instant of the table by default.
            devices: The result of ``client.devices.list()``, or its table; it has the ``last_contact`` of each device.

        Raises:
            InvalidValue: ``age`` is not a duration, ``by`` is invalid, ``devices`` is not the directory, or ``now``
                is naive. The table has no instant in its metadata, or ``reported_at`` has no times.

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

    def plot_timeline(self, *, paths: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw the numbers of an events or history table over time, with a named line for each device and resource.

        A line has a break at each absence of its device, and at each gap of the service. The vertical axis has the unit
        if it is the same for all lines.

        Args:
            paths: Only these resources; ``*`` at the end of a path matches anything.
            ax: The axes to draw on; a new figure by default.

        Returns:
            The axes, with the time zone on the horizontal one.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: ``paths`` is a single string.
            InvalidValue: A pattern is invalid.

        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_timeline().get_xlabel()
        'changed at (UTC)'
        """
        self._need("device_id", "path", "value_num", "changed_at")
        numbers = self._value_rows()
        numbers = numbers[numbers["value_num"].notna() & numbers["changed_at"].notna()]
        patterns = path_patterns(paths)
        if patterns is not None:
            numbers = numbers[[matches_any(patterns, str(path)) for path in numbers["path"]]]
        axes = axes_for(ax)
        ends = self._ends_of_lines()
        # For Arrow categories, pandas would also return those that do not occur.
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
        """Return the instants from which on the values of a device, or of all devices (no id), are unknown."""
        frame = self._frame
        is_end = frame["event"].isin(["gap", "deregistration", "expired"]) if "event" in frame else [False] * len(frame)
        found = frame.loc[is_end, ["device_id", "changed_at"]].dropna(subset=["changed_at"])
        # At NaN, matplotlib breaks a line.
        return found.assign(value_num=float("nan"))

    def _value_rows(self) -> pd.DataFrame:
        """Return the rows with a value from a device, of an events or history table; all rows of any other table."""
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
            raise InvalidValue(f"the table lacks {named_columns(missing)}; use one of client.*_frame()")


def _common_unit(numbers: pd.DataFrame) -> str:
    """Return the unit of all lines as people write it; empty if it is not the same or that of a line is unknown.

    The unit of the first values of a line may be unknown, since a device often names it after them.
    """
    if "unit" not in numbers:
        return ""
    named = numbers[numbers["unit"].notna()]
    lines, named_lines = (set(zip(rows["device_id"], rows["path"], strict=True)) for rows in (numbers, named))
    units = named["unit"].unique()
    return visible(display_unit(str(units[0]))) if len(units) == 1 and lines == named_lines else ""


def mirror(frame: pd.DataFrame) -> MirrorAccessor:
    """Return ``frame.mirror`` for type checkers and editors, which treat ``frame.mirror`` as a column.

    >>> from mirror_sdk.frames import mirror
    >>> mirror(client.state_frame([station])).labels.tolist()
    ['Temperature · Sensor Value']
    """
    return MirrorAccessor(frame)
