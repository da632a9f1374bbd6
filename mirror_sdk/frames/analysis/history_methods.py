"""Methods of ``frame.mirror`` that analyze a history or events table over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from mirror_sdk._arguments import InstantLike
from mirror_sdk.arrow_tables.columns import documented
from mirror_sdk.frames.analysis.alignment import COMPARED_COLUMNS, align, compare
from mirror_sdk.frames.analysis.availability import AVAILABILITY_COLUMNS, GAPS_COLUMNS, availability, gaps
from mirror_sdk.frames.analysis.durations import DURATIONS_COLUMNS, UNCHANGED_COLUMNS, durations, unchanged
from mirror_sdk.frames.analysis.late_arrivals import LATE_ARRIVALS_COLUMNS, late_arrivals
from mirror_sdk.frames.analysis.plots import draw_availability, draw_gaps, draw_late_arrivals, draw_unchanged
from mirror_sdk.frames.analysis.rates import RATES_COLUMNS, rates
from mirror_sdk.frames.analysis.resample import RESAMPLED_COLUMNS, Statistic, resample
from mirror_sdk.frames.analysis.timeline import Timeline, instant_in, span_of, timeline_of
from mirror_sdk.frames.plot_axes import device_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HistoryMethods:
    """Methods for analysis over time. :class:`~mirror_sdk.frames.MirrorAccessor` defines when a value is known."""

    _frame: pd.DataFrame

    def _timeline(self, **options: Any) -> Timeline:
        return timeline_of(self._frame, **options)

    @documented(RESAMPLED_COLUMNS)
    def resample(
        self,
        bin: str | pd.Timedelta,  # noqa: A002 - as the column of the result
        how: Statistic | Sequence[Statistic] = "time_weighted_mean",
        *,
        silence_limit: str | pd.Timedelta | None = None,
        paths: Sequence[str] | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Compute statistics of each resource in time bins. The table must be a history or events table.

        A value holds until the next value. During gaps and silences it is unknown; see
        :class:`~mirror_sdk.frames.MirrorAccessor`. A bin contains its start but not its end. The statistics are:

        - ``time_weighted_mean``: the mean of the known values, each weighted by how long it held. For booleans, it is
          the fraction of the known time during which the value was true.
        - ``min``, ``max``: the smallest and the largest of the values that were known in the bin or changed in it.
          Booleans count as 0 or 1.
        - ``last``: the last value that was known in the bin for some time.
        - ``count``: the number of values whose time (``changed_at``) is in the bin. Repeated values also count, and so
          do several values with the same time.
        - ``duration``: how long each known value held in the bin.
        - ``covered``, always included: the fraction of the bin in which a value was known, from 0 to 1.

        If a device changed the unit of a resource (column ``unit``), the method warns with
        :class:`~mirror_sdk.UnitWarning`. In a bin with several units, ``time_weighted_mean``, ``min`` and ``max`` are
        NA. An unknown unit (NA) counts as a different unit. If you know the unit, set the column ``unit`` first.

        Args:
            bin: The length of a bin, such as ``"15min"``, ``"1h"`` or ``"1D"``. Bins follow the local clock. They are
                counted from midnight if a day is a whole number of bins, else from Monday, January 5, 1970. A day on
                which the clock is changed has 23 or 25 hours, and an hour that occurs twice counts twice.
            how: A statistic or a list of statistics. ``duration`` cannot be combined with others.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            paths: The resources to include. By default, all are included. ``*`` at the end of a path matches anything.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history. Rows before ``begin`` supply the values at that time.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table, such as the result of ``client.as_of(begin)``. It supplies the values before the first
                row.
            tz: The time zone of the bins and of the column ``bin``, such as ``"Europe/Berlin"``. The default is the
                time zone of ``changed_at``.

        Returns:
            One row for each resource and bin, even if no value is known. Rows are sorted by device, path and bin:

            {columns}

            The statistics are in the order in which you requested them. With ``duration`` there is one row for each bin
            and value instead. These rows have the columns ``value`` (as ``last``) and ``duration`` (timedelta64[ms]).

        Raises:
            InvalidValue: The table lacks a column, or an argument is invalid. It is also raised if the statistic is not
                defined for strings, a column would mix strings with other values, or the result would exceed 50 million
                rows.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> begin = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> end = simulator.advance(1200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> warm = history.mirror.resample("1D", ["time_weighted_mean", "max"], end=end)
        >>> warm["time_weighted_mean"].tolist(), warm["max"].tolist()
        ([23.5], [24.5])
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return resample(timeline, span_of("bin", bin), how)

    @documented(DURATIONS_COLUMNS)
    def durations(
        self,
        path: str,
        *,
        above: float | None = None,
        below: float | None = None,
        equals: float | bool | str | None = None,
        per_interval: bool = False,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Measure how long the values of each resource met a condition, such as being above a threshold.

        :class:`~mirror_sdk.frames.MirrorAccessor` defines when a value is known. For the period from ``begin`` to
        ``end``:

        - ``known`` is the time for which a value is known.
        - ``duration`` is the time for which the value meets the condition, and ``share`` is ``duration / known``.
        - ``intervals`` is the number of uninterrupted intervals in which the value meets the condition, and ``longest``
          is the length of the longest one.

        Without ``above``, ``below`` and ``equals``, the condition is that a boolean is true.

        Args:
            path: The resource; ``*`` at the end matches anything.
            above: The value must be greater than this number.
            below: The value must be less than this number. It can be combined with ``above``.
            equals: The value must be this number, boolean or string.
            per_interval: Whether to return one row for each interval, with its start and end.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table, such as the result of ``client.as_of(begin)``. It supplies the values before the first
                row.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. The default is the time zone of
                ``changed_at``.

        Returns:
            One row for each device and path that has a value, sorted by device and path:

            {columns}

            With ``per_interval``, the result has one row for each interval, with the columns ``device_id``,
            ``endpoint_name``, ``path``, ``begin``, ``end`` and ``duration``. ``begin_seen`` is true if a known value
            directly precedes the interval, and ``end_seen`` if a known value directly follows. Otherwise the interval
            may have been longer.

        Raises:
            InvalidValue: The condition is invalid or not defined for the values, the table lacks a column, or another
                argument is invalid.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> _ = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> end = simulator.advance(1200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> warm = history.mirror.durations("/3303/0/5700", above=24, end=end)
        >>> str(warm["duration"][0]), warm["share"].round(2).tolist()
        ('0 days 00:20:00', [0.67])
        >>> history.mirror.durations("/3303/0/5700", above=24, end=end, per_interval=True)["end_seen"].tolist()
        [False]
        """
        timeline = self._timeline(paths=[path], silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return durations(timeline, above=above, below=below, equals=equals, per_interval=per_interval)

    @documented(AVAILABILITY_COLUMNS)
    def availability(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        per_interval: bool = False,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Measure how long each device was registered and in contact. The table must be a history or events table.

        At each time from ``begin`` to ``end``, a device has the first of these states that applies:

        - *unknown*: before the first row of the device, in a ``gap`` of the device or the service, or after the end of
          the table;
        - *absent*: after a ``deregistration`` or ``expired`` row and before the next ``registration`` or
          ``reg_update``. A device is also absent if it has had no contact for longer than ``silence_limit``. A value is
          a contact at the value's own time and, in a history, also at the time of its receipt;
        - *available*: otherwise.

        ``availability`` is the available time divided by the available and absent time.

        The history has no row of a device that was silent throughout the period. Pass ``state`` to include such
        devices. For example, ``history.mirror.availability(state=client.as_of(begin), silence_limit="1h")`` finds
        devices that were silent. The values in ``state`` count as rows and contacts at their ``reported_at``. A state
        table contains no registrations, so a device that left before ``begin`` counts as available unless
        ``silence_limit`` applies.

        Args:
            silence_limit: The time without contact after which a registered device is absent; no limit by default.
            per_interval: Whether to return one row for each interval, with its start and end.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table, such as ``client.as_of(begin)``. It supplies more devices and the times of their last
                values.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. The default is the time zone of
                ``changed_at``.

        Returns:
            One row for each device in the table or ``state``, sorted by device id:

            {columns}

            With ``per_interval``, the result has one row for each interval, with the columns ``device_id``,
            ``endpoint_name``, ``presence`` (``available``, ``absent`` or ``unknown``), ``begin``, ``end`` and
            ``duration``.

        Raises:
            InvalidValue: The table lacks a column, or an argument is invalid.

        >>> begin = simulator.advance(600)
        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> end = simulator.advance(300)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> there = history[history["device_id"] == station].mirror.availability(begin=begin, end=end)
        >>> there["availability"].tolist(), there["absences"].tolist()
        ([0.5], [1])
        """
        timeline = self._timeline(silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return availability(timeline, state, per_interval=per_interval)

    @documented(RATES_COLUMNS)
    def rates(
        self,
        path: str,
        *,
        bin: str | pd.Timedelta | None = None,  # noqa: A002 - as the column of the result
        per: str | pd.Timedelta = "1s",
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Compute the rate of a counter, even across resets. The table must be a history or events table.

        A pair is two consecutive values, v at time s and w at time t, without an unknown interval between them:

        - ``increase`` is w - v. If w < v, the counter was reset to 0: ``increase`` is w, and ``reset`` is true.
        - ``rate`` is increase / ((t - s) / per).

        With ``bin``, the counter is assumed to rise at a constant rate from s to t:

        - ``increase`` is the sum of the increases of all pairs, each multiplied by the share of [s, t) in the bin.
        - ``covered`` is the fraction of the bin that lies in [s, t) of any pair.
        - ``rate`` is the increase divided by the covered time, in units of ``per``.
        - ``resets`` is the number of resets whose t is in the bin.

        Args:
            path: The path of the counter; ``*`` at the end matches anything.
            bin: The length of a bin, as in :meth:`resample`. By default, the result has one row per pair.
            per: The unit of time of a rate. For example, ``"1h"`` means the increase per hour.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            tz: The time zone of bins and times. The default is the time zone of ``changed_at``.

        Returns:
            One row for each pair of values, except pairs that are entirely before ``begin`` or after ``end``:

            {columns}

            With ``bin``, the result has one row for each resource and bin, with the columns ``bin``, ``device_id``,
            ``endpoint_name``, ``path``, ``increase``, ``rate``, ``resets`` (Int64) and ``covered``.

        Raises:
            InvalidValue: Some values are not numbers, the table lacks a column, or an argument is invalid.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> _ = simulator.advance(1800)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> events = client.notifications.events_frame(after=0, timeout=0)
        >>> events.mirror.rates("/3303/0/5700", per="1h")["rate"].tolist()
        [6.0]
        """
        timeline = self._timeline(paths=[path], silence_limit=silence_limit, begin=begin, end=end, tz=tz)
        return rates(timeline, per=span_of("per", per), span=None if bin is None else span_of("bin", bin))

    def align(
        self,
        paths: Sequence[str] | None = None,
        on: str | pd.Timedelta = "1min",
        *,
        how: Statistic = "last",
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Put each resource path into a column of its own, with one row per device and time bin.

        The table must be a history or events table.

        Each cell is the statistic ``how`` of the resource in the bin, as :meth:`resample` defines it. The cell is NA if
        no value is known, or if the device does not have the resource.

        Args:
            paths: The resources, in the order of the columns; ``*`` at the end of a path matches anything.
            on: The length of a bin, as in :meth:`resample`.
            how: The statistic, as in :meth:`resample`, except ``duration``.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table, such as the result of ``client.as_of(begin)``. It supplies the values before the first
                row.
            tz: The time zone of the bins. The default is the time zone of ``changed_at``.

        Returns:
            A DataFrame with the index levels ``device_id`` and ``bin`` (the start of the bin). It has one column for
            each path that has values. The dtype of a column is ``Float64``, ``boolean`` or ``string``, depending on the
            values.

        Raises:
            InvalidValue: The table lacks a column, the statistic is not defined for the values, or an argument is
                invalid.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3311/*"]}])
        >>> simulator.register(light)
        >>> begin = simulator.advance(60)
        >>> simulator.set_value(light, "/3311/0/5850", True)
        >>> end = simulator.advance(60)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> side = history.mirror.align(["/3311/0/5851", "/3311/0/5850"], on="1min", begin=begin, end=end)
        >>> side["/3311/0/5851"].tolist(), side["/3311/0/5850"].tolist()
        ([10.0], [True])
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return align(timeline, span_of("on", on), how)

    @documented(COMPARED_COLUMNS)
    def compare(
        self,
        begin_a: InstantLike,
        begin_b: InstantLike,
        length: str | pd.Timedelta,
        *,
        bin: str | pd.Timedelta | None = None,  # noqa: A002 - as in the other methods
        how: Statistic = "time_weighted_mean",
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        state: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Compare two periods, such as yesterday and today. The table must be a history or events table.

        Both periods are divided into bins from their start. Each row compares two bins with the same offset from the
        start of their period. ``a`` and ``b`` are the statistic ``how`` in the bin of the first and the second period,
        as :meth:`resample` defines it. ``difference`` is b - a.

        Unlike in :meth:`resample`, bins do not follow the local clock. All bins have the same length, except that the
        last bin ends with the period.

        Args:
            begin_a: The start of the first period.
            begin_b: The start of the second period.
            length: The length of both periods.
            bin: The length of a bin. By default, there is one bin for the entire period.
            how: The statistic, as in :meth:`resample`, except ``duration``.
            paths: The resources to include. By default, all are included. ``*`` at the end of a path matches anything.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            state: A state table at the start of the earlier period. It supplies the values before the first row.

        Returns:
            One row for each resource and offset, even if no value is known:

            {columns}

        Raises:
            InvalidValue: A start is naive, the values are strings, the table lacks a column, or another argument is
                invalid.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> before = simulator.get_clock()
        >>> after = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 24.5)
        >>> _ = simulator.advance(600)
        >>> simulator.set_value(station, "/3303/0/5700", 25.0)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.compare(before, after, "10min")["difference"].tolist()
        [3.0]
        """
        span = span_of("length", length)
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, state=state)
        begins = [instant_in(self._frame, name, one) for name, one in (("begin_a", begin_a), ("begin_b", begin_b))]
        return compare(timeline, begins, span, None if bin is None else span_of("bin", bin), how)

    @documented(GAPS_COLUMNS)
    def gaps(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """List the intervals in which values are unknown. The table must be a history or events table.

        The column ``reason`` has one of these values. Empty intervals are omitted.

        - ``gap``: from ``changed_at`` to ``until`` of the ``gap`` row. If events were lost, the interval extends from
          the newest row before the loss to the first row after it with a later time;
        - ``deregistration``, ``expired``: from ``changed_at`` of the row to the next registration or registration
          update of the device;
        - ``silent``: from the time at which ``silence_limit`` after a contact has elapsed, to the next contact.

        Args:
            silence_limit: The time without contact after which values are unknown; no limit by default.
            begin: Intervals that end before this time are omitted. The default is the start of the history, or the
                first row if the table is not a history.
            end: Intervals that begin after this time are omitted. The default is the end of the history, or the last
                row if the table is not a history.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. The default is the time zone of
                ``changed_at``.

        Returns:
            One row for each interval, sorted by device and start. Intervals that affect all devices come first:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument is invalid.

        >>> _ = simulator.advance(600)
        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> silent = client.notifications.events_frame(after=0, timeout=0).mirror.gaps()
        >>> silent["reason"].tolist(), str(silent["duration"][0])
        (['deregistration'], '0 days 00:05:00')
        """
        return gaps(self._timeline(silence_limit=silence_limit, begin=begin, end=end, tz=tz))

    @documented(LATE_ARRIVALS_COLUMNS)
    def late_arrivals(
        self,
        longer_than: str | pd.Timedelta | None = None,
        *,
        paths: Sequence[str] | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """List values that arrived late. The table must be a history or events table.

        A value is late if a newer value of the resource arrived before it, or if its delay exceeds ``longer_than``:

        - ``lag`` is the age of the value relative to the newest value that arrived before it, or 0 if the value is not
          older. Ages compare ``changed_at``. The order of arrival is the order of ``revision`` or ``seq``, or else of
          ``received_at``.
        - ``delay`` is ``received_at`` minus ``changed_at``. It includes the difference between the two clocks. The
          clock of the service sets ``received_at`` in a history, and the clock of the client in an events table.

        Args:
            longer_than: The largest delay that does not count as late, such as ``"1min"``. By default, only the order
                of arrival counts.
            paths: The resources to include. By default, all are included. ``*`` at the end of a path matches anything.
            begin: Changes before this time are omitted. The default is the start of the history. If the table is not a
                history, all changes are included.
            end: Changes at or after this time are omitted. The default is the end of the history. If the table is not a
                history, all changes are included.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. The default is the time zone of
                ``changed_at``.

        Returns:
            One row for each late value, sorted by device and path, then in order of arrival:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument is invalid.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> len(client.notifications.events_frame(after=0, timeout=0).mirror.late_arrivals())
        0
        """
        limit = None if longer_than is None else span_of("longer_than", longer_than)
        return late_arrivals(self._timeline(paths=paths, begin=begin, end=end, tz=tz), limit)

    @documented(UNCHANGED_COLUMNS)
    def unchanged(
        self,
        longer_than: str | pd.Timedelta,
        *,
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
    ) -> pd.DataFrame:
        """Find values that did not change for a long time, for example because a sensor is stuck.

        The table must be a history or events table. An interval ends when the value changes or becomes unknown, for
        example in a gap. Pass ``silence_limit`` to distinguish a silent device from a device that reports the same
        value. ``count`` is the number of values whose time is in the interval.

        Args:
            longer_than: The duration that an interval must exceed, such as ``"1h"``.
            paths: The resources to include. By default, all are included. ``*`` at the end of a path matches anything.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table, such as the result of ``client.as_of(begin)``. It supplies the values before the first
                row.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. The default is the time zone of
                ``changed_at``.

        Returns:
            One row for each interval between ``begin`` and ``end``, sorted by device, path and start:

            {columns}

        Raises:
            InvalidValue: The table lacks a column, or an argument is invalid.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> end = simulator.advance(7200)
        >>> stuck = client.notifications.events_frame(after=0, timeout=0).mirror.unchanged("1h", end=end)
        >>> stuck["value_num"].tolist(), stuck["ongoing"].tolist()
        ([21.5], [True])
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        return unchanged(timeline, span_of("longer_than", longer_than))

    def plot_gaps(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot :meth:`gaps` with one row per device.

        The plot has at most 30 devices, which are those with the longest gaps.

        Gaps that affect all devices are at the top.

        Args:
            silence_limit: The time without contact after which values are unknown; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            tz: The time zone of the axis. The default is the time zone of ``changed_at``.
            ax: The axes to draw on. By default, a new figure is created.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: The table or an argument is invalid; see :meth:`gaps`.

        >>> simulator.deregister(station)
        >>> _ = simulator.advance(300)
        >>> simulator.register(station)
        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_gaps().get_yticklabels()[0].get_text()
        'station-01'
        """
        timeline = self._timeline(silence_limit=silence_limit, begin=begin, end=end, tz=tz)
        return draw_gaps(timeline, gaps(timeline), device_names(self._frame), ax)

    def plot_availability(
        self,
        *,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot :meth:`availability` with one row per device.

        The plot has at most 30 devices, which are those with the longest absences.

        Args:
            silence_limit: The time without contact after which a registered device is absent; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table that supplies more devices, as for :meth:`availability`.
            tz: The time zone of the axis. The default is the time zone of ``changed_at``.
            ax: The axes to draw on. By default, a new figure is created.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: The table or an argument is invalid; see :meth:`availability`.

        >>> end = simulator.advance(300)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.plot_availability(end=end).get_title(loc="left")
        'availability of devices'
        """
        timeline = self._timeline(silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        names = device_names(self._frame, *([] if state is None else [state]))
        return draw_availability(timeline, availability(timeline, state, per_interval=True), names, ax)

    def plot_late_arrivals(
        self,
        longer_than: str | pd.Timedelta | None = None,
        *,
        paths: Sequence[str] | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot the delay of each value in :meth:`late_arrivals` over the time at which it changed.

        Args:
            longer_than: The largest delay that does not count as late, such as ``"1min"``. By default, only the order
                of arrival counts.
            paths: The resources to include. By default, all are included. ``*`` at the end of a path matches anything.
            begin: Changes before this time are omitted. The default is the start of the history. If the table is not a
                history, all changes are included.
            end: Changes at or after this time are omitted. The default is the end of the history. If the table is not a
                history, all changes are included.
            tz: The time zone of the axis. The default is the time zone of ``changed_at``.
            ax: The axes to draw on. By default, a new figure is created.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: The table or an argument is invalid; see :meth:`late_arrivals`.

        >>> client.notifications.events_frame(after=0, timeout=0).mirror.plot_late_arrivals().get_ylabel()
        'delay (s)'
        """
        limit = None if longer_than is None else span_of("longer_than", longer_than)
        timeline = self._timeline(paths=paths, begin=begin, end=end, tz=tz)
        return draw_late_arrivals(timeline, late_arrivals(timeline, limit), ax)

    def plot_unchanged(
        self,
        longer_than: str | pd.Timedelta,
        *,
        paths: Sequence[str] | None = None,
        silence_limit: str | pd.Timedelta | None = None,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        state: pd.DataFrame | None = None,
        tz: str | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Plot :meth:`unchanged` with one row per resource.

        The plot has at most 30 resources, which are those with the longest intervals.

        Args:
            longer_than: The duration that an interval must exceed, such as ``"1h"``.
            paths: The resources to include. By default, all are included. ``*`` at the end of a path matches anything.
            silence_limit: The time that a value stays known after the last contact of its device; no limit by default.
            begin: The start of the period. The default is the start of the history, or the first row if the table is
                not a history.
            end: The end of the period. The default is the end of the history, or the last row if the table is not a
                history.
            state: A state table, such as the result of ``client.as_of(begin)``. It supplies the values before the first
                row.
            tz: The time zone of the axis. The default is the time zone of ``changed_at``.
            ax: The axes to draw on. By default, a new figure is created.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: The table or an argument is invalid; see :meth:`unchanged`.

        >>> client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])
        >>> simulator.register(station)
        >>> end = simulator.advance(7200)
        >>> history = client.notifications.events_frame(after=0, timeout=0)
        >>> history.mirror.plot_unchanged("1h", end=end).get_yticklabels()[0].get_text()
        'station-01 Temperature · Sensor Value'
        """
        timeline = self._timeline(paths=paths, silence_limit=silence_limit, begin=begin, end=end, state=state, tz=tz)
        intervals = unchanged(timeline, span_of("longer_than", longer_than))
        return draw_unchanged(timeline, intervals, device_names(self._frame), ax)
