"""``frame.mirror``, or ``mirror(frame)``: the methods of tables of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import pandas as pd

from mirror_sdk._arguments import InstantLike, path_patterns
from mirror_sdk._fork import unlocked_property
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.history_methods import HistoryMethods
from mirror_sdk.frames.axes import axes_for, device_names, plain_legend
from mirror_sdk.frames.columns import in_zone
from mirror_sdk.frames.drift import drift_frame
from mirror_sdk.frames.excel import for_excel
from mirror_sdk.frames.html import to_html, visible_frame
from mirror_sdk.frames.joining import How, join, with_metadata_from
from mirror_sdk.frames.legend import label_of, line_names
from mirror_sdk.frames.stale import stale_devices, stale_rows
from mirror_sdk.frames.state import value_column, wide
from mirror_sdk.privacy.pandas_cells import pseudonymized_frame
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

    The analysis over time takes a history or events table, also of a recording. A value is a step: v(t) is the value in
    the last row of the resource at or before t (of several rows in one millisecond, the one that arrived last). It is
    known at t unless an interval in which nothing is known began at or after that row, and at or before t:

    - a ``gap`` row: the service was down, or lost entries;
    - a ``deregistration`` or ``expired`` row of the device, until its next ``registration`` or ``reg_update``;
    - with ``silence_limit``, a silence of the device: no value, registration or update for longer than the limit. The
      interval begins when the limit is over.

    A value from before such an interval is unknown in it and after it, until the resource is reported again. That may
    also happen with an older time: by a device that is back and reports a value that has not changed since before it
    left. A row with ``changed_at`` s that arrived at r gives the value at s, and again at r, from which on the value is
    known, if

    - an interval began in [s, r], and all that began until r ended at or before it;
    - the row arrived, in the order of the table, after the ``gap`` row or the registration that ended each;
    - no row of the resource has a time in (s, r].

    A row that arrived while its device was leaving, or twice without an interval in between, is not repeated by that.
    In a history of the service r is ``received_at``. In recordings and events tables ``received_at`` is by the clock of
    the client and may be the same for many rows. There r is the newest registration, deregistration, expiry or end of a
    gap that arrived before, so a repeated value is known from the return of its device on.

    Opaque values, NaN and none are unknown. Times are the device's own (``changed_at``), or that of the receipt if the
    device sent none. All rows of a device count, so choose resources by ``paths=``, not by dropping rows.

    Raises:
        InvalidValue: The table lacks a column; the message names it.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def value(self) -> pd.Series:
        """One column of readable values: the reported ones of a state or drift table, else those that came.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.state_frame([station]).mirror.value.tolist()
        [21.5]
        """
        return value_column(self._frame, "reported" if "reported_num" in self._frame else self._of("value"))

    @property
    def desired(self) -> pd.Series:
        """One column of the readable values that were requested.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.state_frame(paths=["/3311/0/5851"]).mirror.desired.tolist()
        [40.0]
        """
        return value_column(self._frame, "desired" if "desired_num" in self._frame else self._of("requested"))

    @property
    def labels(self) -> pd.Series:
        """What each row is called: the label of its resource, else its path.

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
        """The same table with its times in another zone, such as ``Europe/Berlin``.

        >>> client.state_frame().mirror.in_zone("Europe/Berlin")["reported_at"].dtype
        datetime64[ms, Europe/Berlin]
        """
        return in_zone(self._frame, tz)

    def wide(self, *, columns: Literal["path", "label"] = "path") -> pd.DataFrame:
        """One row per device and one column per resource.

        A state table shows the reported values, see :func:`mirror_sdk.frames.wide`; a requests table how the last
        request of each stands, a drift table its kinds. An events table has one row for each moment something changed,
        and one column for each device and resource. What :meth:`resample` gave has one row for each bin, and one column
        for each device and resource; of several statistics for each statistic, device and resource.

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
        shown = "kind" if "kind" in frame else "status"
        self._need(shown)
        last = frame.drop_duplicates(["device_id", "path"], keep="last").astype({shown: object})
        table = last.astype({"device_id": object, "path": object}).pivot(
            index="device_id", columns="path", values=shown
        )
        return table.rename_axis(columns=None)

    def join(
        self,
        other: pd.DataFrame,
        on: str | Sequence[str] | None = None,
        *,
        how: How = "left",
        suffix: str = "_other",
    ) -> pd.DataFrame:
        """This table with the columns of another one, which keeps what it is based on; ``merge`` of pandas drops that.

        Of two tables of a mirror the result is as old as the older one, and complete only if both are; its ``server``
        names both. With any other table, what this one is based on stays. Categories stay categories, and an index
        with a name, such as that of :meth:`wide`, is a column like others.

        Args:
            other: The other table; each of its rows that matches is a row of the result.
            on: The columns that both have and that must be equal; ``device_id`` and ``path``, as far as both have
                them, by default. A missing one equals nothing in a ``left`` and an ``inner`` join by a category.
            how: Which rows stay where nothing matches: ``left`` those of this table, ``right``, ``inner``, ``outer``.
            suffix: Appended to the name of a column of the other table if this table has it too.

        Returns:
            A new table. It cannot be refreshed: refresh the one of ``client.fleet.snapshot()``, and join
            again.

        Raises:
            ValueError: A column has values of another type in the other table, or the suffix makes no new name.
            InvalidValue: A table lacks a column of ``on`` or has it twice, there is none to join by, or ``how`` is no
                way to join.

        >>> rooms = pd.DataFrame({"endpoint_name": ["light-01"], "room": ["Hall"]})
        >>> state = client.state_frame([light])
        >>> table = state.mirror.join(rooms, on="endpoint_name")
        >>> table["room"].unique().tolist(), table.attrs == state.attrs
        (['Hall'], True)
        """
        return join(self._frame, other, on, how=how, suffix=suffix)

    def with_metadata_from(self, *originals: pd.DataFrame) -> pd.DataFrame:
        """Return this table with the metadata of the tables it was made from, where pandas dropped it.

        The metadata, ``attrs["mirror"]``, says when the table was taken, of how many devices, and if it is complete.
        pandas keeps ``attrs`` when it selects, sorts, groups or changes columns and in Parquet, Feather and pickle
        files; it drops them when it merges, joins, pivots or concatenates tables with different metadata and in
        all other files.

        Args:
            *originals: The tables it was made from. Of several: as old as the oldest, and complete only if all are.

        Raises:
            InvalidValue: None of them has metadata.

        >>> state = client.state_frame()
        >>> read = state.merge(pd.DataFrame({"device_id": [light], "room": ["Hall"]}), on="device_id")
        >>> "mirror" in read.attrs, read.mirror.with_metadata_from(state).attrs == state.attrs
        (False, True)
        """
        return with_metadata_from(self._frame, originals)

    def for_excel(self) -> pd.DataFrame:
        r"""The same table as ``to_excel`` takes it, which needs openpyxl or another package that pandas names.

        A sheet knows no time zones: a column of times is without one, and has it in its name, such as ``reported_at
        (UTC)``. Spans are seconds, ``latency (s)``, bytes are hex digits. Integers of 16 digits and more are texts, and
        so are times before March 1900, lists, and whatever else a cell does not take. A text that might be executed has
        an apostrophe in front, as in the CSV of ``mirror``; a character that a sheet cannot hold is an escape, such as
        ``\x1b``. An index with a name, such as that of :meth:`wide`, or of more than numbers is a column, and names
        of several parts are one.

        Raises:
            InvalidValue: The table has more than 1,048,575 rows or 16,384 columns, or a text of more than 32,767
                characters, which Excel does not take.

        >>> sheet = client.state_frame().mirror.for_excel()
        >>> sheet.to_excel(folder / "state.xlsx", index=False)
        >>> [name for name in sheet if "_at" in name]
        ['reported_at (UTC)', 'requested_at (UTC)', 'desired_at (UTC)', 'acknowledged_at (UTC)']
        """
        return for_excel(self._frame)

    def to_html(self) -> str:
        r"""The table as notebooks show it, for reports and for notebooks that are not IPython's.

        Ids, paths and times stay in one line. ``—`` is what is missing. A header has the zone of its times, the unit
        of its spans (``d``, ``h``, ``min`` or ``s``, by the longest that is shown), and the unit of its numbers where
        all of the table are in one: of the columns ``..._num`` the one in ``unit``, of those of :meth:`wide` that of
        the resource. Texts of devices are escaped, and what cannot be seen in them is an escape, such as ``\x1b``.
        How many rows and columns there are, and how long texts may be, say the options of pandas: ``display.max_rows``,
        ``min_rows``, ``max_columns``, ``max_colwidth``.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> "desired_num (%)" in client.state_frame([light], paths=["/3311/0/5851"]).mirror.to_html()
        True
        """
        return to_html(self._frame)

    def visible(self) -> pd.DataFrame:
        r"""A copy to print in a terminal, in which nothing that a device wrote acts on the screen.

        ``print(frame)`` is of pandas, which writes the texts of devices as they are, with escape sequences, line ends
        and marks that turn the direction of writing. In the copy these are escapes, such as ``\x1b`` and ``\u202e``;
        columns of texts and categories have the dtype ``object``. The table itself keeps the data as it came.

        >>> print(client.state_frame([light], paths=["/3311/0/5851"]).mirror.visible()["label"].to_string(index=False))
        Light Control · Dimmer
        """
        return visible_frame(self._frame)

    def pseudonymize(self, key: str | bytes, *, also: Iterable[str] = ()) -> pd.DataFrame:
        """Return the table with pseudonyms for personal data, to share it; see :mod:`mirror_sdk.privacy`.

        Ids and names of devices, in the index too, and the values of the resources that are listed there. The report of
        what was replaced stands in ``attrs["mirror"]["pseudonymized"]``.

        Args:
            key: A text or bytes, of 16 bytes or more, that is kept secret. Tables of one key have the same pseudonyms.
            also: Other texts to look for in those that stay, such as names of devices that are not in this table.

        Raises:
            InvalidValue: The key is too short or none, the table has pseudonyms already, or it has values and no column
                says of which resources.

        >>> key = "of the study of November, room 7"
        >>> state = client.state_frame(paths=["/3311/*"]).mirror.pseudonymize(key)
        >>> state["endpoint_name"].unique().tolist()
        ['name-yv60x8ph8361']
        """
        return pseudonymized_frame(self._frame, key, also=also)

    def refresh(self, client: _HasFleet[T_co]) -> T_co:
        """The table of ``client.fleet.snapshot()`` as it would be now; only what changed is fetched.

        With an :class:`~mirror_sdk.AsyncMirrorClient` it is to be awaited. The table itself stays as it is.

        Arguments and errors as for ``client.fleet.refresh()``.

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
        """The drift table of a state table; see :func:`mirror_sdk.frames.drift_frame`.

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
        """The rows of a state table whose value is older than ``age`` (``"1h"``, ``"30min"``), or their devices.

        Args:
            age: How old a value may be.
            by: ``"device"`` gives one row for each device with stale values, the longest silent first; see
                :func:`mirror_sdk.frames.stale_devices` for its columns.
            never_read: Whether what was never reported is stale too.
            now: From which moment on it is counted back, by the mirror's clock; the moment of the table by default.
            devices: What ``client.devices.list()`` gave, or its table: tells ``last_contact`` by device.

        Raises:
            InvalidValue: ``age`` is not a duration, ``by`` is neither of the two, ``devices`` is not the directory,
                ``now`` is naive, no moment is known, or ``reported_at`` holds no times.

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
            raise InvalidValue(f'by={by!r} is neither "resource" nor "device"; give one of these')
        stale = stale_rows(self._frame, age, never_read=never_read, now=now)
        if by == "resource":
            return stale
        self._need("device_id", "endpoint_name")
        return stale_devices(self._frame, stale, devices)

    def plot_timeline(self, *, paths: Sequence[str] | None = None, ax: Axes | None = None) -> Axes:
        """Draw the numbers of an events or history table over time, a line for each device and resource, with its name.

        A line is broken where its device left, and where the service received nothing.

        Args:
            paths: Only these resources; a ``*`` at the end of one stands for anything.
            ax: Where to draw; a new figure by default.

        Returns:
            The axes, with the time zone on the horizontal one.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: A pattern is not one.

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
        # Of categories of Arrow's, pandas would also give those that do not occur.
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
                # A line whose name begins with that is left out of the legend.
                label=f" {name}" if name.startswith("_") else name,
            )
        axes.set_xlabel(f"changed at ({self._frame['changed_at'].dt.tz})")
        units = list(numbers["unit"].unique()) if "unit" in numbers else []
        axes.set_ylabel(f"value ({units[0]})" if len(units) == 1 and isinstance(units[0], str) else "value")
        if not numbers.empty:
            plain_legend(axes)
        axes.grid(visible=True, alpha=0.3)
        return axes

    def _ends_of_lines(self) -> pd.DataFrame:
        """Return when nothing more was known of a device, or of all (no id), of an events or history table."""
        frame = self._frame
        is_end = frame["event"].isin(["gap", "deregistration", "expired"]) if "event" in frame else [False] * len(frame)
        found = frame.loc[is_end, ["device_id", "changed_at"]].dropna(subset=["changed_at"])
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
        shown = [name for name in frame if name not in {"bin", "device_id", "endpoint_name", "path", "covered"}]
        keys = ["bin", "device_id", "path"]
        if frame.duplicated(keys).any():
            raise InvalidValue(
                'the table has several rows for a bin of a resource, as how="duration" gives; take another statistic,'
                ' or frame.pivot_table(index="bin", columns=["device_id", "path", "value"], values="duration")'
            )
        return frame.pivot(index="bin", columns=keys[1:], values=shown[0] if len(shown) == 1 else shown).sort_index()

    def _of(self, prefix: Literal["value", "requested"]) -> Literal["value", "requested"]:
        self._need(*(f"{prefix}_{kind}" for kind in ("num", "text", "bool")))
        return prefix

    def _need(self, *names: str) -> None:
        missing = [name for name in names if name not in self._frame]
        if missing:
            raise InvalidValue(f"the table lacks the column {', '.join(missing)}; take one that client.*_frame() makes")


def mirror(frame: pd.DataFrame) -> MirrorAccessor:
    """``frame.mirror``, in a way that type checkers and editors know: to them ``frame.mirror`` is a column.

    >>> from mirror_sdk.frames import mirror
    >>> mirror(client.state_frame([station])).labels.tolist()
    ['Temperature · Sensor Value']
    """
    return MirrorAccessor(frame)
