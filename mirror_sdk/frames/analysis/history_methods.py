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
    """Analysis over time. :class:`~mirror_sdk.frames.MirrorAccessor` defines when a value is known."""

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
        """Compute statistics of each resource in bins of time, for a history or events table.

        A value holds until the next one, but not during gaps and silences, in which it is unknown; see
        :class:`~mirror_sdk.frames.MirrorAccessor`. A bin contains its start but not its end:

        - ``time_weighted_mean``: the mean of the known values, each weighted by how long it held. For booleans it is
          the share of the known time in which the value was true.
        - ``min``, ``max``: the least and the greatest of the values that were known in the bin or changed in it. For
          booleans they are 0 or 1.
        - ``last``: the last value that was known in the bin for some time.
        - ``count``: the number of values whose time (``changed_at``) is in the bin. Values that changed nothing count,
          and so do several values with the same time.
        - ``duration``: how long each known value held in the bin.
        - ``covered``, always included: the part of the bin in which a value was known, from 0 to 1.

        If a device changed the unit of a resource (column ``unit``), the method warns with
        :class:`~mirror_sdk.UnitWarning`. In a bin with several units, ``time_weighted_mean``, ``min`` and ``max`` are
        NA. An unknown unit (NA) counts as a different unit. If you know the unit, set the column ``unit`` first.

        Args:
            bin: Length of a bin, such as ``"15min"``, ``"1h"`` or ``"1D"``. Bins follow the local clock: they are
                counted from midnight if a day is a whole number of bins, else from Monday, January 5, 1970. A day on
                which the clock is changed has 23 or 25 hours, and an hour that occurs twice counts twice.
            how: One statistic or several; ``duration`` cannot be combined with others.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            begin: Start of the period; by default the start of the history, else the first row. Rows before ``begin``
                supply the values at that instant.
            end: End of the period; by default the end of the history, else the last row.
            state: The values before the first row: a state table, such as the result of ``client.as_of(begin)``.
            tz: Time zone of the bins and their column, such as ``"Europe/Berlin"``. By default the time zone of
                ``changed_at``.

        Returns:
            One row for each resource and bin, even if no value is known, in order of device, path and bin:

            {columns}

            The statistics are in the order in which you requested them. With ``duration`` there is one row for each bin
            and value instead, with the columns ``value`` (as ``last``) and ``duration`` (timedelta64[ms]).

        Raises:
            InvalidValue: The table lacks a column, or an argument is invalid. The statistic is not defined for strings,
                a column would mix strings with other values, or the result would exceed 50 million rows.

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
        """Measure how long each resource met a condition, such as being on or above a threshold.

        :class:`~mirror_sdk.frames.MirrorAccessor` defines when a value is known. From ``begin`` to ``end``:

        - ``known`` is the time for which a value is known.
        - ``duration`` is the time for which the value meets the condition, and ``share`` is ``duration / known``.
        - ``intervals`` is the number of unbroken intervals in which the value meets the condition, and ``longest`` is
          the length of the longest one.

        Without ``above``, ``below`` and ``equals``, the condition is that a boolean is true.

        Args:
            path: The resource; ``*`` at the end matches anything.
            above: The value must be greater than this number.
            below: The value must be less than this number. You can combine it with ``above``.
            equals: The value must be this number, boolean or text.
            per_interval: Whether to return one row for each interval, with its start and end.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: The values before the first row: a state table, such as the result of ``client.as_of(begin)``.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. By default the time zone of ``changed_at``.

        Returns:
            One row for each device and path that has a value, in order of device and path:

            {columns}

            With ``per_interval`` one row for each interval: ``device_id``, ``endpoint_name``, ``path``, ``begin``,
            ``end`` and ``duration``. ``begin_seen`` is true if a known value directly precedes the interval,
            and ``end_seen`` if one directly follows. Otherwise the interval may have been longer.

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
        """Measure how long each device was registered and in contact, for a history or events table.

        At each instant from ``begin`` to ``end``, a device has the first of these states that applies:

        - *unknown*: before the first row of the device, in a ``gap`` of the device or the service, or after the end of
          the table;
        - *absent*: after a ``deregistration`` or ``expired`` row and before the next ``registration`` or
          ``reg_update``. With ``silence_limit`` also after that time without contact. A value counts as a contact at
          its own time and, in a history, also at the time of receipt;
        - *available*: otherwise.

        ``availability`` is the available time divided by the available and absent time.

        The history has no row of a device that was silent throughout. Pass ``state`` to include such devices. For
        example, ``history.mirror.availability(state=client.as_of(begin), silence_limit="1h")`` finds devices that were
        silent. The values in ``state`` count as rows and contacts at their ``reported_at``. A state table contains no
        registrations, so a device that left before ``begin`` counts as available unless ``silence_limit`` applies.

        Args:
            silence_limit: How long a registered device may be without contact before it is absent; no limit by default.
            per_interval: Whether to return one row for each interval, with its start and end.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: More devices, and the times of their last values: a state table, such as ``client.as_of(begin)``.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. By default the time zone of ``changed_at``.

        Returns:
            One row for each device in the table or ``state``, in order of their ids:

            {columns}

            With ``per_interval`` one row for each interval: ``device_id``, ``endpoint_name``, ``presence``
            (``available``, ``absent`` or ``unknown``), ``begin``, ``end`` and ``duration``.

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
        """Compute the rate of a counter, even across resets, for a history or events table.

        A pair is two consecutive values, v at time s and w at time t, without an unknown interval between them:

        - ``increase`` is w - v. If w < v, the counter was reset to 0: ``increase`` is w, and ``reset`` is true.
        - ``rate`` is increase / ((t - s) / per).

        With ``bin``, the counter is assumed to rise evenly from s to t:

        - ``increase`` is the sum of the increases of all pairs, each multiplied by the share of [s, t) in the bin.
        - ``covered`` is the fraction of the bin that lies in [s, t) of some pair.
        - ``rate`` is the increase divided by the covered time, in units of ``per``.
        - ``resets`` is the number of resets whose t is in the bin.

        Args:
            path: The counter; ``*`` at the end matches anything.
            bin: Length of a bin, as in :meth:`resample`. By default the result has one row per pair.
            per: The unit of time of a rate: ``"1h"`` means the increase per hour.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            tz: The time zone of bins and times. By default the time zone of ``changed_at``.

        Returns:
            One row for each pair of values that is neither entirely before ``begin`` nor after ``end``:

            {columns}

            With ``bin`` one row for each resource and bin: ``bin``, ``device_id``, ``endpoint_name``, ``path``,
            ``increase``, ``rate``, ``resets`` (Int64) and ``covered``.

        Raises:
            InvalidValue: Some values are not numbers, the table lacks a column, or an argument cannot be used.

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
        """Line up resources in columns, one row per device and bin, for a history or events table.

        Each cell is the statistic ``how`` of the resource in the bin, as :meth:`resample` defines it. It is NA if no
        value is known, or if the device does not have the resource.

        Args:
            paths: The resources, in the order of the columns; ``*`` at the end of a path matches anything.
            on: Length of a bin, as in :meth:`resample`.
            how: The statistic, as in :meth:`resample`, except ``duration``.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: The values before the first row: a state table, such as the result of ``client.as_of(begin)``.
            tz: The time zone of the bins. By default the time zone of ``changed_at``.

        Returns:
            A frame with the index ``device_id`` and ``bin`` (its start), and a column for each path that has values:
            ``Float64``, ``boolean`` or ``string``, like its values.

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
        """Compare two periods, such as yesterday and today, for a history or events table.

        Both periods are divided into bins from their start. Each row compares two bins with the same offset from the
        start of their period. ``a`` and ``b`` are the statistic ``how`` in the bin of the first and the second period,
        as :meth:`resample` defines it. ``difference`` is b - a.

        Unlike the bins of :meth:`resample`, these bins do not follow the local clock. All have the same length, except
        that the last bin ends with the period.

        Args:
            begin_a: Start of the first period.
            begin_b: Start of the second period.
            length: Length of both periods.
            bin: Length of a bin; by default one bin of the whole length.
            how: The statistic, as in :meth:`resample`, except ``duration``.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            state: The values before the first row: a state table of the start of the earlier period.

        Returns:
            One row for each resource and offset, even if no value is known:

            {columns}

        Raises:
            InvalidValue: An instant is naive, the values are strings, the table lacks a column, or another argument is
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
        """List the intervals in which values are unknown, for a history or events table.

        The column ``reason`` has one of these values. Empty intervals are left out.

        - ``gap``: from ``changed_at`` to ``until`` of its row. If events were lost, the interval extends from the
          newest row before the loss to the first row after it that has a later time;
        - ``deregistration``, ``expired``: from ``changed_at`` of the row to the next registration or update of the
          device;
        - ``silent``: from the end of ``silence_limit`` after a contact to the next contact.

        Args:
            silence_limit: How long a device may be silent before values are unknown; no limit by default.
            begin: Only intervals that end after this instant; by default the start of the history, else the first row.
            end: Only intervals that begin before this instant; by default the end of the history, else the last row.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. By default the time zone of ``changed_at``.

        Returns:
            One row for each interval, in order of device and start. Intervals that affect all devices come first:

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
        """List values that arrived late, for a history or events table.

        A value is late if a newer value of the resource arrived before it, or if its delay exceeds ``longer_than``:

        - ``lag`` is how much older the value is than the newest value that arrived before it, or 0 if it is not older.
          Ages compare ``changed_at``. The order of arrival is that of ``revision`` or ``seq``, else of ``received_at``.
        - ``delay`` is ``received_at`` less ``changed_at``, including the difference between the two clocks. The
          service's clock sets ``received_at`` in a history, and the client's clock in an events table.

        Args:
            longer_than: The largest delay that is not late, such as ``"1min"``; no limit by default.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            begin: Only changes at this instant or later; by default the start of the history, else all.
            end: Only changes before this instant; by default the end of the history, else all.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. By default the time zone of ``changed_at``.

        Returns:
            One row for each late value, by device and path, in order of arrival:

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
        """Find values that stayed the same for long, such as those of stuck sensors, in a history or events table.

        An interval ends when the value changes or becomes unknown, such as in a gap. Pass ``silence_limit`` to
        distinguish a silent device from one that reports the same value. ``count`` is the number of values whose time
        is in the interval.

        Args:
            longer_than: The length that an interval must exceed, such as ``"1h"``.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: The values before the first row: a state table, such as the result of ``client.as_of(begin)``.
            tz: The time zone of the result, such as ``"Europe/Berlin"``. By default the time zone of ``changed_at``.

        Returns:
            One row for each interval between ``begin`` and ``end``, in order of device, path and start:

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
        """Plot :meth:`gaps`, one row per device, for the 30 devices with the longest gaps.

        Gaps that affect all devices are at the top.

        Args:
            silence_limit: How long a device may be silent before values are unknown; no limit by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            tz: The time zone of the axis. By default the time zone of ``changed_at``.
            ax: The axes to draw on; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: See :meth:`gaps`.

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
        """Plot :meth:`availability`, one row per device, for the 30 devices with the longest absences.

        Args:
            silence_limit: How long a registered device may be without contact before it is absent; no limit by default.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: More devices, as for :meth:`availability`.
            tz: The time zone of the axis. By default the time zone of ``changed_at``.
            ax: The axes to draw on; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: See :meth:`availability`.

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
        """Plot :meth:`late_arrivals`: the delay of each late value over the time at which it changed.

        Args:
            longer_than: The largest delay that is not late, such as ``"1min"``; no limit by default.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            begin: Only changes at this instant or later; by default the start of the history, else all.
            end: Only changes before this instant; by default the end of the history, else all.
            tz: The time zone of the axis. By default the time zone of ``changed_at``.
            ax: The axes to draw on; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: See :meth:`late_arrivals`.

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
        """Plot :meth:`unchanged`, one row per resource, for the 30 resources with the longest intervals.

        Args:
            longer_than: The length that an interval must exceed, such as ``"1h"``.
            paths: Only these resources; ``*`` at the end of a path matches anything.
            silence_limit: How long a value stays known after the last contact of its device. By default there is no
                limit.
            begin: Start of the period; by default the start of the history, else the first row.
            end: End of the period; by default the end of the history, else the last row.
            state: The values before the first row: a state table, such as the result of ``client.as_of(begin)``.
            tz: The time zone of the axis. By default the time zone of ``changed_at``.
            ax: The axes to draw on; a new figure by default.

        Raises:
            ImportError: matplotlib is not installed.
            InvalidValue: See :meth:`unchanged`.

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
